"""Talking to a child process: bounded reading, patient writing, one deadline.

Memory stays bounded whatever a child prints, and a child that closes its stdin early is no error.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from recurve_eval.errors import SandboxError
from recurve_eval.sandbox._guard import Removal

CHUNK = 1 << 16
TICK_SECONDS = 0.25
Watch = Callable[[bytes], str | None]


class Waited(Enum):
    """Why a wait came back."""

    ENDED = "ended"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child's tree ended: the leader's exit code (128 + signal where it was killed) and the number killed."""

    exit_code: int | None
    killed: int


class Child(Protocol):
    """A started command and everything that it has started."""

    stdin: int
    stdout: int
    stderr: int
    ended: int  # becomes readable when the leader has ended

    @property
    def guarded(self) -> int | Removal:
        """For the watchdog: a pidfd whose process's death ends all others, or how else to end them; -1 for neither."""

    def terminate(self) -> None:
        """Ask politely (SIGTERM); nothing is promised."""

    def finish(self) -> Ending:
        """Kill whatever still lives and prove it gone. Raises SandboxError where that cannot be proven."""

    def release(self) -> None:
        """Close every descriptor held here."""


class Exchange:
    """Feeds one child's stdin and reads both of its outputs, keeping at most ``limit`` bytes of each.

    ``watch`` is shown all of stdout; ``stopped`` is the first reason that it gives, also while draining.
    """

    def __init__(self, child: Child, data: bytes, limit: int, watch: Watch | None = None) -> None:
        self._limit = limit
        self._watch = watch
        self.stopped: str | None = None
        self._data = memoryview(data)
        self._kept = {child.stdout: bytearray(), child.stderr: bytearray()}
        self._out, self._err = child.stdout, child.stderr
        self._open = {child.stdout, child.stderr}
        self._stdin: int | None = child.stdin
        self.dropped = 0
        for fd in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(fd, False)
        self._poll = select.poll()
        for fd in self._open:
            self._poll.register(fd, select.POLLIN)
        self._poll.register(child.stdin, select.POLLOUT)
        self._feed()

    @property
    def stdout(self) -> bytes:
        return bytes(self._kept[self._out])

    @property
    def stderr(self) -> bytes:
        return bytes(self._kept[self._err])

    def until(self, ended: int, cancel: int | None, deadline: float) -> Waited:
        """Exchange until ``ended`` or ``cancel`` is readable or the monotonic ``deadline`` (s) has passed."""
        watched = [ended] if cancel is None else [ended, cancel]
        for fd in watched:
            self._poll.register(fd, select.POLLIN)
        try:
            while True:
                left = deadline - time.monotonic()
                wait = min(left, TICK_SECONDS) if self._watch and cancel is not None else left
                ready = {fd for fd, _ in self._poll.poll(max(0.0, wait) * 1000)}
                if ended in ready:
                    return Waited.ENDED
                if cancel is not None and cancel in ready:
                    return Waited.CANCELLED
                if left <= 0:
                    return Waited.TIMED_OUT
                self._serve(ready)
                if not ready:
                    self._show(b"")
                if self.stopped and cancel is not None:
                    return Waited.STOPPED
        finally:
            for fd in watched:
                self._poll.unregister(fd)

    def drain(self, seconds: float = 5.0) -> None:
        """Read on to the end of both outputs. Raises SandboxError if somebody still holds them open."""
        self._close_stdin()
        deadline = time.monotonic() + seconds
        while self._open:
            left = deadline - time.monotonic()
            if left <= 0:
                raise SandboxError("an output of a killed command is still held open: something outlived it")
            self._serve({fd for fd, _ in self._poll.poll(left * 1000)})

    def _serve(self, ready: Iterable[int]) -> None:
        for fd in ready:
            if fd == self._stdin:
                self._feed()
            elif fd in self._open:
                self._read(fd)

    def _read(self, fd: int) -> None:
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._poll.unregister(fd)
            self._open.discard(fd)
            return
        if fd == self._out:
            self._show(chunk)
        kept = self._kept[fd]
        room = self._limit - len(kept)
        kept += chunk[:room] if room > 0 else b""
        self.dropped += max(0, len(chunk) - max(0, room))

    def _show(self, chunk: bytes) -> None:
        if self._watch is not None:
            reason = self._watch(chunk)
            self.stopped = self.stopped or reason

    def _feed(self) -> None:
        if self._stdin is None:
            return
        try:
            while self._data:
                self._data = self._data[os.write(self._stdin, self._data[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self._close_stdin()

    def _close_stdin(self) -> None:
        if self._stdin is not None:
            self._poll.unregister(self._stdin)
            os.close(self._stdin)
            self._stdin = None

    def close(self) -> None:
        """Let go of stdin; the child owns the other descriptors."""
        self._close_stdin()


class Pipes:
    """The three pipes of a child: the far ends to hand over, the near ends to keep.

    With ``given``, that descriptor is the child's stdin, and the near end kept here leads nowhere.
    """

    def __init__(self, given: int | None = None) -> None:
        self.far_in, self.stdin = os.pipe()
        if given is not None:
            os.dup2(given, self.far_in, inheritable=False)
        self.stdout, self.far_out = os.pipe()
        self.stderr, self.far_err = os.pipe()
        self._far = [self.far_in, self.far_out, self.far_err]

    def close_far(self) -> None:
        while self._far:
            os.close(self._far.pop())

    def close_outputs(self) -> None:
        for fd in (self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                os.close(fd)
