"""A cell is bounded even where its harness hangs: other processes end the agent on time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from sandboxes import CONF, living, sandbox

HARNESS = """
import sys; from pathlib import Path
from sandboxes import cell, sandbox
from recurve_eval.sandbox import _guard, process
_guard.MARGIN_SECONDS = process.MARGIN_SECONDS = 0.5
made = cell(sandbox(sys.argv[1], grace_s=0.1), Path(sys.argv[2]), sys.argv[3])
done = made.sh("trap '' TERM; setsid env -i sh -c 'touch up; exec sleep 99.0625' & while :; do sleep 60; done", timeout_s=1.0)
Path(sys.argv[2], "ended").write_text(f"{done.timed_out} {done.exit_code}")
made.gone()
"""


@pytest.mark.parametrize("name", ["process", "bubblewrap", "docker"])
def test_a_frozen_harness_cannot_keep_its_agent_alive(name: str, tmp_path: Path) -> None:
    sandbox(name)
    label = f"frozen-{uuid.uuid4().hex}"
    paths = os.pathsep.join([str(CONF.parent), str(CONF.parent / "tests"), *sys.path])
    words = [sys.executable, "-c", HARNESS, name, str(tmp_path / "cell"), label]
    harness = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": paths})
    try:
        wait(lambda: (tmp_path / "cell/workspace/up").exists() and sleepers())
        harness.send_signal(signal.SIGSTOP)
        hidden = sleepers()
        assert living(label) and hidden
        wait(lambda: not living(label) and not hidden & sleepers())
        assert harness.poll() is None
        harness.send_signal(signal.SIGCONT)
        assert harness.wait(30) == 0
        assert (tmp_path / "cell/ended").read_text() == "True None", "and its time-out is told as such"
    finally:
        harness.kill()
        harness.wait()


def sleepers() -> set[int]:
    found = set()
    for process in psutil.process_iter():
        try:
            if process.cmdline() == ["sleep", "99.0625"]:
                found.add(process.pid)
        except psutil.Error:
            continue
    return found


def wait(condition: object, seconds: float = 30.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
