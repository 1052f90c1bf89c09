"""One grading, seen from the supervisor: make a place, tell the children, watch, end everything, wipe."""

from __future__ import annotations

import base64
import os
import sys
import time
from typing import Any

from . import children, contain, report
from .children import Place
from .nursery import Nursery
from .watching import watch


class Unread(Exception):
    """A graded process ended before it took the held-out tests, so the host's line is out of step."""


def grade(job: dict[str, Any], place: Place, host_fd: int, nursery: Nursery) -> dict[str, Any]:
    """Grade one job. Raises Leftover when nothing-left cannot be proven, HostGone when the host is gone."""
    made = nursery.children(job["candidate"])
    try:
        ledger = report.Ledger(made.key)
        _furnish(place.work, children.decoded(job["files"]), made.uids[0] if made.uids else None)
        started = time.monotonic()
        children.begin(made.ends.report, job)
        os.set_blocking(made.ends.report, False)
        output, timed_out = watch(made.ends, ledger, made.pids, started + job["timeout_s"], host_fd)
    finally:
        statuses, strays = nursery.end()
        for fd in made.ends:
            os.close(fd)
    wall = time.monotonic() - started
    contain.wipe(place.work)
    _prove_empty(place)
    if not ledger.received:
        raise Unread("the held-out tests were not taken: " + output[1][-500:].decode("utf-8", "replace"))
    return _reply(ledger, output, statuses.get(made.pids[0], 0), timed_out, strays, wall)


def _reply(
    ledger: report.Ledger, output: list[bytearray], status: int, timed_out: bool, strays: int, wall: float
) -> dict[str, Any]:
    return {
        "status": "graded",
        "records": ledger.records,
        "breaches": ledger.breaches,
        "canaries": ledger.canaries,
        "load_error": ledger.load_error,
        "harness_error": ledger.harness_error,
        "finished": ledger.finished,
        "stage": ledger.stage,
        "timed_out": timed_out,
        "exit": _exit(status),
        "strays": strays,
        "wall_s": wall,
        "stdout": base64.b64encode(output[0]).decode(),
        "stderr": base64.b64encode(output[1]).decode(),
    }


def _exit(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "signal %d" % os.WTERMSIG(status)
    return "exit code %d" % os.WEXITSTATUS(status)


def _furnish(work: str, files: dict[str, bytes], uid: int | None) -> None:
    made = [work, work + "/.tmp"]
    for folder in made:
        os.mkdir(folder, 0o700)
    for path, content in files.items():
        target = os.path.normpath(path)
        if target.startswith(("/", "..")):
            raise ValueError("a file outside the work directory: %r" % path)
        folder = work
        for part in target.split("/")[:-1]:
            folder += "/" + part
            if not os.path.isdir(folder):
                os.mkdir(folder, 0o700)
                made.append(folder)
        with open(work + "/" + target, "xb") as file:
            file.write(content)
        made.append(work + "/" + target)
    if uid is not None:
        for path in made:
            os.chown(path, uid, uid)


def open_streams() -> None:
    """Standard streams for graded processes, made once: each child has its own descriptors behind them."""
    sys.stdout = open(1, "w", 1, "utf-8", "backslashreplace", closefd=False)
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)


def _prove_empty(place: Place) -> None:
    remains = contain.remains(place.must_be_empty)
    for path in remains:
        contain.wipe(path)
    if contain.remains(place.must_be_empty):
        raise contain.Leftover("files outlived their grading")
