"""The client of one warm server: start it, hand it gradings one at a time, notice its death at once."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from recurve_eval.domain import JSON
from recurve_eval.oracle import protocol

SWEEP_S = 60.0  # for killing and wiping after a grading, however much it left
_MAX_REPLY = 64 * 1024 * 1024


class ServerLost(Exception):
    """The server died, hung or gave up on itself; ``cause`` says which. The grading has no result."""

    def __init__(self, cause: str, own_fault: bool = False) -> None:
        super().__init__(cause)
        self.cause, self.own_fault = cause, own_fault


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a server: its command (the configuration is the last word), environment, scratch to remove."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    remove: str | None = None
    spawn: Callable[..., subprocess.Popen[bytes]] = field(default=subprocess.Popen)


class WarmServer:
    """One server process. Not thread-safe: a pool leases it to one grading at a time."""

    def __init__(self, launch: Launch, start_timeout_s: float) -> None:
        """Start it and read its greeting. Raises ServerLost when it does not greet in time."""
        self._launch = launch
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
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        try:
            self.greeting = self._greet(start_timeout_s)
        except ServerLost:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def _greet(self, timeout_s: float) -> dict[str, Any]:
        greeting = self._receive(time.monotonic() + timeout_s)
        if greeting.get("status") != "ready" or greeting.get("protocol") != protocol.PROTOCOL:
            raise ServerLost(f"is unfit: {greeting.get('why', greeting)}", own_fault=True)
        return greeting

    def grade(self, request: bytes, timeout_s: float) -> protocol.Evidence:
        """What it saw. Raises ServerLost; the server must then be closed."""
        deadline = time.monotonic() + timeout_s + SWEEP_S
        self._send(request, deadline)
        reply = self._receive(deadline)
        if reply.get("status") != "graded":
            raise ServerLost(f"gave up: {reply.get('why', 'no reason given')}", own_fault=True)
        try:
            return protocol.Evidence.of(reply)
        except (KeyError, TypeError, ValueError) as error:
            raise ServerLost(f"spoke another protocol: {error}", own_fault=True) from None

    def _send(self, data: bytes, deadline: float) -> None:
        os.set_blocking(self._in, False)
        view = memoryview(data)
        while view:
            _, ready, _ = select.select([], [self._in], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ServerLost("took no more input")
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise ServerLost(self._death()) from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        (size,) = struct.unpack(">I", self._read(4, deadline))
        if size > _MAX_REPLY:
            raise ServerLost(f"sent a reply of {size} bytes", own_fault=True)
        reply: JSON = json.loads(self._read(size, deadline))
        return reply if isinstance(reply, dict) else {}

    def _read(self, count: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ServerLost("gave no answer in time")
            part = os.read(self._out, count - len(parts))
            if not part:
                raise ServerLost(self._death())
            parts += part
        return bytes(parts)

    def _death(self) -> str:
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            return "closed its line"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 1000))
        said = self._errors.read().decode("utf-8", "replace").strip()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"died ({how})" + (f": {said}" if said else "")

    def close(self) -> None:
        """End it and everything it started, and remove its scratch. Safe to call twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue
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
        if self._launch.remove is not None:
            shutil.rmtree(self._launch.remove, ignore_errors=True)
