"""The processes of a grading: each made and contained before its grading is known.

A child that waits has its user, its limits and its namespace already and holds nothing of any job. It is told
of its grading over a descriptor that nothing else holds. One that runs a submission serves one grading; how
long a verifier may serve is said in :mod:`runner.verifier`.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Callable, NamedTuple

from . import contain, forking, wire

KINDS = 3
_TURNS = 333


class Place(NamedTuple):
    """What all gradings of a server have in common."""

    scratch: str
    limits: dict[str, int]
    means: contain.Means
    own_namespace: int | None
    must_be_empty: list[str]
    processor: int

    @property
    def work(self) -> str:
        """Where each grading works. One name for all, so that outputs compare; it exists during a grading alone."""
        return self.scratch + "/task"


class Channels(NamedTuple):
    """Descriptors of one child: ours first, the child's second."""

    line: socket.socket
    line_child: socket.socket
    out: int
    out_child: int
    err: int
    err_child: int


class Child(NamedTuple):
    """One process. ``key`` is that of its report, where it makes one for a single grading, and else empty."""

    uid: int | None
    channels: Channels
    pid: int
    key: bytes


class Start(NamedTuple):
    """What a child is made from. It is told its job on ``line``; held-out tests come on ``host_fd``."""

    place: Place
    uid: int | None
    channels: Channels
    host_fd: int
    key: bytes

    @property
    def line(self) -> int:
        return self.channels.line_child.fileno()

    def settle(self, keep: set[int]) -> None:
        """Streams, descriptors, limits and user of a fresh child, in this order."""
        os.dup2(self.channels.out_child, 1)
        os.dup2(self.channels.err_child, 2)
        close_all_but(keep)
        os.chdir("/")
        contain.enter(self.uid, self.place.limits)

    def stay(self) -> None:
        """Share a processor with the one that this child talks to.

        Of the two, one waits while the other runs. To wake a process on another processor, which may be asleep, costs
        more than most calls of a submission.
        """
        try:
            os.sched_setaffinity(0, {self.place.processor})
        except OSError:  # it was taken away from this server since; only speed is lost
            pass

    def told(self) -> Any:
        """Wait for the job of a child that runs a submission; from here on it has a time limit and a place."""
        try:
            job = wire.receive(self.line)
        except wire.Closed:
            os._exit(0)
        contain.limit_time(int(job["timeout_s"]) + 2)
        os.chdir(self.place.work)
        return job


class Role(NamedTuple):
    """What a child does, and in what it is held.

    ``graded``: it runs a submission. ``reports``: for a single grading, under a key of its own. Processes of a role
    have user ids in turn, of which every ``KINDS``-th, counted from ``kind``, is of that role: children of several
    roles may be there at once.
    """

    kind: int
    body: Callable[[Start], None]
    graded: bool = True
    reports: bool = False


def make(role: Role, place: Place, number: int, host_fd: int) -> Child:
    """Fork one."""
    key = os.urandom(32) if role.reports else b""
    start = Start(place, _uid(place, role, number), _open_channels(), host_fd, key)
    pid = _fork(role, place)
    if pid == 0:
        _live(role.body, start)
    start.channels.line_child.close()
    os.close(start.channels.out_child)
    os.close(start.channels.err_child)
    return Child(start.uid, start.channels, pid, key)


def hand_over(child: Child) -> None:
    """Close our ends, which the supervisor has by now."""
    for fd in (child.channels.out, child.channels.err):
        os.close(fd)
    child.channels.line.close()


def end(child: Child) -> tuple[int, int]:
    """End it and all that it started: its wait status, and how many outlived it."""
    if child.channels.line.fileno() >= 0:
        hand_over(child)
    statuses, strays = contain.end_all([child.pid], [] if child.uid is None else [child.uid])
    return statuses.get(child.pid, 0), strays


def close_all_but(keep: set[int]) -> None:
    """Close every inherited descriptor that this process has no business with; the streams stay."""
    last = 2
    for fd in sorted(keep):
        os.closerange(last + 1, fd)
        last = fd
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX") if last < 3 else max(4096, last + 1))


def _uid(place: Place, role: Role, number: int) -> int | None:
    base = place.means.uid_base
    return None if base is None else base + KINDS * (number % _TURNS) + role.kind


def _open_channels() -> Channels:
    ours, theirs = socket.socketpair()
    return Channels(ours, theirs, *os.pipe(), *os.pipe())


def _fork(role: Role, place: Place) -> int:
    return contain.fork_in_namespace(place.means, place.own_namespace) if role.graded else forking.fork()


def _live(body: Callable[[Start], None], start: Start) -> None:
    code = 70
    try:
        body(start)
        code = 0
    except BaseException as error:
        os.write(2, ("runner: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(code)
