"""Tasks that cannot be done: nothing passes, calibration says exactly that, and rows keep the halves apart."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import recurve_eval
from recurve_eval import app
from recurve_eval.__main__ import main
from recurve_eval.benchmarks import demo
from recurve_eval.benchmarks.demo import CHECK, TEST, DemoBenchmark
from recurve_eval.calibration.document import Settings
from recurve_eval.calibration.judge import complaint, moved
from recurve_eval.calibration.run import calibrate
from recurve_eval.calibration.store import Store
from recurve_eval.calibration.subject import Subject
from recurve_eval.domain import KnownBad, OracleVerdict, Solutions, Submission
from recurve_eval.oracle.process import ProcessOracle
from tests.conftest import QUICK

SETTINGS = Settings(runs=1, mutants=1)
TASKS = "task.select=[parse_duration,slugify]"


def test_only_the_demand_keeps_the_right_work_of_the_twin_from_passing(oracle: ProcessOracle) -> None:
    bench, twin = DemoBenchmark(variant="impossible"), DemoBenchmark()
    for task_id in bench.task_ids():
        solutions = bench.solutions(task_id)
        assert solutions.canonical == {} and solutions.impossible.partition(":")[0] in (
            "contradiction",
            "missing dependency",
        )
        first, best = solutions.known_bad[:2]
        assert first.files == twin.solutions(task_id).canonical
        grades = [oracle.grade(bench.oracle_job(task_id, Submission.of_reference("t", b.files))) for b in (first, best)]
        assert grades[0].failed == (TEST,), task_id
        assert grades[1].verdict is OracleVerdict.FAIL, task_id


def test_every_task_has_a_demand_that_is_told_and_held_out(tmp_path: Path) -> None:
    bench, twin = DemoBenchmark(variant="impossible"), DemoBenchmark()
    assert set(bench.demands) == set(twin.task_ids())
    for number, task_id in enumerate(bench.task_ids()):
        task, place = bench.task(task_id), tmp_path / str(number)
        assert task.statement.startswith(twin.task(task_id).statement.rstrip())
        assert task.statement.endswith(bench.demands[task_id]["told"])
        place.mkdir()
        (place / "statement").write_text(task.statement, encoding="utf-8")
        assert bench.scanner(task_id).scan(place) == []
        (place / "copy").write_bytes(bench._check(task_id)[CHECK])
        assert bench.scanner(task_id).scan(place) != []


def test_the_halves_are_two_datasets() -> None:
    assert DemoBenchmark().pins()["dataset_hash"] != DemoBenchmark(variant="impossible").pins()["dataset_hash"]


def test_an_impossible_task_cannot_have_a_canonical_solution() -> None:
    for canonical, known_bad in (({"a": b"1"}, (KnownBad("x", {"a": b"2"}),)), ({}, ())):
        with pytest.raises(ValueError, match="no canonical solution"):
            Solutions(canonical, known_bad, impossible="because")


# -- calibration and the spend gate --------------------------------------------------------------


@pytest.fixture
def subject(composing: None) -> Subject:
    words = ["task=demo", "task.variant=impossible", TASKS, "oracle=process"]
    return app.calibrants(words)[0].subject


def calibrated(subject: Subject, place: Path) -> dict[str, Any]:
    return calibrate(subject, SETTINGS, Store(place, "demo"), workers=1, watch=lambda *_: None).document


def test_calibration_proves_that_nothing_passes_and_the_spend_gate_takes_that(subject: Subject, tmp_path: Path) -> None:
    held = calibrated(subject, tmp_path)
    assert held["green"] and held["impossible"] == 2
    assert held["sensitivity"]["n"] == 0 and held["sensitivity"]["value"] is None
    assert held["specificity"]["value"] == 1.0
    for task in held["tasks"].values():
        assert task["impossible"]
        assert [row["verdict"] for row in task["canonical"]] == ["fail"]
        assert {"solvable_twin", "best_attempt", "empty"} <= {row["kind"] for row in task["wrong"]}
        assert "mutant" in {row["role"] for row in task["wrong"]}
    assert complaint(subject, SETTINGS, Store(tmp_path, "demo")) is None
    other = copy.deepcopy(held)
    other["tasks"]["slugify"]["impossible"] = ""
    assert "task slugify was calibrated as solvable" in str(moved(subject, other))


def test_a_demand_that_can_be_met_is_found(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demands = yaml.safe_load(demo.DEMANDS.read_text(encoding="utf-8"))
    demands["slugify"]["check"] = "from solution import slugify\nself.assertEqual(slugify('a'), 'a')\n"
    (tmp_path / "demands.yaml").write_text(yaml.safe_dump(demands), encoding="utf-8")
    monkeypatch.setattr(demo, "DEMANDS", tmp_path / "demands.yaml")
    held = calibrated(subject, tmp_path)
    assert not held["green"]
    assert any("the attempt 'solvable_twin' is pass" in p and "must be impossible" in p for p in held["problems"])
    assert str(complaint(subject, SETTINGS, Store(tmp_path, "demo"))).startswith("its calibration is not green")


def test_the_calibration_verb_says_how_many_are_impossible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["calibrate", "task=demo", "task.variant=impossible", "task.select=[slugify]", "oracle=process"]
    assert main([*words, "calibrate.runs=1", "run.progress=none"]) == 0
    assert "impossible   1 of 1 tasks, at which every attempt must fail" in capsys.readouterr().out


# -- a study over both halves --------------------------------------------------------------------


def test_a_study_keeps_the_halves_apart(tmp_path: Path) -> None:
    report = recurve_eval.run([
        *QUICK, "task=demo", "task.variant=solvable,impossible", TASKS, "model.skill=1.0", "analysis.figures=false",
        f"run.outputs={tmp_path}/outputs", "run.workers=2", "analysis.resamples=100",
    ])  # fmt: skip
    rows = recurve_eval.load(report.run_dir).rows
    halves: dict[str, set[tuple[str, bool]]] = {}
    for row in rows:
        derived = row["derived"]
        halves.setdefault(row["identity"]["benchmark"], set()).add((derived["outcome"], derived["false_done"]))
    assert halves["demo"] == {("shipped_good", False)}
    assert halves["demo-impossible"] == {("shipped_bad", True)}
    summary = json.loads((report.run_dir / "analysis" / "summary.json").read_text(encoding="utf-8"))
    assert {arm["stratum"]["benchmark"] for arm in summary["arms"]} == {"demo", "demo-impossible"}
