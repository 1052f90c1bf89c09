"""The processes of a grading: each made and contained before its grading is known.

A child that waits has its user, its limits and its namespace already and holds nothing of any job. It is told
of its grading over a descriptor that nothing else holds. One that runs a submission serves one grading; how
long a verifier may serve is said in :mod:`runner.verifier`.

What happens here between two forks, and in a child, is written out in few functions and without classes: each
function and each object that takes part is a page to copy, on either side.
"""

from __future__ import annotations

import _socket
import array
import marshal
import os
import resource
import socket
from typing import Callable, Iterable, NamedTuple

from . import contain, forking

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


class Role(NamedTuple):
    """What a child does, and in what it is held.

    ``body`` is given the child's line to the supervisor, on which it is told its job, and a list that holds the key of
    its report and nothing else. ``graded``: it runs a submission. ``reports``: for a single grading, under a key of its
    own; else that list is empty.
    ``host_fd``: where it reads held-out tests from the host, if it does. ``stays``: it shares a processor with the one
    that it talks to; of the two, one waits while the other runs, and to wake a process on another processor, which may
    be asleep, costs more than most calls of a submission. Processes of a role have user ids in turn, of which every
    ``KINDS``-th, counted from ``kind``, is of that role: children of several roles may be there at once.
    """

    kind: int
    body: Callable[[int, list[bytes]], None]
    graded: bool = True
    reports: bool = False
    host_fd: int | None = None
    stays: bool = False

    def users(self, place: Place) -> Iterable[int | None]:
        """User ids of the children of this role, of which the first follows the last."""
        base = place.means.uid_base
        return [None] if base is None else [base + KINDS * turn + self.kind for turn in range(_TURNS)]


def maker(role: Role, place: Place, line: socket.socket) -> Callable[[int | None], int]:
    """A function that makes a child with a given user id and returns its process id.

    The supervisor at the other end of ``line`` is sent that user id and the key, with four descriptors: its ends of the
    child's line, output and errors, of which the latter two never block, and one of the process.
    """
    settling = {uid: contain.entering(uid, place.limits) for uid in role.users(place)}
    host = [] if role.host_fd is None else [role.host_fd]
    stay = {place.processor} if role.stays else None
    fork = contain.forker_in_namespace(place.means, place.own_namespace) if role.graded else forking.forker()
    reports, body, send, dumps = role.reports, role.body, line.sendmsg, marshal.dumps
    # Not the class that Python puts around it.
    socketpair = _socket.socketpair
    pipe, close, set_blocking, pidfd_open = os.pipe, os.close, os.set_blocking, os.pidfd_open

    def make(uid: int | None) -> int:
        keys = [os.urandom(32)] if reports else []
        near, far = socketpair()
        ours, theirs = near.detach(), far.detach()
        out, out_child = pipe()
        err, err_child = pipe()
        set_blocking(out, False)
        set_blocking(err, False)
        pid = fork()
        if pid == 0:
            _live(theirs, out_child, err_child, host, settling[uid], stay, body, keys)
        given = array.array("i", (ours, out, err, pidfd_open(pid)))
        send((dumps((uid, *keys)),), ((socket.SOL_SOCKET, socket.SCM_RIGHTS, given),))
        for fd in (theirs, out_child, err_child, *given):
            close(fd)
        return pid

    return make


def _live(
    line: int, out: int, err: int, host: list[int], settling: list[contain.Step], stay: set[int] | None,
    body: Callable[[int, list[bytes]], None], keys: list[bytes],
) -> None:  # fmt: skip
    """A fresh child: streams, descriptors, limits and user, in this order, and then what it is for."""
    code = 70
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        close_all_but((line, *host))
        os.chdir("/")
        for call, arguments in settling:
            call(*arguments)
        if stay:
            try:
                os.sched_setaffinity(0, stay)
            except OSError:  # it was taken away from this server since; only speed is lost
                pass
        body(line, keys)
        code = 0
    except BaseException as error:
        os.write(2, ("runner: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(code)


def begin(timeout_s: float, work: str) -> None:
    """From here on a child that runs a submission has a time limit, in seconds of processor time, and a place."""
    limit = int(timeout_s) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    os.chdir(work)


def close_all_but(keep: Iterable[int]) -> None:
    """Close every inherited descriptor that this process has no business with; the streams stay."""
    first = 3
    for fd in sorted(keep):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, max(4096, first))
