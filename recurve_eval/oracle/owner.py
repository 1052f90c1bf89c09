"""Who owns what a backend leaves on the machine while it works, so that the next run can clear up after a dead one."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.oracle.line import remove_tree

PREFIX = "recurve-oracle-"
_NAMED = re.compile(PREFIX + r"(?P<space>\d+)-(?P<pid>\d+)-(?P<started>\d+)-")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, told apart from a later one that is given its number.

    ``space`` names the PID namespace in which ``pid`` counts; ``started`` is in clock ticks since boot.
    """

    space: int
    pid: int
    started: int

    @classmethod
    def me(cls) -> Owner:
        pid = os.getpid()
        return cls(_space(), pid, _started(pid) or 0)

    @property
    def gone(self) -> bool:
        """True only for a process of our own PID namespace that is certainly dead."""
        return self.space == _space() and _started(self.pid) != self.started

    @property
    def prefix(self) -> str:
        """The beginning of the name of a scratch directory."""
        return f"{PREFIX}{self.space}-{self.pid}-{self.started}-"


def host() -> str:
    return socket.gethostname()


def reap_scratch(parents: list[Path]) -> int:
    """Remove scratch directories of dead owners that are this user's; return how many."""
    removed = 0
    for parent in parents:
        for path in parent.glob(f"{PREFIX}*"):
            named = _NAMED.match(path.name)
            if named and Owner(*map(int, named.groups())).gone and _ours(path):
                remove_tree(str(path))
                removed += 1
    return removed


def _ours(path: Path) -> bool:
    try:
        return not path.is_symlink() and path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _space() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _started(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in parentheses and may hold anything; the start time is the 22nd.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
