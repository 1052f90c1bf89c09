"""The process that forks: it does nothing else, so a fork costs the supervisor nothing.

After a fork each page that the parent writes to has to be copied, as in the child. The supervisor writes to
hundreds during a grading; here that is the business of a process which forks the child of a grading, waits until it
has ended, proves that nothing of it is left, and, where that of another grading cannot reach it, makes the next
child while the supervisor wipes and answers.
"""

from __future__ import annotations

import array
import itertools
import marshal
import os
import select
import signal
import socket
from typing import Any, Callable, NamedTuple

from . import children, contain, libc
from .children import Place, Role

_CHILD, _END = b"c", b"e"
# Sent in place of a child's wait status: it has ended, and not all that it started.
_SOME_LEFT = None
_LIMIT = 1 << 16
_DESCRIPTORS = 4
_MOST_DEAD = 20


class Ends(NamedTuple):
    """The supervisor's ends of a child's channels: descriptors. ``out`` and ``err`` never block."""

    line: int
    out: int
    err: int


class Made(NamedTuple):
    """A child as the supervisor knows it; see :func:`runner.children.maker`. ``process`` is a descriptor of it."""

    uid: int | None
    key: bytes
    ends: Ends
    process: int

    def gone(self) -> bool:
        """Whether it has ended."""
        return bool(select.select([self.process], [], [], 0)[0])

    def close(self) -> None:
        """Our descriptors of it."""
        for fd in (*self.ends, self.process):
            os.close(fd)


class Nursery:
    """The supervisor's side. ``prepare`` is called in the nursery, before its first fork.

    Raises Leftover where nothing-left could not be proven.
    """

    def __init__(self, place: Place, role: Role, prepare: Callable[[], None]) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ahead, self._asked = place.means.apart(), False
        self._pid = os.fork()
        if self._pid == 0:
            _live(theirs, place, role, prepare)
        theirs.close()

    def child(self) -> Made:
        """A fresh one, alive, which has to be ended before the next is asked for."""
        words = b""
        for _ in range(_MOST_DEAD):
            made = self._handed()
            if not made.gone():
                return made
            self.end(made)
            try:
                words = os.read(made.ends.err, 500)
            except BlockingIOError:
                pass
            made.close()
        raise contain.Leftover(
            "%d children died while they waited: %s" % (_MOST_DEAD, words.decode("utf-8", "replace").strip())
        )

    def _handed(self) -> Made:
        if not self._asked:
            self._say(_CHILD)
        self._asked = self._ahead  # from now on each comes when the one before it has ended
        (uid, *keys), fds = self._heard()
        return Made(uid, b"".join(keys), Ends(*fds[:3]), fds[3])

    def end(self, made: Made) -> tuple[int, int]:
        """Its wait status, and how many of its descendants had outlived it; see :func:`runner.contain.end_all`."""
        try:
            signal.pidfd_send_signal(made.process, signal.SIGKILL)
        except ProcessLookupError:
            pass
        answer, _ = self._heard()
        if answer is _SOME_LEFT:
            self._say(_END)
            answer, _ = self._heard()
        status, strays = answer
        return status, strays

    def close(self) -> None:
        self._line.close()
        os.waitpid(self._pid, 0)

    def _say(self, word: bytes) -> None:
        try:
            self._line.send(word)
        except OSError:
            self._die_likewise()

    def _heard(self) -> tuple[Any, array.array[int]]:
        fds: array.array[int] = array.array("i")
        try:
            data, ancillary, _, _ = self._line.recvmsg(_LIMIT, socket.CMSG_SPACE(_DESCRIPTORS * fds.itemsize))
        except ConnectionResetError:  # it died with our word unread
            data, ancillary = b"", []
        if not data:
            self._die_likewise()
        for _, _, each in ancillary:
            fds.frombytes(each)
        answer = marshal.loads(data)
        if isinstance(answer, str):
            raise contain.Leftover(answer)
        return answer, fds

    def _die_likewise(self) -> None:
        """A killed nursery is a killed server, and its host is to see it as one."""
        status = os.waitpid(self._pid, 0)[1]
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
            # Still here: the first process of a container is not ended by signals of its own.
            os._exit(128 + os.WTERMSIG(status))
        raise contain.Leftover("the process that forks ended by itself")


# -- the nursery's side --------------------------------------------------------------------------


def _live(line: socket.socket, place: Place, role: Role, prepare: Callable[[], None]) -> None:
    try:
        kept = (line.fileno(), place.own_namespace, role.host_fd)
        children.close_all_but(fd for fd in kept if fd is not None)
        libc.die_with_parent()
        libc.become_subreaper()
        _serve(line, place, role, prepare)
    except BaseException as error:
        try:
            line.send(marshal.dumps("%s: %s" % (type(error).__name__, error)))
        except OSError:
            pass
    finally:
        os._exit(0)


def _serve(line: socket.socket, place: Place, role: Role, prepare: Callable[[], None]) -> None:
    if not line.recv(1):
        return
    prepare()
    ahead, make, dumps = place.means.apart(), children.maker(role, place, line), marshal.dumps

    def hold() -> None:
        """What a child started and outlives it may still answer for it, until the supervisor ends the grading."""
        try:
            line.send(dumps(_SOME_LEFT))
            line.recv(1)
        except OSError:  # the supervisor is gone
            pass

    for uid in itertools.cycle(role.users(place)):
        line.send(dumps(contain.end_all(make(uid), uid, hold)))
        if not ahead and not line.recv(1):
            return
