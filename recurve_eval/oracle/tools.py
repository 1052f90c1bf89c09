"""Outside programs that the image build runs: named when missing, watched while running, ended with us."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from recurve_eval.errors import Refused

Progress = Callable[[str], None]
INSTALL = {
    "mmdebstrap": "apt-get install -y mmdebstrap",
    "apt-get": "apt-get comes with Debian and Ubuntu; build on one of them",
    "npm": "apt-get install -y npm",
    "newuidmap": "apt-get install -y uidmap",
}


def require(*programs: str) -> None:
    """Raises Refused naming each missing program and the command that installs it."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise Refused("missing: " + "; ".join(f"{program} ({INSTALL[program]})" for program in missing))


def run(argv: Sequence[str], progress: Progress, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a program, passing each line it prints to ``progress``. Returns its exit code and its output.

    On any exception, an interrupt included, the program and its children are told to end (which lets
    mmdebstrap remove its directories), then killed.
    """
    environ = {**os.environ, "LC_ALL": "C", **(env or {})}
    process = subprocess.Popen(
        argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    lines = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            progress(line.rstrip())
        return process.wait(), "".join(lines)
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    for sign, patience_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        if process.poll() is None:
            os.killpg(process.pid, sign)
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                continue
    if process.stdout is not None:
        process.stdout.close()
