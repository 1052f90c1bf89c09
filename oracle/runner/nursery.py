"""The process that forks: it does nothing else, so a fork costs the supervisor nothing.

After a fork each page that the parent writes to has to be copied, as in the child. The supervisor writes to
hundreds during a grading; here that is the business of a process which forks the child of a grading,
waits for the word, ends it, proves that nothing of it is left, and, where that of another grading
cannot reach it, makes the next child while the supervisor wipes and answers.
"""

from __future__ import annotations

import marshal
import os
import select
import socket
from typing import Any, Callable, NamedTuple

from . import children, contain, libc
from .children import Child, Place, Role

_CHILD, _END = b"c", b"e"
_LIMIT = 1 << 16


class Ends(NamedTuple):
    """The supervisor's ends of a child's channels: descriptors."""

    line: int
    out: int
    err: int


class Made(NamedTuple):
    """A child as the supervisor knows it; see :class:`runner.children.Child`."""

    uid: int | None
    pid: int
    key: bytes
    ends: Ends


def gone(pid: int) -> bool:
    """Whether a process has ended, be it a child of ours or not."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], 0)[0])
    finally:
        os.close(fd)


class Nursery:
    """The supervisor's side. ``prepare`` is called in the nursery, before its first fork.

    Raises Leftover where nothing-left could not be proven.
    """

    def __init__(self, place: Place, host_fd: int, role: Role, prepare: Callable[[], None]) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ahead, self._asked = place.means.apart(), False
        self._pid = os.fork()
        if self._pid == 0:
            _live(_Forks(theirs, place, host_fd, role, prepare))
        theirs.close()

    def child(self) -> Made:
        """A fresh one, which has to be ended before the next is asked for."""
        made = self._handed()
        while gone(made.pid):  # it died while it waited
            for fd in made.ends:
                os.close(fd)
            self.end()
            made = self._handed()
        return made

    def _handed(self) -> Made:
        if not self._asked:
            self._say(_CHILD)
        self._asked = False
        (uid, pid, key), fds = self._heard(3)
        return Made(uid, pid, key, Ends(*fds))

    def end(self) -> tuple[int, int]:
        """Its wait status, and how many of its descendants had outlived it; see :func:`runner.contain.end_all`."""
        self._say(_END)
        (status, strays), _ = self._heard(0)
        if self._ahead:  # so that the next one is here when it is wanted
            self._say(_CHILD)
            self._asked = True
        return status, strays

    def close(self) -> None:
        self._line.close()
        os.waitpid(self._pid, 0)

    def _say(self, word: bytes) -> None:
        try:
            self._line.send(word)
        except OSError:
            self._die_likewise()

    def _heard(self, descriptors: int) -> tuple[Any, list[int]]:
        try:
            data, fds, _, _ = socket.recv_fds(self._line, _LIMIT, descriptors)
        except ConnectionResetError:  # it died with our word unread
            data, fds = b"", []
        if not data:
            self._die_likewise()
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


class _Forks(NamedTuple):
    line: socket.socket
    place: Place
    host_fd: int
    role: Role
    prepare: Callable[[], None]

    def make(self, number: int) -> Child:
        return children.make(self.role, self.place, number, self.host_fd)

    def descriptors(self) -> set[int]:
        own = [] if self.place.own_namespace is None else [self.place.own_namespace]
        return {self.line.fileno(), self.host_fd, *own}


def _live(forks: _Forks) -> None:
    try:
        children.close_all_but(forks.descriptors())
        libc.die_with_parent()
        libc.become_subreaper()
        _serve(forks)
    except BaseException as error:
        try:
            forks.line.send(marshal.dumps("%s: %s" % (type(error).__name__, error)))
        except OSError:
            pass
    finally:
        os._exit(0)


def _serve(forks: _Forks) -> None:
    line = forks.line
    made: Child | None = None
    number = 0
    while True:
        word = line.recv(1)
        if made is not None and (not word or word == _END):
            result = children.end(made)
            made = None
            if word:
                line.send(marshal.dumps(result))
                if forks.place.means.apart():
                    number, made = number + 1, forks.make(number)
        if not word:
            return
        if word == _CHILD:
            if number == 0:
                forks.prepare()
            if made is None:
                number, made = number + 1, forks.make(number)
            ends = [made.channels.line.fileno(), made.channels.out, made.channels.err]
            socket.send_fds(line, [marshal.dumps((made.uid, made.pid, made.key))], ends)
            children.hand_over(made)
