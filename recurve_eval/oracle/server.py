"""The client of one warm server: start it, hand it gradings one at a time, notice its death at once."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

from recurve_eval.domain import JSON
from recurve_eval.oracle import protocol
from recurve_eval.oracle.line import Launch, ServerLost

SWEEP_S = 60.0  # for killing and wiping after a grading, however much it left
_MAX_REPLY = 64 * 1024 * 1024


class WarmServer:
    """One server. Not thread-safe: a pool leases it to one grading at a time."""

    def __init__(self, launch: Launch, start_timeout_s: float) -> None:
        """Start it and read its greeting. Raises ServerLost when it does not greet in time."""
        self.line = launch.open()
        try:
            self.greeting = self._greet(start_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self.line.pid

    @property
    def alive(self) -> bool:
        return self.line.alive

    def _greet(self, timeout_s: float) -> dict[str, Any]:
        greeting = self._receive(time.monotonic() + timeout_s)
        if greeting.get("status") != "ready" or greeting.get("protocol") != protocol.PROTOCOL:
            raise ServerLost(f"is unfit: {greeting.get('why', greeting)}", own_fault=True)
        return greeting

    def grade(self, request: bytes, timeout_s: float) -> protocol.Evidence:
        """What it saw. Raises ServerLost; the server must then be closed."""
        deadline = time.monotonic() + timeout_s + SWEEP_S
        self.line.send(request, deadline)
        reply = self._receive(deadline)
        if reply.get("status") != "graded":
            raise ServerLost(f"gave up: {reply.get('why', 'no reason given')}", own_fault=True)
        try:
            return protocol.Evidence.of(reply)
        except (KeyError, TypeError, ValueError) as error:
            raise ServerLost(f"spoke another protocol: {error}", own_fault=True) from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        (size,) = struct.unpack(">I", self.line.read(4, deadline))
        if size > _MAX_REPLY:
            raise ServerLost(f"sent a reply of {size} bytes", own_fault=True)
        try:
            reply: JSON = json.loads(self.line.read(size, deadline))
        except ValueError:
            raise ServerLost("sent a reply that is not JSON", own_fault=True) from None
        return reply if isinstance(reply, dict) else {}

    def close(self) -> None:
        """End it and everything it started, and remove its scratch. Safe to call twice."""
        self.line.close()
