"""A bound on a command that holds although the harness hangs: a watchdog process kills what is not called off."""

from __future__ import annotations

import contextlib
import itertools
import json
import time

from recurve_eval.errors import SandboxError
from recurve_eval.sandbox._helper import Helper

MARGIN_SECONDS = 5.0  # beyond time limit and grace: a harness that works has ended the command by then

WATCHDOG = Helper("_watchdog.py", "watchdog")
_ids = itertools.count(1)


class Guard:
    """One command under watch. Without a pidfd (-1) there is nothing to do: its sandbox bounds it otherwise."""

    def __init__(self) -> None:
        self._id: int | None = None

    def watch(self, pidfd: int, seconds: float) -> None:
        """Have the process killed unless :meth:`release` comes within ``seconds`` and a margin. Raises SandboxError."""
        if pidfd >= 0:
            self._id = next(_ids)
            order = {"id": self._id, "deadline": time.monotonic() + seconds + MARGIN_SECONDS}
            WATCHDOG.send(json.dumps(order).encode(), [pidfd])

    def release(self) -> None:
        if self._id is not None:
            with contextlib.suppress(SandboxError):
                WATCHDOG.send(json.dumps({"id": self._id}).encode(), [])
            self._id = None
