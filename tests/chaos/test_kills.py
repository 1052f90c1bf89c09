"""SIGKILL at random moments: every cell once, and no sealed cell's agent ever again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

import recurve_eval
from tests.conftest import QUICK

KILLS = int(os.environ.get("RECURVE_KILLS", "4"))
CELLS_A_KILL = 7


def _command(log: Path, tasks: int) -> list[str]:
    script = f'cat >/dev/null; echo "$RECURVE_SESSION" >> {log}; echo "x = 1" > solution.py'
    return [
        sys.executable, "-m", "recurve_eval", "run", *QUICK, "agent=command", f"agent.command='{script}'", "agent.paid=false",
        "model=unnamed", f"seed=range({tasks})", "run.workers=2", "run.analyze=false", "study.name=kills",
    ]  # fmt: skip


def _children_named(label: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if label in process.environ().get("RECURVE_SESSION", ""):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.timeout(1800)
def test_kills_at_random_moments_lose_and_repeat_nothing(tmp_path: Path) -> None:
    log = tmp_path / "agent-runs"
    seeds = max(2, round(KILLS * CELLS_A_KILL / 14))
    command = _command(log, seeds)
    chance = random.Random(7)
    killed = 0
    while killed < KILLS:
        before = len(log.read_text().splitlines()) if log.exists() else 0
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        goal = before + chance.randint(0, CELLS_A_KILL - 1)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if log.exists() and len(log.read_text().splitlines()) >= goal and goal > before:
                break
            if goal == before and chance.random() < 0.02:
                break
            time.sleep(chance.random() * 0.02)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed += 1
    assert killed == KILLS, f"the run ended after {killed} kills: make it longer"

    last = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert last.returncode == 0, last.stderr
    (run_dir,) = (p.parent for p in tmp_path.glob("outputs/kills/*/plan.yaml"))
    rows = recurve_eval.load(run_dir).rows
    assert len(rows) == 14 * seeds
    assert len({r["identity"]["cell_id"] for r in rows}) == len(rows)

    # recurve-<plan>-<pid>.<cell>.<attempt>:<token>
    runs = Counter(tuple(line.split(":")[0].split(".")[1:3]) for line in log.read_text().splitlines())
    assert set(runs.values()) == {1}, "an attempt's agent ran twice"
    sealed = {r["identity"]["cell_id"]: r["identity"]["attempt"] for r in rows}
    for cell, attempt in runs:
        assert int(attempt) <= sealed[cell], "an agent ran after its cell was sealed"
    assert {(c, str(a)) for c, a in sealed.items()} <= set(runs)
    assert not _children_named(f"recurve-{rows[0]['identity']['plan_hash'][:12]}")
    assert not list(Path("/tmp").glob(f"recurve-{rows[0]['identity']['plan_hash'][:12]}*"))


def test_ctrl_c_once_stops_in_order_and_says_how_to_go_on(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "recurve_eval", "run", *QUICK, "agent.behaviour=hang", "budget.wall_s=300",
        "study.name=stopped",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    _wait_for(lambda: any(tmp_path.glob("outputs/stopped/*/cells/*/prompt.md")))
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "0 of 14 cells are sealed" in said
    assert "the same command resumes" in said
    assert "Traceback" not in said


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recurve_eval", "run", *QUICK, "agent.behaviour=hang", "study.name=twice"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    _wait_for(lambda: any(tmp_path.glob("outputs/twice/*/cells/*/prompt.md")))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_a_second_process_is_refused_by_name_of_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recurve_eval", "run", *QUICK, "agent.behaviour=hang", "study.name=owned"]
    first = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        _wait_for(lambda: any(tmp_path.glob("outputs/owned/*/cells/*/prompt.md")))
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait(60)
    assert second.returncode == 3
    assert str(first.pid) in second.stderr
    assert first.returncode == 130


def _wait_for(condition: object, seconds: float = 60) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)
