"""One grading, seen from the supervisor: make a place, fork into it, watch, end everything, wipe."""

from __future__ import annotations

import base64
import os
import socket
import sys
import time
from typing import Any, Callable, NamedTuple

from . import apart, contain, report, shared, wire
from . import forking as children
from .watching import Channels, watch


class Place(NamedTuple):
    """What all gradings of a server have in common."""

    scratch: str
    limits: dict[str, int]
    means: contain.Means
    own_namespace: int | None
    must_be_empty: list[str]

    @property
    def work(self) -> str:
        """Where each grading works. One name for all, so that outputs compare; it exists during a grading alone."""
        return self.scratch + "/task"


class Forking(NamedTuple):
    """What the processes of one grading are made from."""

    place: Place
    work: str
    uids: list[int]
    channels: Channels
    host_fd: int


class Unread(Exception):
    """A graded process ended before it took the held-out tests, so the host's line is out of step."""


def grade(job: dict[str, Any], place: Place, number: int, host_fd: int) -> dict[str, Any]:
    """Grade one job. Raises Leftover when nothing-left cannot be proven, HostGone when the host is gone."""
    work = place.work
    uids = _uids(place, number)
    _furnish(work, _decoded(job["files"]), uids[0] if uids else None)
    channels = _open_channels()
    started = time.monotonic()
    pids: list[int] = []
    try:
        key = _fork(job, Forking(place, work, uids, channels, host_fd), pids)
        ledger = report.Ledger(key)
        output, timed_out = watch(channels, ledger, pids, started + job["timeout_s"], host_fd)
    finally:
        statuses, strays = contain.end_all(pids, uids)
        _close(channels)
    wall = time.monotonic() - started
    contain.wipe(work)
    _prove_empty(place)
    if not ledger.received:
        raise Unread("the held-out tests were not taken: " + output[1][-500:].decode("utf-8", "replace"))
    return _reply(ledger, output, statuses.get(pids[0], 0), timed_out, strays, wall)


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


def _decoded(files: dict[str, str]) -> dict[str, bytes]:
    return {path: base64.b64decode(content) for path, content in files.items()}


def _uids(place: Place, number: int) -> list[int]:
    base = place.means.uid_base
    return [] if base is None else [base + 2 * (number % 500), base + 2 * (number % 500) + 1]


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


def _open_channels() -> Channels:
    ours, theirs = socket.socketpair()
    return Channels(ours, theirs, *os.pipe(), *os.pipe())


def _close(channels: Channels) -> None:
    for fd in (channels.out, channels.err):
        os.close(fd)
    channels.report.close()


def _fork(job: dict[str, Any], forking: Forking, pids: list[int]) -> bytes:
    """Start what the arrangement needs, the reporting process first in ``pids``; return the channel's key.

    The held-out tests are the next frame on the host's descriptor. The process that runs them reads it
    there by itself: the supervisor, from whose memory every candidate is forked, never holds a byte of them.
    """
    channels, reporting = forking.channels, forking.channels.report_child.fileno()
    if job["candidate"] == "shared":
        key = os.urandom(32)
        pids.append(_start(_namespaced(forking), lambda: _run_shared(job, forking, reporting, key)))
    else:
        verifier, candidate = socket.socketpair()
        other = _start(_namespaced(forking), lambda: _run_candidate(job, forking, candidate.fileno()))
        pids.append(other)
        key = os.urandom(32)
        pids.insert(0, _start(children.fork, lambda: _run_verifier(job, forking, reporting, verifier.fileno(), key)))
        verifier.close()
        candidate.close()
    channels.report_child.close()
    os.close(channels.out_child)
    os.close(channels.err_child)
    return key


def _namespaced(forking: Forking) -> Callable[[], int]:
    return lambda: contain.fork_in_namespace(forking.place.means, forking.place.own_namespace)


def _start(fork: Callable[[], int], body: Callable[[], None]) -> int:
    pid = fork()
    if pid:
        return pid
    code = 70
    try:
        body()
        code = 0
    except BaseException as error:
        os.write(2, ("runner: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(code)


def _settle(job: dict[str, Any], forking: Forking, keep: set[int], index: int, cwd: str) -> None:
    """Streams, descriptors, environment, limits and user of a fresh child, in this order."""
    os.dup2(forking.channels.out_child, 1)
    os.dup2(forking.channels.err_child, 2)
    close_all_but(keep)
    os.chdir(cwd)
    contain.enter(forking.uids[index] if forking.uids else None, forking.place.limits, int(job["timeout_s"]) + 2)


def _held_out(host_fd: int, channel: report.Channel) -> dict[str, bytes]:
    files = _decoded(wire.receive(host_fd))
    os.close(host_fd)
    channel.tell("received")
    return files


def _run_shared(job: dict[str, Any], forking: Forking, reporting: int, key: bytes) -> None:
    _settle(job, forking, {reporting, forking.host_fd}, 0, forking.work)
    channel = report.open_channel(reporting, key)
    shared.run(dict(job, held_out=_held_out(forking.host_fd, channel)), channel, forking.work)


def _run_candidate(job: dict[str, Any], forking: Forking, line: int) -> None:
    _settle(job, forking, {line}, 0, forking.work)
    apart.serve(line, job["params"]["module"], forking.work)


def _run_verifier(job: dict[str, Any], forking: Forking, reporting: int, line: int, key: bytes) -> None:
    _settle(job, forking, {reporting, line, forking.host_fd}, 1, "/")
    channel = report.open_channel(reporting, key)
    apart.verify(dict(job, held_out=_held_out(forking.host_fd, channel)), channel, line)


def open_streams() -> None:
    """Standard streams for graded processes, made once: each child has its own descriptors behind them."""
    sys.stdout = open(1, "w", 1, "utf-8", "backslashreplace", closefd=False)
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)


def close_all_but(keep: set[int]) -> None:
    """Close every inherited descriptor that this process has no business with; the streams stay."""
    last = 2
    for fd in sorted(keep):
        os.closerange(last + 1, fd)
        last = fd
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX") if last < 3 else max(4096, last + 1))


def _prove_empty(place: Place) -> None:
    remains = contain.remains(place.must_be_empty)
    for path in remains:
        contain.wipe(path)
    if contain.remains(place.must_be_empty):
        raise contain.Leftover("files outlived their grading")
