"""The process oracle: a warm server on this machine, as contained as its privileges allow. For development."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.oracle.line import Launch, Spawn
from recurve_eval.oracle.owner import Owner, reap_scratch
from recurve_eval.oracle.warm import ARRANGEMENT, STARTED_WITH, WarmOracle

_SHM = "/dev/shm"


@dataclass
class ProcessOracle(WarmOracle):
    """Fields beyond :class:`WarmOracle`:

    scratch : directory for the gradings' work; empty is /dev/shm (memory) where it can be had, else the
        system's temporary directory.
    """

    name: str = "process"
    scratch: str = ""

    def check(self) -> str | None:
        if not os.access(self.interpreter(), os.X_OK):
            return f"oracle.python: {self.interpreter()} is not an executable; name an interpreter"
        return None

    def launch(self, slot: int, preload: tuple[str, ...]) -> Launch:
        scratch = tempfile.mkdtemp(prefix=Owner.me().prefix, dir=self._parent)
        config = self.server_config(slot, preload, scratch=scratch, unveil=True, own_scratch=True, must_be_empty=[])
        argv = (self.interpreter(), "-I", "-S", "-B", str(self.runner), json.dumps(config))
        return Spawn(argv, STARTED_WITH, remove=scratch)

    def reap(self) -> int:
        return reap_scratch([Path(self._parent)])

    @property
    def _parent(self) -> str:
        return self.scratch or (_SHM if os.access(_SHM, os.W_OK | os.X_OK) else tempfile.gettempdir())

    def isolation(self, containment: Mapping[str, bool]) -> str:
        held = ", ".join(f"{name} {'yes' if have else 'no'}" for name, have in sorted(containment.items()))
        return (
            f"unprotected: weaker: the machine's files and network are open, memory is not limited in sum; {held}; "
            f"{ARRANGEMENT}"
        )
