"""Verifiers as the supervisor has them: one at a time, told by message, and the next one waiting in its nursery."""

from __future__ import annotations

import os
import select
import socket
from typing import Any

from . import wire
from .nursery import Made, Nursery, gone
from .verifier import SERVES_AGAIN

DECIDES_S = 1.0
TOLD = ("convention", "params", "timeout_s")


class Verifiers:
    """One verifier at a time, used for as long as it says that it may be, and the next one waiting."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._made: Made | None = None
        self._used = False
        self._said = b""

    def ready(self) -> Made:
        """One that can be told a job."""
        if self._made is not None and (gone(self._made.pid) or not self._serves_again(self._made.ends.line)):
            self.dismiss()
        if self._made is None:
            self._made, self._used = self._nursery.child(), False
        return self._made

    def renew(self) -> None:
        """Have the next one waiting, where one has served: then nobody waits for it to be made."""
        if self._used:
            self.ready()

    def reported(self, rest: bytes) -> None:
        """It has finished a report, behind which ``rest`` was read. It may serve again if it says so."""
        self._used, self._said = True, rest

    def _serves_again(self, line: int) -> bool:
        if self._used and not self._said and select.select([line], [], [], DECIDES_S)[0]:
            self._said = os.read(line, 64)
        return not self._used or self._said == SERVES_AGAIN

    def dismiss(self) -> tuple[int, int]:
        """End it, as :meth:`runner.nursery.Nursery.end`."""
        made, self._made, self._used = self._made, None, False
        try:
            return self._nursery.end()
        finally:
            for fd in made.ends if made else ():
                os.close(fd)

    def close(self) -> None:
        if self._made is not None:
            self.dismiss()
        self._nursery.close()


def begin(line: int, candidate: int, report: dict[str, str], job: dict[str, Any]) -> None:
    """Tell both their jobs, the candidate first, since it has more to do; hand over our end of the line to it."""
    params = job["params"]
    wire.send(candidate, {"module": params["module"], "get": params.get("entry_point"), "timeout_s": job["timeout_s"]})
    data = wire.frame({**report, **{name: job[name] for name in TOLD}})
    with socket.socket(fileno=os.dup(line)) as way:
        sent = socket.send_fds(way, [data], [candidate])
    wire.write_all(line, data[sent:])
    os.close(candidate)
