"""After cells of every hostile kind: no process, container, mount or file outside the outputs is left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from sandboxes import sandbox

import recurve_eval
from recurve_eval.agents._hostile import BEHAVIOURS
from recurve_eval.domain import digest
from recurve_eval.execute.bench import LABEL

CELLS = int(os.environ.get("RECURVE_HOSTILE_CELLS", "13"))
KINDS = sorted(set(BEHAVIOURS) - {"flood", "huge_file"})  # those two are slow, and tested by themselves


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["bubblewrap"])
def test_nothing_is_left_of_hostile_cells(name: str, tmp_path: Path) -> None:
    sandbox(name)
    seeds = max(1, -(-CELLS // len(KINDS)))
    words = [
        f"sandbox={name}", "oracle=process", "tracking=none", "task.select={n: 1, seed: 0}", "run.workers=2", f"seed=range({seeds})",
        f"agent.behaviour={','.join(KINDS)}", "budget=one_shot", "budget.wall_s=2.5", "sandbox.disk_mb=300", "sandbox.max_processes=64",
        "sandbox.grace_s=0.1", "run.analyze=false", "run.progress=none", "run.stop_after_infra=0", "study.name=hostile",
    ]  # fmt: skip
    command = [sys.executable, "-m", "recurve_eval", "run", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0, done.stderr
    (run_dir,) = (p.parent for p in tmp_path.glob("outputs/hostile/*/plan.yaml"))
    rows = recurve_eval.load(run_dir).rows
    assert len(rows) == len(KINDS) * seeds >= CELLS
    assert {r["verdict"]["reason"] for r in rows} == {None}, "no misdeed of an agent is trouble of the machinery"
    held = {r["identity"]["agent"]: r["declaration"]["declared_done"] for r in rows}
    assert not any(done for agent, done in held.items() if any(k in agent for k in ("hang", "crash", "fill_disk")))
    family = f"{LABEL}{digest([rows[0]['identity']['plan_hash'], str(run_dir.resolve())])[:12]}"
    assert Path(run_dir, "cells", rows[0]["identity"]["cell_id"]).is_dir()
    assert [p for p in psutil.process_iter() if _session(p).startswith(family)] == []
    assert list(Path(tempfile.gettempdir()).glob(f"{family}*")) == []
    assert [line for line in Path("/proc/self/mounts").read_text().splitlines() if family in line] == []
    assert family not in _containers()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["outputs"]


def _session(process: psutil.Process) -> str:
    try:
        return process.environ().get("RECURVE_SESSION", "")
    except psutil.Error:
        return ""


def _containers() -> str:
    """The sessions that containers belong to, as far as a daemon is here to tell."""
    words = ["docker", "ps", "--all", "--filter", "label=recurve-session", "--format", '{{.Label "recurve-session"}}']
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout
    except OSError:
        return ""
