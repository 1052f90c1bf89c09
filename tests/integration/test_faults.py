"""What goes wrong around a study is said in one line, costs nothing, and never looks like the agent's work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import recurve_eval
from recurve_eval.domain import CaptureSpec, GateVerdict, Task
from recurve_eval.gates.ci import CommandCheck
from recurve_eval.ports import GateContext
from recurve_eval.sandbox.process import ProcessSandbox
from tests.conftest import QUICK, Cli

SMALL = (*QUICK, "task.select={n: 3, seed: 1}", "analysis.figures=false")
COMMAND = ("agent=command", "agent.paid=false", "model=unnamed")


def the_run(tmp_path: Path) -> Path:
    (plan,) = tmp_path.glob("outputs/*/*/plan.yaml")
    return plan.parent


def refused(cli: Cli, *words: str, code: int, said: str, env: dict[str, str] | None = None) -> str:
    done = cli(*words, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_two_runs_of_one_plan_in_two_directories_leave_each_other_alone(tmp_path: Path) -> None:
    def start(outputs: str) -> subprocess.Popen[bytes]:
        words = [
            *SMALL,
            *COMMAND,
            "agent.command='cat >/dev/null; sleep 2; echo x=1 > solution.py'",
            f"run.outputs={outputs}",
        ]
        return subprocess.Popen(
            [sys.executable, "-m", "recurve_eval", "run", *words], cwd=tmp_path, stdout=-3, stderr=-3
        )

    runs = [start("one"), start("two")]
    assert [run.wait(120) for run in runs] == [0, 0]
    for outputs in ("one", "two"):
        rows = recurve_eval.load(next((tmp_path / outputs).glob("*/*"))).rows
        assert [r["declaration"]["stop_reason"] for r in rows] == ["declared"] * 3


@pytest.mark.usefixtures("bwrap")
def test_a_program_that_the_sandbox_hides_is_a_mistake_and_not_a_failure(cli: Cli, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    program = home / "agent.sh"
    program.write_text("#!/bin/sh\necho x=1 > solution.py\n")
    program.chmod(0o755)
    words = ("run", *SMALL, "sandbox=bubblewrap", *COMMAND, f"agent.argv=[{program}]")
    refused(cli, *words, code=2, said="is not to be found inside sandbox 'bubblewrap'")
    done = cli(*words, f"sandbox.read_only=[{home}]", "study.name=shown")
    assert done.returncode == 0, done.stderr


def test_an_altered_plan_is_refused_by_every_verb(cli: Cli, tmp_path: Path) -> None:
    study = (
        *QUICK,
        "arm=A0,A1",
        "study.primary={baseline: A0, treatment: A1}",
        "task.select={n: 6}",
        "run.analyze=false",
    )
    assert cli("run", *study).returncode == 0
    plan = the_run(tmp_path) / "plan.yaml"
    plan.write_text(plan.read_text().replace("treatment: A1", "treatment: A0"))
    refused(cli, "run", *study, code=3, said="was altered after it was frozen")
    refused(cli, "analyze", code=3, said="was altered after it was frozen")
    plan.write_text("{")
    refused(cli, "status", code=3, said="was altered after it was frozen")


def test_rows_of_another_plan_and_damaged_rows_are_refused(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", *SMALL).returncode == 0
    results = the_run(tmp_path) / "results.jsonl"
    kept = results.read_bytes()
    assert cli("run", *SMALL, "budget.wall_s=11", "study.name=other").returncode == 0
    foreign = next(tmp_path.glob("outputs/other/*/results.jsonl")).read_bytes()
    results.write_bytes(kept + foreign)
    refused(cli, "run", *SMALL, code=3, said="line 4 belongs to another plan")
    refused(cli, "analyze", str(results.parent), code=3, said="another plan")
    results.write_bytes(kept.replace(b'"declared_done":true', b'"declared_done":null', 1))
    refused(cli, "run", *SMALL, code=3, said="line 1 is not a sealed row")


@pytest.mark.parametrize(
    "deed",
    [
        "rm -rf tests; echo > tests",
        "i=0; while [ $i -lt 20 ]; do d=$(printf %0200d 1); mkdir $d; cd $d; i=$((i+1)); done",
        "chmod 000 .",
        "ln -s / tests",
    ],
)
def test_no_deed_of_an_agent_makes_its_gated_cell_unscored(tmp_path: Path, deed: str) -> None:
    workspace, evidence = tmp_path / "workspace", tmp_path / "evidence"
    workspace.mkdir()
    evidence.mkdir()
    public = {"tests/test_visible.py": b"raise SystemExit(1)\n"}
    task = Task(
        "t", "s", public, CaptureSpec(("solution.py",)), ("{python}", "-B", "tests/test_visible.py"), tuple(public)
    )
    subprocess.run(["sh", "-c", deed], cwd=workspace, check=True)

    def open_session(place: Path, purpose: str) -> object:
        (place.parent / "scratch").mkdir(exist_ok=True)
        return ProcessSandbox().open(place, place.parent / "scratch", f"test.{purpose}.1")

    context = GateContext(task, workspace, None, evidence, open_session)  # type: ignore[arg-type]
    assert CommandCheck().check(context).verdict is GateVerdict.RED
    workspace.chmod(0o700)


def test_work_named_like_a_library_does_not_fool_the_visible_tests(cli: Cli, tmp_path: Path) -> None:
    shadow = "class TestCase: pass\ndef main(*a, **k): pass"
    command = f"cat >/dev/null; printf '%s' '{shadow}' > unittest.py; echo broken > solution.py"
    script = tmp_path / "agent.sh"
    script.write_text(f"#!/bin/sh\n{command}\n")
    script.chmod(0o755)
    done = cli("run", *SMALL, *COMMAND, f"agent.argv=[{script}]", "arm=A1", "budget=one_shot")
    assert done.returncode == 0, done.stderr
    assert {r["gate"]["outcome"] for r in recurve_eval.load(the_run(tmp_path)).rows} == {"RED"}


def test_broken_machinery_stops_the_run_and_says_so(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine/sandbox").mkdir(parents=True)
    (tmp_path / "mine/sandbox/broken.yaml").write_text("_target_: broken_sandbox.Broken\n")
    (tmp_path / "broken_sandbox.py").write_text(
        "from dataclasses import dataclass\nfrom recurve_eval.sandbox.process import ProcessSandbox\n"
        "from recurve_eval.errors import SandboxError\n@dataclass\nclass Broken(ProcessSandbox):\n"
        "    def open(self, workspace, scratch, label):\n        raise SandboxError('the wall fell over')\n"
    )
    env = {"PYTHONPATH": str(tmp_path)}
    words = ("run", "--config-dir", "mine", *QUICK, "sandbox=broken", "run.workers=1", "analysis.figures=false")
    said = refused(cli, *words, code=3, said="5 cells in a row could not be scored", env=env)
    assert "the wall fell over" in said
    assert "5 of 14 cells are sealed" in said
    done = cli(*words, "run.stop_after_infra=0", env=env)
    assert done.returncode == 4
    rows = recurve_eval.load(the_run(tmp_path)).rows
    assert {(r["verdict"]["oracle_verdict"], r["verdict"]["reason"]) for r in rows} == {("unscored", "infra")}
    assert {r["usage"]["cost_usd"] for r in rows} == {None}


def test_held_out_bytes_in_the_public_part_stop_the_study_before_any_cell(cli: Cli, tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts/bench"))
    from _tasks import write_tasks

    tasks = write_tasks(tmp_path / "tasks", 2)
    held_out = (tasks / "t00001/held_out/test_held_out.py").read_text()
    (tasks / "t00001/public/notes.txt").write_text(f"remember:\n{held_out}\nand more")
    refused(
        cli,
        "run",
        *QUICK,
        "task=directory",
        f"task.path={tasks}",
        code=3,
        said="task t00001: the public part holds held-out",
    )
    assert not list(tmp_path.glob("outputs/*/*/results.jsonl"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("study.name=../../escaped",), 2, "study.name names a directory"),
        (("study.name=''",), 2, "study.name names a directory"),
        (("budget.wall_s=1e400",), 2, "budget.wall_s"),
        (("hydra/sweeper=basic",), 2, "needs hydra/sweeper=recurve"),
        (("--config-dir", "broken", "agent=broken"), 2, "cannot be read"),
        (("--config-dir", "broken", "agent=raises"), 2, "cannot load 'raising.Agent'"),
        (("--config-dir", "broken", "agent=leaves"), 2, "cannot load 'leaving.Agent'"),
    ],
)
def test_odd_words_get_one_line(cli: Cli, tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    (tmp_path / "broken/agent").mkdir(parents=True)
    (tmp_path / "broken/agent/broken.yaml").write_text("a: [1\n")
    (tmp_path / "broken/agent/raises.yaml").write_text("_target_: raising.Agent\n")
    (tmp_path / "broken/agent/leaves.yaml").write_text("_target_: leaving.Agent\n")
    (tmp_path / "raising.py").write_text("raise RuntimeError('no')\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(7)\n")
    env = {"PYTHONPATH": str(tmp_path), "HYDRA_FULL_ERROR": "0"}
    refused(cli, "run", *SMALL, *words, code=code, said=said, env=env)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_loses_nothing_and_the_run_goes_on_later(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    words = " ".join(f"'{w}'" for w in (*QUICK, "analysis.figures=false", "run.outputs=small", "run.workers=1"))
    script = f"""
