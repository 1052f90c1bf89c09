"""The process that forks: it does nothing else, so a fork costs the supervisor nothing.

After a fork each page that the parent writes to has to be copied, as in the child. The supervisor writes to
hundreds during a grading; here that is the business of a process which forks the children of a grading,
waits for the word, ends them, proves that nothing of them is left, and, where those of another grading
cannot reach them, makes the children of the next one while the supervisor wipes and answers.
"""

from __future__ import annotations

import marshal
import os
import socket
from typing import Any, NamedTuple

from . import children, contain, libc
from .children import Place
from .watching import Ends

_WORDS = {"apart": b"a", "shared": b"s"}
_ARRANGEMENTS = {word: name for name, word in _WORDS.items()}
_END = b"e"
_LIMIT = 1 << 16


class Made(NamedTuple):
    """Children as the supervisor knows them: ``pids`` and ``uids`` as in :class:`runner.children.Children`."""

    uids: list[int]
    pids: list[int]
    key: bytes
    ends: Ends


class Nursery:
    """The supervisor's side. Raises Leftover where nothing-left could not be proven."""

    def __init__(self, place: Place, host_fd: int) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self._line.close()
            _live(theirs, place, host_fd)
        theirs.close()

    def children(self, arrangement: str) -> Made:
        """Those for one grading, which has to be ended before the next is asked for."""
        self._say(_WORDS[arrangement])
        (uids, pids, key), fds = self._heard(3)
        return Made(uids, pids, key, Ends(*fds))

    def end(self) -> tuple[dict[int, int], int]:
        """As :func:`runner.contain.end_all`."""
        self._say(_END)
        (statuses, strays), _ = self._heard(0)
        return statuses, strays

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


def _live(line: socket.socket, place: Place, host_fd: int) -> None:
    try:
        libc.die_with_parent()
        libc.become_subreaper()
        _serve(line, place, host_fd)
    except BaseException as error:
        try:
            line.send(marshal.dumps("%s: %s" % (type(error).__name__, error)))
        except OSError:
            pass
    finally:
        os._exit(0)


def _serve(line: socket.socket, place: Place, host_fd: int) -> None:
    made: children.Children | None = None
    number = 0
    while True:
        word = line.recv(1)
        if made is not None and (not word or word == _END):
            result = children.end(made)
            if word:
                line.send(marshal.dumps(result))
                number, made = _next(made.arrangement, place, number, host_fd)
        if not word:
            return
        if word != _END:
            wanted = _ARRANGEMENTS[word]
            if made is not None and not (made.arrangement == wanted and children.waiting(made)):
                children.end(made)
                made = None
            if made is None:
                number, made = number + 1, children.make(wanted, place, number, host_fd)
            ends = [made.channels.report.fileno(), made.channels.out, made.channels.err]
            socket.send_fds(line, [marshal.dumps((made.uids, made.pids, made.key))], ends)
            children.hand_over(made)


def _next(arrangement: str, place: Place, number: int, host_fd: int) -> tuple[int, children.Children | None]:
    if not place.means.apart():
        return number, None
    return number + 1, children.make(arrangement, place, number, host_fd)
