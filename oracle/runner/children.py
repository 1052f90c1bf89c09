"""The processes of one grading: made and contained before their grading is known, each for one grading alone.

A child that waits has its user, its limits and its namespace already and holds nothing of any job. It is told
of its grading over a descriptor that nothing else holds.
"""

from __future__ import annotations

import base64
import os
import socket
from typing import Any, Callable, NamedTuple

from . import apart, contain, forking, report, shared, wire
from .watching import Channels


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


class Children(NamedTuple):
    """Those of one grading. ``pids`` begins with the one that reports, whose channel has ``key``."""

    arrangement: str
    uids: list[int]
    channels: Channels
    pids: list[int]
    key: bytes


class _Start(NamedTuple):
    """What a child is made from."""

    place: Place
    uids: list[int]
    channels: Channels
    host_fd: int

    @property
    def reporting(self) -> int:
        return self.channels.report_child.fileno()


def make(arrangement: str, place: Place, number: int, host_fd: int) -> Children:
    """Fork what ``arrangement`` needs."""
    uids, channels = _uids(place, number), _open_channels()
    pids: list[int] = []
    try:
        key = _fork(arrangement, _Start(place, uids, channels, host_fd), pids)
    except BaseException:
        contain.end_all(pids, uids)
        raise
    channels.report_child.close()
    os.close(channels.out_child)
    os.close(channels.err_child)
    return Children(arrangement, uids, channels, pids, key)


def waiting(children: Children) -> bool:
    """Whether every one of them is still there."""
    return all(os.waitpid(pid, os.WNOHANG)[0] == 0 for pid in children.pids)


def begin(line: int, job: dict[str, Any]) -> None:
    """Tell them their job. The held-out tests follow on the host's descriptor: the process that runs them reads
    them there by itself, so no process from whose memory a candidate is forked ever holds a byte of them.
    """
    wire.send(line, {name: job[name] for name in ("convention", "params", "timeout_s")})


def hand_over(children: Children) -> None:
    """Close our ends, which the supervisor has by now."""
    for fd in (children.channels.out, children.channels.err):
        os.close(fd)
    children.channels.report.close()


def end(children: Children) -> tuple[dict[int, int], int]:
    """End them and all they started; see :func:`runner.contain.end_all`."""
    if children.channels.report.fileno() >= 0:
        hand_over(children)
    return contain.end_all(children.pids, children.uids)


def _uids(place: Place, number: int) -> list[int]:
    base = place.means.uid_base
    return [] if base is None else [base + 2 * (number % 500), base + 2 * (number % 500) + 1]


def _open_channels() -> Channels:
    ours, theirs = socket.socketpair()
    return Channels(ours, theirs, *os.pipe(), *os.pipe())


def _fork(arrangement: str, start: _Start, pids: list[int]) -> bytes:
    """Start them, the reporting one first in ``pids``; return the channel's key, which no candidate ever holds."""

    def namespaced() -> int:
        return contain.fork_in_namespace(start.place.means, start.place.own_namespace)

    if arrangement == "shared":
        key = os.urandom(32)
        pids.append(_start(namespaced, lambda: _run_shared(start, key)))
        return key
    verifier, candidate = socket.socketpair()
    pids.append(_start(namespaced, lambda: _run_candidate(start, candidate.fileno())))
    key = os.urandom(32)
    pids.insert(0, _start(forking.fork, lambda: _run_verifier(start, verifier.fileno(), key)))
    verifier.close()
    candidate.close()
    return key


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


# -- in a child ----------------------------------------------------------------------------------


def _settle(start: _Start, keep: set[int], index: int) -> None:
    """Streams, descriptors, limits and user of a fresh child, in this order."""
    os.dup2(start.channels.out_child, 1)
    os.dup2(start.channels.err_child, 2)
    close_all_but(keep)
    os.chdir("/")
    contain.enter(start.uids[index] if start.uids else None, start.place.limits)


def _told(fd: int, cwd: str) -> Any:
    """Wait for the job; from here on this process has a time limit and a place."""
    try:
        job = wire.receive(fd)
    except wire.Closed:
        os._exit(0)
    contain.limit_time(int(job["timeout_s"]) + 2)
    os.chdir(cwd)
    return job


def _held_out(host_fd: int, channel: report.Channel) -> dict[str, bytes]:
    files = decoded(wire.receive(host_fd))
    os.close(host_fd)
    channel.tell("received")
    return files


def _run_shared(start: _Start, key: bytes) -> None:
    _settle(start, {start.reporting, start.host_fd}, 0)
    job = _told(start.reporting, start.place.work)
    channel = report.open_channel(start.reporting, key)
    shared.run(dict(job, held_out=_held_out(start.host_fd, channel)), channel, start.place.work)


def _run_candidate(start: _Start, line: int) -> None:
    _settle(start, {line}, 0)
    job = _told(line, start.place.work)
    apart.serve(line, job["module"], start.place.work)


def _run_verifier(start: _Start, line: int, key: bytes) -> None:
    _settle(start, {start.reporting, line, start.host_fd}, 1)
    job = _told(start.reporting, "/")
    wire.send(line, {"module": job["params"]["module"], "timeout_s": job["timeout_s"]})
    channel = report.open_channel(start.reporting, key)
    apart.verify(dict(job, held_out=_held_out(start.host_fd, channel)), channel, line)


def decoded(files: dict[str, str]) -> dict[str, bytes]:
    return {path: base64.b64decode(content) for path, content in files.items()}


def close_all_but(keep: set[int]) -> None:
    """Close every inherited descriptor that this process has no business with; the streams stay."""
    last = 2
    for fd in sorted(keep):
        os.closerange(last + 1, fd)
        last = fd
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX") if last < 3 else max(4096, last + 1))
