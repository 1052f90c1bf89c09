"""One grading, seen from the supervisor: make a place, tell the children, watch, end everything, wipe."""

from __future__ import annotations

import base64
import errno
import os
import time
from typing import Any, NamedTuple

from . import contain, report, verifiers, wire
from .children import Place
from .nursery import Made, Nursery
from .roles import decoded
from .verifier import LOADED, RECEIVED
from .verifiers import Verifiers
from .watching import watch


class Unread(Exception):
    """A process of the grading ended before it took the held-out tests or its job: by no deed of the submission."""


class Bench(NamedTuple):
    """What a supervisor grades with: a nursery for each arrangement, and those who hold tests apart."""

    place: Place
    host_fd: int
    candidates: Nursery
    shared: Nursery
    verifiers: Verifiers

    def close(self) -> None:
        self.verifiers.close()
        self.shared.close()
        self.candidates.close()


class Seen(NamedTuple):
    """How one grading went, once nothing of it runs any more. ``status`` is that of the process that reported."""

    output: list[bytearray]
    timed_out: bool
    wall: float
    status: int
    strays: int


def grade(job: dict[str, Any], bench: Bench) -> dict[str, Any]:
    """Grade one job. Raises Leftover when nothing-left cannot be proven, HostGone when the host is gone."""
    ledger, seen = (_grade_apart if job["candidate"] == "apart" else _grade_shared)(job, bench)
    contain.wipe(bench.place.work)
    _prove_empty(bench.place)
    if not ledger.received:
        raise Unread("the tests or the job were not taken: " + seen.output[1][-500:].decode("utf-8", "replace"))
    return _reply(ledger, seen)


def _grade_shared(job: dict[str, Any], bench: Bench) -> tuple[report.Ledger, Seen]:
    made = bench.shared.child()
    ledger = report.Ledger(made.key)
    try:
        started = _furnish(bench.place.work, job, made)
        wire.send(made.ends.line, {name: job[name] for name in verifiers.TOLD})
        os.set_blocking(made.ends.line, False)
        output, timed_out = watch(made, [made.ends], ledger, started + job["timeout_s"], bench.host_fd)
    finally:
        status, strays = _end(bench.shared, made, made.ends)
    return ledger, Seen(output, timed_out, time.monotonic() - started, status, strays)


def _grade_apart(job: dict[str, Any], bench: Bench) -> tuple[report.Ledger, Seen]:
    # In this order: whoever is handed over here and not told its job keeps the server from its end.
    judge, made = bench.verifiers.ready(), bench.candidates.child()
    key, challenge = os.urandom(32), os.urandom(8).hex()
    ledger = report.Ledger(key, challenge)
    status = strays = 0
    try:
        started = _furnish(bench.place.work, job, made)
        bench.verifiers.begin(made.ends.line, {"key": key.hex(), "challenge": challenge}, job)
        output, timed_out = watch(judge, [made.ends, judge.ends], ledger, started + job["timeout_s"], bench.host_fd)
        ledger.progressed(*(bench.verifiers.progress() >= step for step in (RECEIVED, LOADED)))
    finally:
        _, strays = _end(bench.candidates, made, made.ends[1:])
        if ledger.finished and not ledger.breaches and bench.place.means.apart():
            bench.verifiers.reported(ledger.rest())
        else:
            status, more = bench.verifiers.dismiss()
            strays += more
    return ledger, Seen(output, timed_out, time.monotonic() - started, status, strays)


def _end(nursery: Nursery, made: Made, open_ends: tuple[int, ...]) -> tuple[int, int]:
    try:
        return nursery.end(made)
    finally:
        for fd in (*open_ends, made.process):
            os.close(fd)


def _reply(ledger: report.Ledger, seen: Seen) -> dict[str, Any]:
    return {
        "status": "graded",
        "records": ledger.records,
        "breaches": ledger.breaches,
        "canaries": ledger.canaries,
        "load_error": ledger.load_error,
        "harness_error": ledger.harness_error,
        "finished": ledger.finished,
        "stage": ledger.stage,
        "timed_out": seen.timed_out,
        "exit": _exit(seen.status),
        "strays": seen.strays,
        "wall_s": seen.wall,
        "stdout": base64.b64encode(seen.output[0]).decode(),
        "stderr": base64.b64encode(seen.output[1]).decode(),
    }


def _exit(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "signal %d" % os.WTERMSIG(status)
    return "exit code %d" % os.WEXITSTATUS(status)


def _furnish(work: str, job: dict[str, Any], graded: Made) -> float:
    """Lay the job's files for the process that runs them; return when that was done, of the monotonic clock."""
    made = [work, work + "/.tmp"]
    for folder in made:
        os.mkdir(folder, 0o700)
    # Those of the task come last, and win.
    for path, content in reversed(decoded(job["files"]).items()):
        target = os.path.normpath(path)
        if target.startswith("/") or target.split("/")[0] == "..":
            raise ValueError("a file outside the work directory: %r" % path)
        try:
            _lay(work, target, content, made)
        except OSError as error:
            if error.errno not in _NO_PLACE:
                raise
    if graded.uid is not None:
        for path in made:
            os.chown(path, graded.uid, graded.uid)
    return time.monotonic()


# What a submission calls a file may be taken, or be no name here; it is then graded without that file.
_NO_PLACE = (errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG)


def _lay(work: str, target: str, content: bytes, made: list[str]) -> None:
    folder = work
    for part in target.split("/")[:-1]:
        folder += "/" + part
        if not os.path.isdir(folder):
            os.mkdir(folder, 0o700)
            made.append(folder)
    _write(work + "/" + target, content)
    made.append(work + "/" + target)


def _write(path: str, content: bytes) -> None:
    """A new file. Python's own file objects ask four times for what is known here."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        wire.write_all(fd, content)
    finally:
        os.close(fd)


def _prove_empty(place: Place) -> None:
    found = contain.remains(place.must_be_empty)
    for path in found:
        contain.wipe(path)
    if found and contain.remains(place.must_be_empty):
        raise contain.Leftover("files outlived their grading")
