"""A bound on a command that holds although the harness hangs: a watchdog process kills what is not called off."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from recurve_eval.errors import SandboxError
from recurve_eval.sandbox._helper import Helper

MARGIN_SECONDS = 5.0  # beyond time limit and grace: a harness that works has ended the command by then

WATCHDOG = Helper("_watchdog.py", "watchdog")
_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Removal:
    """A command line that ends a thing which is no process of this machine's own, with its whole environment."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


class Guard:
    """One command under watch. Without a target (-1) there is nothing to do: its sandbox bounds it otherwise."""

    def __init__(self) -> None:
        self._id: int | None = None

    def watch(self, target: int | Removal, seconds: float) -> None:
        """Have a pidfd's process killed, or a removal done, unless :meth:`release` comes in time.

        In time is within ``seconds`` and a margin. Raises SandboxError where there can be no watchdog.
        """
        if target == -1:
            return
        self._id = next(_ids)
        order: dict[str, object] = {"id": self._id, "deadline": time.monotonic() + seconds + MARGIN_SECONDS}
        if isinstance(target, Removal):
            order |= {"argv": target.argv, "env": dict(target.environment)}
        WATCHDOG.send(json.dumps(order).encode(), [target] if isinstance(target, int) else [])

    def release(self) -> None:
        if self._id is not None:
            with contextlib.suppress(SandboxError):
                WATCHDOG.send(json.dumps({"id": self._id}).encode(), [])
            self._id = None
