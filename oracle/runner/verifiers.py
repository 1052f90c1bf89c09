"""Verifiers as the supervisor has them: one at a time, told by message, and the next one waiting in its nursery."""

from __future__ import annotations

import array
import mmap
import os
import select
import socket
from typing import Any

from . import roles, wire
from .children import Place
from .nursery import Made, Nursery
from .verifier import SERVES_AGAIN

DECIDES_S = 1.0
TOLD = ("convention", "params", "timeout_s")


class Verifiers:
    """One verifier at a time, used for as long as it says that it may be, and the next one waiting."""

    def __init__(self, place: Place, host_fd: int) -> None:
        # Shared with verifiers alone: they are the last to be forked, and no submission runs in one.
        self._progress = mmap.mmap(-1, 1)
        self._nursery = Nursery(place, roles.verifier(host_fd, self._progress), lambda: None)
        self._made: Made | None = None
        self._line: socket.socket | None = None
        self._used = False
        self._said = b""

    def ready(self) -> Made:
        """One that can be told a job."""
        if self._made is not None and not self._serves_again(self._made):
            self.dismiss()
        if self._made is None:
            self._made, self._used = self._nursery.child(), False
            self._line = socket.socket(fileno=os.dup(self._made.ends.line))
        return self._made

    def renew(self) -> None:
        """Have the next one waiting, where one has served: then nobody waits for it to be made."""
        if self._used:
            self.ready()

    def begin(self, candidate: int, report: dict[str, str], job: dict[str, Any]) -> None:
        """Tell both their jobs, the candidate first, since it has more to do; hand over our end of the line to it."""
        assert self._line is not None
        params = job["params"]
        task = {"module": params["module"], "get": params.get("entry_point"), "timeout_s": job["timeout_s"]}
        data = wire.frame({**report, **{name: job[name] for name in TOLD}})
        self._progress[0] = 0
        wire.send(candidate, task)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [candidate]))]
        sent = self._line.sendmsg([data], ancillary)
        wire.write_all(self._line.fileno(), data[sent:])
        os.close(candidate)

    def progress(self) -> int:
        """How far the one that was told a job has come with it: see :mod:`runner.verifier`."""
        return self._progress[0]

    def reported(self, rest: bytes) -> None:
        """It has finished a report, behind which ``rest`` was read. It may serve again if it says so."""
        self._used, self._said = True, rest

    def _serves_again(self, made: Made) -> bool:
        if self._used and not self._said:
            ready, _, _ = select.select([made.ends.line, made.process], [], [], DECIDES_S)
            if made.ends.line in ready:
                self._said = os.read(made.ends.line, 64)
            if made.process in ready:
                return False
        elif made.gone():
            return False
        return not self._used or self._said == SERVES_AGAIN

    def dismiss(self) -> tuple[int, int]:
        """End it, as :meth:`runner.nursery.Nursery.end`."""
        made, line, self._made, self._line, self._used = self._made, self._line, None, None, False
        if made is None or line is None:
            return 0, 0
        try:
            return self._nursery.end(made)
        finally:
            line.close()
            made.close()

    def close(self) -> None:
        self.dismiss()
        self._nursery.close()