mount -t tmpfs -o size=200k none small || exit 77
{sys.executable} -m recurve_eval run {words} 2> first.txt; echo $? > first.code
mount -o remount,size=20m small
{sys.executable} -m recurve_eval run {words} > second.txt 2>&1; echo $? > second.code
cp -r small/*/*/results.jsonl rows.jsonl
"""
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=tmp_path, timeout=200, check=False)
    if done.returncode == 77:
        pytest.skip("this machine does not allow mounting")
    said = (tmp_path / "first.txt").read_text()
    assert (tmp_path / "first.code").read_text().strip() == "3", said
    assert "No space left" in said
    assert "Traceback" not in said
    assert (tmp_path / "second.code").read_text().strip() == "0", (tmp_path / "second.txt").read_text()
    cells = re.findall(r'^\{"cell_id":"([0-9a-f]{16})"', (tmp_path / "rows.jsonl").read_text(), re.MULTILINE)
    assert len(cells) == len(set(cells)) == 14


def test_a_record_that_is_not_text_is_malformed_and_never_stops_the_mirror(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    script.write_text(
        "#!/bin/sh\necho x=1 > solution.py\n" r"""printf '{"model": "\\ud800evil"}' > "$RECURVE_RESULT_FILE" """
    )
    script.chmod(0o755)
    done = cli("run", *SMALL, *COMMAND, f"agent.argv=[{script}]", "task.select={n: 1}", "tracking=mlflow")
    assert done.returncode == 0, done.stderr
    assert "lacks rows" not in done.stderr
    (row,) = recurve_eval.load(the_run(tmp_path)).rows
    assert row["provenance"]["model_served"] is None
    record = json.loads((the_run(tmp_path) / "cells" / row["identity"]["cell_id"] / "run-record-1.json").read_text())
    assert record["record"].startswith("malformed")
