"""A fresh container a grading: both directions, calibration that catches a task which is no oracle, and the walls."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from dockerd import python_min  # noqa: F401 - a fixture
from repositories import CALC, FIXED, Tiny, make

from recurve_eval.domain import OracleVerdict, Submission, UnscoredReason
from recurve_eval.oracle.daemon import connect
from recurve_eval.oracle.fresh import FreshOracle
from recurve_eval.ports import OracleBackend

pytestmark = pytest.mark.docker
ID = "tiny__calc-1"
PASS, FAIL, TAMPERED, UNSCORED = OracleVerdict


@pytest.fixture(scope="module")
def made(python_min: str, tmp_path_factory: pytest.TempPathFactory) -> Tiny:  # noqa: F811
    return make(tmp_path_factory.mktemp("tiny"), python_min)


@pytest.fixture
def tiny(made: Tiny, tmp_path: Path) -> Tiny:
    return made.copied(tmp_path / "tiny")


@pytest.fixture
def oracle() -> Iterator[FreshOracle]:
    backend = FreshOracle()
    backend.start(2)
    yield backend
    backend.close()
    assert ours(backend) == []


def ours(backend: FreshOracle) -> list[str]:
    """Containers of this backend that are still here, a moment after they ended."""
    with closing(connect("")) as client:
        until = time.monotonic() + 10
        while True:
            names = client.api.containers(all=True, filters={"label": f"recurve.run={backend._run_label}"})
            if not names or time.monotonic() > until:
                return [n["Id"] for n in names]
            time.sleep(0.05)


def graded(tiny: Tiny, oracle: FreshOracle, source: str, **more: bytes) -> object:
    files = {"calc.py": source.encode(), **{k.replace("__", "/"): v for k, v in more.items()}}
    return oracle.grade(tiny.bench().oracle_job(ID, Submission.of_reference("test", files)))


def test_it_is_an_oracle_backend_that_can_run_here(oracle: FreshOracle) -> None:
    assert isinstance(oracle, OracleBackend) and oracle.check() is None
    assert oracle.env().hash == FreshOracle().env().hash != FreshOracle(cpus=1.0).env().hash
    assert FreshOracle(docker_host="unix:///no/such.sock").check() is not None


def test_gold_passes_and_an_untouched_tree_fails(tiny: Tiny, oracle: FreshOracle) -> None:
    bench = tiny.bench()
    solutions = bench.solutions(ID)
    gold = oracle.grade(bench.oracle_job(ID, Submission.of_reference("canonical", solutions.canonical)))
    assert (gold.verdict, gold.tests_passed, gold.tests_total) == (PASS, 2, 2), (gold.detail, gold.stdout)
    empty = oracle.grade(bench.oracle_job(ID, Submission.of_reference("known_bad:empty", solutions.known_bad[0].files)))
    assert (empty.verdict, empty.failed) == (FAIL, ("test_adds_two_numbers (tests.test_calc.Calc)",))


WALLS = {
    "rewrites the tests": "import glob\nfor p in glob.glob('/testbed/tests/*.py'):\n    open(p, 'w').write('')\n",
    "moves the tests away": "import os\nos.rename('/testbed/tests', '/testbed/other')\n",
    "removes the tests": "import os\nos.unlink('/testbed/tests/test_calc.py')\n",
    "rewrites the interpreter": "open('/usr/lib/python3.11/unittest/case.py', 'w')\n",
    "kills the supervisor": "import os\nos.kill(1, 9)\n",
    "reads the supervisor": "open('/proc/1/mem', 'rb').read(1)\n",
    "asks the network": "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)\n",
    "becomes root": "import os\nos.setuid(0)\n",
}


def test_what_a_submission_cannot_do(tiny: Tiny, oracle: FreshOracle) -> None:
    """Each attempt is tried inside one grading of right work, which must say that every one was refused."""
    lines = ["", "refused = []"]
    for name, act in WALLS.items():
        body = "".join(f"    {line}\n" for line in act.splitlines())
        lines.append(f"try:\n{body}except OSError:\n    refused.append({name!r})")
    lines.append(f"assert refused == {list(WALLS)!r}, refused")
    grade = graded(tiny, oracle, FIXED + "\n".join(lines))
    assert grade.verdict is PASS, (grade.detail, grade.stdout)  # type: ignore[attr-defined]
    bad = graded(tiny, oracle, FIXED + "\nassert False, 'the line above would have been seen'\n")
    assert bad.verdict is FAIL  # type: ignore[attr-defined]


BOMBS = {
    "an endless loop": "while True:\n    pass\n",
    "more memory than there is": "x = bytearray(2 << 30)\n",
    "processes without end": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_using_everything_up_is_a_failure_and_no_trouble_of_the_oracle(tiny: Tiny, name: str) -> None:
    backend = FreshOracle(container_mb=256, pids=64, scratch_mb=64, restarts=0)
    job = tiny.bench(timeout_s=2.0).oracle_job(ID, Submission.of_reference("test", {"calc.py": BOMBS[name].encode()}))
    grade = backend.grade(job)
    assert grade.verdict is FAIL, grade.detail
    assert ours(backend) == []


def test_a_lying_unittest_is_tampering(tiny: Tiny, oracle: FreshOracle) -> None:
    lie = "\nimport unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n"
    assert graded(tiny, oracle, CALC + lie).verdict is TAMPERED  # type: ignore[attr-defined]


def test_a_container_is_new_each_time(tiny: Tiny, oracle: FreshOracle) -> None:
    leave = "\nimport os, pathlib\nassert not os.path.exists('/testbed/mark') and not os.path.exists('/tmp/mark')\n"
    leave += "for p in ('/testbed/mark', '/tmp/mark'):\n    pathlib.Path(p).touch()\n"
    for _ in range(2):
        assert graded(tiny, oracle, FIXED + leave).verdict is PASS  # type: ignore[attr-defined]


def test_a_missing_image_is_no_verdict_and_names_the_command(tiny: Tiny, oracle: FreshOracle) -> None:
    job = tiny.bench().oracle_job(ID, Submission.of_reference("test", {"calc.py": FIXED.encode()}))
    grade = oracle.grade(replace(job, image="sha256:" + "0" * 64))
    assert (grade.verdict, grade.reason) == (UNSCORED, UnscoredReason.INFRA)
    assert "recurve-eval oracle build oracle=instance" in grade.detail


def test_a_study_is_held_to_its_images_before_a_cell_runs(tiny: Tiny, cli) -> None:  # type: ignore[no-untyped-def]
    words = ["plan", *tiny.overrides(), "sandbox=process"]
    done = cli(*words, "oracle=process")
    assert done.returncode == 2 and "choose oracle=instance" in done.stderr
    images = dict.fromkeys((ID, "tiny__calc-2"), "sha256:" + "0" * 64)
    (tiny.root / "images.json").write_text(json.dumps(images))
    done = cli(*words, "oracle=instance")
    assert done.returncode == 3 and "recurve-eval oracle build oracle=instance" in done.stderr


def test_a_killed_container_is_begun_again(tiny: Tiny, oracle: FreshOracle) -> None:
    slow = "\nimport time\ntime.sleep(1.5)\n"
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(graded(tiny, oracle, FIXED + slow)))
    thread.start()
    with closing(connect("")) as client:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            running = client.api.containers(filters={"label": f"recurve.run={oracle._run_label}"})
            if running:
                client.api.kill(running[0]["Id"])
                break
            time.sleep(0.05)
    thread.join(60)
    assert found[0].verdict is PASS  # type: ignore[attr-defined]


def test_calibration_catches_a_task_that_is_no_oracle_and_an_exclusion_mends_it(
    tiny: Tiny, cli, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    words = [
        "calibrate",
        *tiny.overrides(),
        "oracle=instance",
        "calibrate.runs=1",
        "calibrate.mutants=0",
        "run.progress=none",
    ]
    done = cli(*words)
    assert done.returncode == 3, done.stderr
    assert "tiny__calc-2: an empty submission passes: this task is no oracle" in done.stdout
    assert "problem" in done.stdout and "tiny__calc-1:" not in done.stdout
    table = {"benchmark": "swebench", "exclusions": [{"task": "tiny__calc-2", "reason": "an empty patch passes"}]}
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/swebench.yaml").write_text(yaml.safe_dump(table))
    done = cli(*words, "calibrate.exclusions=tables")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "green" in done.stdout and "excluded     tiny__calc-2" in done.stdout


def test_a_study_of_a_simulated_agent_runs_end_to_end(tiny: Tiny, cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    words = [*tiny.overrides(), f"task.select=[{ID}]", "oracle=instance", "sandbox=process", "tracking=none"]
    words += ["model.skill=0.5", "seed=0,1,2,3", "run.progress=none", "analysis.figures=false"]
    done = cli("run", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    (results,) = (tmp_path / "outputs").glob("*/*/results.jsonl")
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    rows = [row["row"] for row in rows]
    assert {row["verdict"]["oracle_verdict"] for row in rows} == {"pass", "fail"}
    assert {row["attestation"]["image_digest"] for row in rows} == {tiny.bench().image(ID)}
    captured = [json.loads(p.read_text()) for p in results.parent.glob("cells/*/submission.json")]
    assert {tuple(f["path"] for f in c["files"]) for c in captured} == {("calc.py",), ()}


@pytest.mark.slow
@pytest.mark.skipif(
    "not (os.environ.get('RECURVE_DATA') and os.environ.get('RECURVE_REPOS'))", reason="needs data and clones"
)
def test_the_five_public_instances_grade_in_both_directions(oracle: FreshOracle) -> None:
    from recurve_eval.benchmarks.swebench import SweBench

    assert os.environ["RECURVE_REPOS"]
    bench, wrong = SweBench(), []
    with closing(connect("")) as client:
        held = {image.id for image in client.images.list()}
    tasks = [t for t in bench.task_ids() if bench.image_plan(t).pinned in held]
    if not tasks:
        pytest.skip("none of the images is here: recurve-eval oracle build oracle=instance task=swebench")
    for task_id in tasks:
        solutions = bench.solutions(task_id)
        for files, verdict in ((solutions.canonical, PASS), (solutions.known_bad[0].files, FAIL)):
            grade = oracle.grade(bench.oracle_job(task_id, Submission.of_reference("test", files)))
            if grade.verdict is not verdict:
                wrong.append((task_id, grade.verdict, grade.detail))
    assert wrong == []
