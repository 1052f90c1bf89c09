"""Harbor tasks for real: their images built, their solutions proven, and what an agent leaves verified."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dockerd import python_min  # noqa: F401 - a fixture
from harbor_tasks import BASE, write

from recurve_eval.benchmarks.harbor import Harbor
from recurve_eval.domain import AgentRun, CapturedFile, CaptureStatus, Departure, Grade, OracleVerdict, Submission
from recurve_eval.errors import Drift, Refused
from recurve_eval.oracle.daemon import connect
from recurve_eval.oracle.fresh import FreshOracle
from recurve_eval.oracle.taskimage import build_task

pytestmark = pytest.mark.docker
PASS, FAIL, TAMPERED, UNSCORED = OracleVerdict


@pytest.fixture(scope="module")
def bench(python_min: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbor]:  # noqa: F811
    """Both tasks, their images built and pinned; one build serves both, since their environments are equal."""
    place = tmp_path_factory.mktemp("harbor")
    made = Harbor(path=str(write(place / "tasks")), bases={BASE: python_min})
    identity = build_task(made.image_plan("sort"), work=place / "work", progress=lambda line: None, repin=True)
    for task_id in made.task_ids():
        made.pin_image(task_id, identity)
    yield made
    with closing(connect("")) as client:
        client.images.remove(identity, force=True)


def graded(bench: Harbor, files: dict[str, bytes], task: str = "sort") -> Grade:
    run = AgentRun((), Departure("process", 0, "nothing ran"))
    captured = tuple(CapturedFile(p, CaptureStatus.OK, c, len(c)) for p, c in files.items())
    return FreshOracle().grade(bench.oracle_job(task, Submission(run, captured)))


def test_a_base_that_is_not_here_is_refused_with_the_command(bench: Harbor, tmp_path: Path) -> None:
    plan = Harbor(path=bench.path, images=str(tmp_path / "none.json")).image_plan("sort")
    with pytest.raises(Refused, match=f"does not hold its base image {BASE}; docker pull"):
        build_task(plan, work=tmp_path, progress=lambda line: None, repin=True)
    with pytest.raises(Refused, match="no pinned image yet"):
        build_task(plan, work=tmp_path, progress=lambda line: None)


def test_the_same_task_gives_the_same_image_and_another_is_drift(bench: Harbor, tmp_path: Path) -> None:
    assert (
        build_task(bench.image_plan("sort"), work=tmp_path, progress=lambda line: None)
        == bench.image_plan("sort").pinned
    )
    other = Harbor(path=str(write(tmp_path / "tasks")), bases=bench.bases, images=f"{bench.path}/images.json")
    (tmp_path / "tasks/sort/environment/words.txt").write_text("changed\n")
    with pytest.raises(Drift, match="was not loaded"):
        build_task(other.image_plan("sort"), work=tmp_path, progress=lambda line: None)


def test_the_solution_passes_an_empty_one_fails_and_calibration_says_so(bench: Harbor, cli) -> None:  # type: ignore[no-untyped-def]
    done = cli(
        "calibrate", "task=harbor", f"task.path={bench.path}", "oracle=instance", "calibrate.runs=1", "calibrate.mutants=0",
        "run.progress=none",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"2/2 = .* canonical solutions pass 1 of 1", done.stdout)
    assert re.search(r"known bad  2/2", done.stdout)


def test_what_an_agent_left_is_verified_in_its_place(bench: Harbor) -> None:
    for task in bench.task_ids():
        assert graded(bench, {"answer.txt": b"apple\npear\nplum\n"}, task).verdict is PASS
        wrong = graded(bench, {"answer.txt": b"plum\n"}, task)
        assert wrong.verdict is FAIL, wrong
        assert graded(bench, {}, task).verdict is FAIL


def test_an_agent_cannot_bring_its_own_reward_tests_or_solution(bench: Harbor) -> None:
    for files in (
        {"reward.txt": b"1", "logs/verifier/reward.txt": b"1", "tests/test.sh": b"#!/bin/sh\n"},
        {"solve.sh": bench.solutions("sort").canonical["solve.sh"]},
    ):
        assert graded(bench, files).verdict is FAIL


def test_a_verifier_that_writes_no_reward_is_no_pass(bench: Harbor, tmp_path: Path) -> None:
    silent = Harbor(path=str(write(tmp_path / "tasks")), images=f"{bench.path}/images.json")
    (tmp_path / "tasks/sort/tests/test.sh").write_text("#!/bin/sh\nexit 0\n")
    grade = graded(silent, {"answer.txt": b"apple\npear\nplum\n"})
    assert grade.verdict is FAIL and "missing tests: reward" in grade.detail


def test_the_command_builds_and_pins(bench: Harbor, cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path / "mine")
    dockerfile = tmp_path / "mine/sort/environment/Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace(BASE, bench.bases[BASE]))
    done = cli("oracle", "build", "oracle=instance", "task=harbor", "task.path=mine", "task.select=[sort]", "--repin")
    assert done.returncode == 0, done.stderr
    pinned = json.loads((tmp_path / "mine/images.json").read_text())
    assert pinned == {"sort": bench.image_plan("sort").pinned}, "the base by another name is the same base"
