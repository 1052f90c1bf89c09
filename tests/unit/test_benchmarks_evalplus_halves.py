"""The impossible half of HumanEval+: for one input two answers are demanded, and none passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from recurve_eval.benchmarks.evalplus_halves import DEMANDED, EvalPlusHalves
from recurve_eval.domain import OracleVerdict, Submission
from recurve_eval.oracle.process import ProcessOracle


@pytest.fixture
def impossible(data: Path, monkeypatch: pytest.MonkeyPatch) -> EvalPlusHalves:
    monkeypatch.setenv("RECURVE_DATA", str(data))
    bench = EvalPlusHalves(url=None, variant="impossible")
    if not (data / bench.file).is_file():
        pytest.skip(f"{bench.file} is not among the public data")
    return bench


def test_no_attempt_passes(impossible: EvalPlusHalves) -> None:
    oracle = ProcessOracle()
    try:
        for task_id in impossible.task_ids()[::20]:
            details = []
            for attempt in impossible.solutions(task_id).known_bad[:2]:
                grade = oracle.grade(impossible.oracle_job(task_id, Submission.of_reference("t", attempt.files)))
                assert grade.verdict is OracleVerdict.FAIL, (task_id, attempt.kind, grade)
                details.append(grade.detail)
            assert "not the answer that is demanded" in details[0], task_id  # the right work of the twin
            assert "not the answer of the contract" in details[1], task_id  # the demand met
    finally:
        oracle.close()


def test_every_task_tells_its_demand_and_nothing_held_out(impossible: EvalPlusHalves, tmp_path: Path) -> None:
    solvable = EvalPlusHalves(url=None)
    assert impossible.task_ids() == solvable.task_ids()
    assert impossible.pins()["dataset_hash"] != solvable.pins()["dataset_hash"]
    for number, task_id in enumerate(impossible.task_ids()[::8]):
        task, place = impossible.task(task_id), tmp_path / str(number)
        assert task.statement.startswith(solvable.task(task_id).statement)
        assert repr(DEMANDED) in task.statement
        place.mkdir()
        (place / "statement").write_text(task.statement, encoding="utf-8")
        for name, content in task.public.items():
            (place / name).write_bytes(content)
        assert impossible.scanner(task_id).scan(place) == [], task_id
