"""The Clojure form: the same regression fails the same checks; an oracle without nbb gives no verdict."""

from __future__ import annotations

import pytest

from recurve_eval.benchmarks.permutation import MAIN, Permutation
from recurve_eval.benchmarks.permutation_clj import SOURCE, PermutationClj, missing
from recurve_eval.benchmarks.permutation_faults import regression
from recurve_eval.domain import Grade, OracleVerdict, Submission, UnscoredReason
from recurve_eval.errors import ConfigError
from recurve_eval.oracle.process import ProcessOracle


@pytest.fixture(scope="module")
def seeded_grade() -> Grade:
    bench, oracle = PermutationClj(), ProcessOracle()
    try:
        seeded = {SOURCE: bench.task(MAIN).public[SOURCE]}
        return oracle.grade(bench.oracle_job(MAIN, Submission.of_reference("seeded", seeded)))
    finally:
        oracle.close()


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_the_seeded_source_fails_the_checks_that_it_fails_in_python(seeded_grade: Grade) -> None:
    assert seeded_grade.verdict is OracleVerdict.FAIL
    assert set(seeded_grade.failed) == set(regression().fails)


@pytest.mark.skipif(missing() is None, reason="this machine has Node and nbb")
def test_an_oracle_without_node_gives_no_verdict(seeded_grade: Grade) -> None:
    assert (seeded_grade.verdict, seeded_grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.ORACLE_ERROR)


def test_the_same_checks_are_demanded() -> None:
    of = [
        bench.oracle_job(MAIN, Submission.of_reference("t", {})).expected for bench in (Permutation(), PermutationClj())
    ]
    assert of[0] == of[1]


def test_what_is_public_speaks_of_clojure() -> None:
    task = PermutationClj().task(MAIN)
    assert "permutation.py" not in task.statement and "ValueError" not in task.statement
    assert task.capture.paths[0] == SOURCE and {SOURCE, "README.md"} <= set(task.public)


def test_there_is_no_impossible_half() -> None:
    with pytest.raises(ConfigError, match="task=permutation has one"):
        PermutationClj(variant="impossible").task_ids()
