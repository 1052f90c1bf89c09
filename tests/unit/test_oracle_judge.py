"""Evidence in, verdict out: the rules that no exit code and no printed text can bend."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurve_eval.domain import OracleJob, OracleVerdict, Submission, UnscoredReason
from recurve_eval.oracle.protocol import Evidence, arrangement, fault_of, judge

JOB = OracleJob(
    task_id="t",
    submission=Submission.of_reference("canonical", {"solution.py": b""}),
    held_out={"t.py": b"x"},
    convention="unittest",
    params={"module": "solution"},
    expected=("T.test_a", "T.test_b"),
)


def record(name: str, outcome: str = "passed") -> dict[str, str]:
    return {"id": name, "outcome": outcome, "message": "why"}


GOOD = Evidence(
    records=(record("T.test_a"), record("T.test_b")), breaches=(), canaries=4, load_error=None, harness_error=None,
    finished=True, timed_out=False, stage="after the tests", exit="signal 9", strays=0, wall_s=0.1,
    stdout="", stderr="",
)  # fmt: skip


def test_every_expected_test_passed_once_is_a_pass() -> None:
    grade = judge(JOB, GOOD)
    assert (grade.verdict, grade.tests_passed, grade.tests_total, grade.failed) == (OracleVerdict.PASS, 2, 2, ())


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({"records": (record("T.test_a"),)}, OracleVerdict.FAIL, "missing tests: T.test_b"),
        ({"records": (*GOOD.records, record("T.test_a"))}, OracleVerdict.FAIL, "repeated tests: T.test_a"),
        ({"records": (*GOOD.records, record("T.test_c"))}, OracleVerdict.FAIL, "unknown tests: T.test_c"),
        ({"records": (record("T.test_a"), record("T.test_b", "skipped"))}, OracleVerdict.FAIL, "T.test_b skipped"),
        ({"finished": False, "exit": "exit code 0"}, OracleVerdict.FAIL, "exited before reporting (exit code 0"),
        ({"load_error": "no module"}, OracleVerdict.FAIL, "no module"),
        ({"canaries": 0}, OracleVerdict.TAMPERED, "no must-fail test"),
        ({"breaches": ("it lied",)}, OracleVerdict.TAMPERED, "it lied"),
        ({"harness_error": "bad tests"}, OracleVerdict.UNSCORED, "bad tests"),
    ],
)
def test_each_defect_has_its_verdict(change: dict[str, object], verdict: OracleVerdict, words: str) -> None:
    grade = judge(JOB, replace(GOOD, **change))
    assert grade.verdict is verdict
    assert words in grade.detail


@given(
    st.lists(st.tuples(st.sampled_from(["T.test_a", "T.test_b", "T.x"]), st.sampled_from(["passed", "failed"]))),
    st.booleans(),
    st.integers(0, 2),
)  # fmt: skip
def test_only_the_exact_report_passes(reported: list[tuple[str, str]], finished: bool, canaries: int) -> None:
    seen = replace(GOOD, records=tuple(record(*r) for r in reported), finished=finished, canaries=canaries)
    exact = sorted(reported) == [("T.test_a", "passed"), ("T.test_b", "passed")]
    assert (judge(JOB, seen).verdict is OracleVerdict.PASS) == (exact and finished and canaries > 0)


def test_a_fault_of_the_tests_is_never_a_failure_of_the_submission() -> None:
    grade = judge(JOB, replace(GOOD, harness_error="no check", records=(), breaches=("x",)))
    assert grade.reason is UnscoredReason.ORACLE_ERROR


def test_check_is_graded_apart_unless_it_says_otherwise() -> None:
    assert arrangement(JOB) == "shared"
    assert arrangement(replace(JOB, convention="check")) == "apart"
    assert arrangement(replace(JOB, convention="check", params={"candidate": "shared"})) == "shared"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"convention": "doctest"}, "unknown convention"),
        ({"params": {"candidate": "elsewhere"}}, "apart or shared"),
        ({"convention": "check"}, "entry_point"),
        ({"held_out": {"data.csv": b""}}, "Python modules"),
    ],
)
def test_a_job_nobody_could_grade_is_named(change: dict[str, object], words: str) -> None:
    assert words in (fault_of(replace(JOB, **change)) or "")
    assert fault_of(JOB) is None
