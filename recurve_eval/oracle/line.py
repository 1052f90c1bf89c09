"""The line to a warm server: bytes there and back under a deadline, and its death noticed at once."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Protocol


class ServerLost(Exception):
    """The server died, hung or gave up on itself; ``cause`` says which. The grading has no result.

    ``own_fault`` is trouble of the grader itself, ``final`` means that another try would be of no use,
    ``exhausted`` that the kernel ended the server because the memory of its container was used up, and ``late``
    that it lived and was not done in time.
    """

    def __init__(
        self, cause: str, own_fault: bool = False, final: bool = False, exhausted: bool = False, late: bool = False
    ) -> None:
        super().__init__(cause)
        self.cause, self.own_fault, self.final, self.exhausted = cause, own_fault, final, exhausted
        self.late = late


class Line:
    """What every line has in common. A subclass moves single chunks and says how its server died."""

    pid: int  # of the server, where it is a process of this machine; else of the process that holds the line
    waits_in: int  # descriptor that is writable when the server takes input
    waits_out: int  # descriptor that is readable when the server has spoken or is gone

    def __init__(self) -> None:
        self._received = bytearray()

    def write_some(self, data: memoryview) -> int:
        """Raises BlockingIOError when nothing can be taken now, OSError when the server is gone."""
        raise NotImplementedError

    def read_some(self) -> bytes:
        """What the server said, as far as it is here; empty at its end. Raises BlockingIOError when it is silent."""
        raise NotImplementedError

    def death(self) -> ServerLost:
        """How the server ended."""
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        """End the server and everything it started. Safe to call twice."""
        raise NotImplementedError

    def hang_up(self) -> None:
        """Close the host's end and do nothing else; the server must then end by itself."""
        raise NotImplementedError

    def send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.write_some(view) :]
            except BlockingIOError:
                if not ready(self.waits_in, select.POLLOUT, deadline):
                    raise ServerLost("took no more input") from None
            except OSError:
                raise self.death() from None

    def read(self, count: int, deadline: float) -> bytes:
        while len(self._received) < count:
            if not ready(self.waits_out, select.POLLIN, deadline):
                raise ServerLost("gave no answer in time", late=True)
            try:
                part = self.read_some()
            except BlockingIOError:
                continue
            except OSError:
                part = b""
            if not part:
                raise self.death()
            self._received += part
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken


def ready(fd: int, event: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


class Launch(Protocol):
    def open(self) -> Line:
        """Start a server. Raises ServerLost."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """A server as a child process: its command, its whole environment, and a scratch directory to remove."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    remove: str | None = None
    spawn: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen

    def open(self) -> Line:
        return PipeLine(self)


class PipeLine(Line):
    """The two pipes of a child process."""

    def __init__(self, launch: Spawn) -> None:
        super().__init__()
        self._remove = launch.remove
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server
        try:
            self._process = launch.spawn(
                launch.argv, env=dict(launch.env), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._errors, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._errors.close()
            self._remove_scratch()
            raise ServerLost(f"could not be started: {error}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self.pid = self._process.pid
        self.waits_in, self.waits_out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self.waits_in, False)

    def write_some(self, data: memoryview) -> int:
        return os.write(self.waits_in, data)

    def read_some(self) -> bytes:
        return os.read(self.waits_out, 1 << 16)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def death(self) -> ServerLost:
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            return ServerLost("closed its line")
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 1000))
        said = self._errors.read().decode("utf-8", "replace").strip()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return ServerLost(f"died ({how})" + (f": {said}" if said else ""))

    def hang_up(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue

    def close(self) -> None:
        self.hang_up()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()
        self._errors.close()
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        if self._remove is not None:
            remove_tree(self._remove)


def remove_tree(path: str) -> None:
    """Also one that was dug deeper than Python would recurse or a path could name."""
    subprocess.run(["rm", "-rf", "--one-file-system", "--", path], capture_output=True, check=False)
