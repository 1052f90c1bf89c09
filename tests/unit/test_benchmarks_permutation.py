"""The permutation benchmark: what is checked, which fault fails what, what reaches a grading, what is pinned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.benchmarks import permutation_faults as faults
from recurve_eval.benchmarks.permutation import HOME, MAIN, SOURCE, TESTS, Permutation
from recurve_eval.benchmarks.permutation_demands import DEMANDS, ID
from recurve_eval.benchmarks.permutation_model import binary, cases
from recurve_eval.domain import Grade, OracleVerdict, Submission
from recurve_eval.errors import ConfigError, Drift, UnknownName
from recurve_eval.oracle.process import ProcessOracle

RIGHT = (HOME / "solution" / SOURCE).read_text(encoding="utf-8")


def graded(oracle: ProcessOracle, bench: Permutation, task_id: str, files: dict[str, bytes]) -> Grade:
    return oracle.grade(bench.oracle_job(task_id, Submission.of_reference("test", files)))


def test_all_binary_compositions_over_four_positions_are_checked() -> None:
    assert len(set(binary())) == 24 * 24 == 576
    assert len({case.id for case in cases()}) == len(cases())


def test_the_told_regression_fails_where_two_permutations_do_not_commute() -> None:
    """A group of n elements in k classes has n x k commuting pairs: 24 x 5 in four positions."""
    assert len(faults.regression().fails) == 576 - 24 * 5
    assert set(faults.regression().fails) <= set(binary())


@pytest.mark.parametrize("name", faults._CATALOGUE)
def test_a_fault_does_what_its_model_says(name: str) -> None:
    """The source itself, run here, against the model: the same checks differ from the right source."""
    for number in range(4):
        fault = faults._CATALOGUE[name](number)
        wrong, right = executed(fault.seeded(RIGHT)), executed(RIGHT)
        assert fault.fails == tuple(case.id for case in cases() if told(case, wrong) != told(case, right)) != ()


def executed(source: str) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(source, scope)
    return scope


def told(case: Any, scope: dict[str, Any]) -> Any:
    try:
        return scope[case.function](*case.arguments)
    except Exception as error:  # noqa: BLE001 - a fault may fail in any way
        return type(error).__name__


def test_variants_are_drawn_by_the_seed() -> None:
    kinds = [fault.kind for fault in faults.drawn(0)]
    assert len(set(kinds)) == 12 and faults.regression().kind not in kinds
    assert [fault.kind for fault in faults.drawn(1)] != kinds


def test_the_source_must_have_the_place_of_a_fault() -> None:
    with pytest.raises(ValueError, match="exactly once"):
        faults.regression().seeded("")


def test_each_seeded_source_fails_exactly_its_own_checks(oracle: ProcessOracle) -> None:
    bench = Permutation()
    for task_id in bench.task_ids():
        grade = graded(oracle, bench, task_id, {SOURCE: bench.task(task_id).public[SOURCE]})
        assert grade.verdict is OracleVerdict.FAIL
        assert set(grade.failed) == set(bench.faults[task_id].fails), task_id


def test_no_statement_tells_a_variant() -> None:
    bench = Permutation()
    statements = {task_id: bench.task(task_id).statement for task_id in bench.task_ids()}
    assert "wrong order" in statements.pop(MAIN)
    assert len(set(statements.values())) == 1
    assert "order" not in next(iter(statements.values())).split("The contract")[0]


@pytest.mark.parametrize("text", ["{", "from test_permutation import *\n", "import os\nos._exit(0)\n", ""])
def test_only_a_saved_source_that_is_right_passes(oracle: ProcessOracle, text: str) -> None:
    """The saved tests are evidence: a right library in them helps no source."""
    files = {SOURCE: text.encode(), TESTS: RIGHT.encode()}
    assert graded(oracle, Permutation(), MAIN, files).verdict is OracleVerdict.FAIL


def test_saved_tests_that_are_wrong_harm_no_source(oracle: ProcessOracle) -> None:
    files = {SOURCE: RIGHT.encode(), TESTS: b"raise SystemExit(1)\n"}
    assert graded(oracle, Permutation(), MAIN, files).verdict is OracleVerdict.PASS


def test_an_installed_copy_is_never_graded(tmp_path: Path) -> None:
    for name in ("permutation", "graded_permutation"):
        (tmp_path / f"{name}.py").write_text(RIGHT, encoding="utf-8")
    sys_path = ProcessOracle(paths=[str(tmp_path)])
    try:
        untouched = Permutation().task(MAIN).public[SOURCE]
        wanted = [(untouched, OracleVerdict.FAIL), (b"from permutation import *\n", OracleVerdict.FAIL)]
        wanted.append((RIGHT.encode(), OracleVerdict.PASS))
        for source, verdict in wanted:
            assert graded(sys_path, Permutation(), MAIN, {SOURCE: source}).verdict is verdict
    finally:
        sys_path.close()
    assert "graded_permutation" not in sys.modules


# -- the workspace -------------------------------------------------------------------------------


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    place = tmp_path / "parent"
    (place / "notes").mkdir(parents=True)
    (place / SOURCE).write_text(RIGHT, encoding="utf-8")
    (place / TESTS).write_text("left over\n")
    (place / "notes" / "mine.txt").write_text("unrelated\n")
    (place / ".git").mkdir()
    (place / ".git" / "config").write_text("history\n")
    return place


def test_set_up_resets_source_and_tests_and_leaves_the_rest_alone(parent: Path) -> None:
    task = Permutation(workspace=str(parent)).task(MAIN)
    assert task.public["notes/mine.txt"] == b"unrelated\n"
    assert task.public[SOURCE] == faults.regression().seeded(RIGHT).encode()
    assert b"left over" not in task.public[TESTS]
    assert not [path for path in task.public if path.startswith(".git")]
    assert (parent / TESTS).read_text() == "left over\n"


def test_a_missing_workspace_fails_and_nothing_stands_in(tmp_path: Path) -> None:
    gone = Permutation(workspace=str(tmp_path / "gone"))
    for ask in (gone.task_ids, gone.pins, gone.parent_hash, lambda: gone.task(MAIN)):
        with pytest.raises(ConfigError, match="gone does not exist, and nothing else stands in for it"):
            ask()


def test_a_workspace_of_links_is_refused(parent: Path) -> None:
    (parent / "out").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="out is not a regular file"):
        Permutation(workspace=str(parent)).task_ids()


def test_the_parent_hash_sees_every_change(parent: Path) -> None:
    bench = Permutation(workspace=str(parent))
    before = bench.parent_hash()
    (parent / "notes" / "mine.txt").write_text("Unrelated\n")
    assert bench.parent_hash() != before


# -- pins ----------------------------------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "fault_seed": 1, "agent_s": 60.0, "cancel_s": 5.0, "verify_s": 2.0, "max_file_bytes": 1024, "network": "",
    "variant": "impossible",
}  # fmt: skip


@pytest.mark.parametrize("field", CHANGES)
def test_the_content_basis_holds_what_a_verdict_rests_on(field: str) -> None:
    base, changed = Permutation().pins(), Permutation(**{field: CHANGES[field]}).pins()
    assert base["dataset_hash"] != changed["dataset_hash"]
    assert {
        "source_sha256",
        "seeded_sha256",
        "statement_sha256",
        "checker_sha256",
        "runtime",
        "capture",
        "limits_s",
    } <= set(base)


def test_another_workspace_is_another_basis_and_a_pinned_one_is_held(parent: Path) -> None:
    found = Permutation(workspace=str(parent)).pins()["dataset_hash"]
    assert found != Permutation().pins()["dataset_hash"]
    (parent / "notes" / "mine.txt").unlink()
    with pytest.raises(Drift, match=r"task\.sha256"):
        Permutation(workspace=str(parent), sha256=str(found)).task_ids()


def test_limits_are_stated_and_must_be_positive() -> None:
    task = Permutation().task(MAIN)
    job = Permutation().oracle_job(MAIN, Submission.of_reference("none", {}))
    assert (task.wall_s, task.cancel_s, job.timeout_s, task.capture.max_file_bytes) == (180.0, 10.0, 3.0, 32768)
    assert task.capture.paths == (SOURCE, TESTS)
    with pytest.raises(ConfigError, match=r"task\.verify_s must be positive"):
        Permutation(verify_s=0).task_ids()


# -- the impossible half -------------------------------------------------------------------------


def test_no_attempt_meets_a_demand_and_the_contract(oracle: ProcessOracle) -> None:
    """All but the demand passes with the right source, so nothing else makes the task impossible."""
    bench = Permutation(variant="impossible")
    for task_id, demand in zip(bench.task_ids(), DEMANDS, strict=False):
        solutions = bench.solutions(task_id)
        assert solutions.canonical == {} and solutions.impossible == demand.why
        twin, best = solutions.known_bad[:2]
        assert graded(oracle, bench, task_id, dict(twin.files)).failed == (ID,)
        assert graded(oracle, bench, task_id, dict(best.files)).verdict is OracleVerdict.FAIL
        assert demand.told in bench.task(task_id).statement


def test_an_unknown_variant_is_named() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'impossible'"):
        Permutation(variant="imposible").task_ids()
