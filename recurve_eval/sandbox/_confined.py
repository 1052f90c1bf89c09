"""The configuration that every sandbox shares, and the search for what a dead harness left."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError

RECORD = "run-record.json"
MARKER = "RECURVE_SESSION"
MIB = 1024 * 1024
REAP_SECONDS = 5.0


@dataclass
class Confined:
    """Configuration that every sandbox shares.

    Fields
    ------
    python : interpreter that ``{python}`` in a command stands for; empty: the base interpreter of this process.
    pass_env : names of environment variables that the agent inherits (credentials); all others are withheld.
    path : PATH of the commands; empty: the sandbox's own default.
    cpu_s : CPU seconds that one process may use; 0 leaves it unlimited.
    memory_mb : writable private memory of one process in MiB (RLIMIT_DATA); 0 leaves it unlimited.
    address_space_mb : address space of one process in MiB (RLIMIT_AS); 0 leaves it unlimited. Runtimes that reserve
        address space without using it (Node, Java) fail under it.
    max_processes : processes at once (RLIMIT_NPROC), where the kernel enforces it; 0 leaves it unlimited.
    file_size_mb : size of one written file in MiB; 0 leaves it unlimited.
    disk_mb : MiB that workspace and scratch may hold together, looked at while a command runs; 0 leaves it unlimited.
    grace_s : seconds between SIGTERM and SIGKILL for a command that ran out of time or was cancelled.
    """

    name: str
    python: str = ""
    pass_env: list[str] = field(default_factory=list)
    path: str = ""
    cpu_s: int = 3600
    memory_mb: int = 4096
    address_space_mb: int = 0
    max_processes: int = 512
    file_size_mb: int = 256
    disk_mb: int = 4096
    grace_s: float = 1.0

    @property
    def interpreter(self) -> str:
        return self.python or os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)

    def limits(self) -> dict[str, int]:
        """Resource limits by their prlimit(1) names, in the kernel's units. Raises ConfigError on a negative one."""
        asked = {
            "cpu": self.cpu_s,
            "data": self.memory_mb * MIB,
            "as": self.address_space_mb * MIB,
            "nproc": self.max_processes,
            "fsize": self.file_size_mb * MIB,
        }
        for name, value in (*asked.items(), ("disk", self.disk_mb)):
            if value < 0:
                raise ConfigError(f"sandbox {self.name}: the limit '{name}' is negative; 0 leaves it unlimited")
        if self.grace_s < 0:
            raise ConfigError(f"sandbox.grace_s must not be negative; got {self.grace_s}")
        return {"core": 0} | {name: value for name, value in asked.items() if value}

    def shared_pins(self) -> dict[str, JSON]:
        version = self.python or ".".join(map(str, sys.version_info[:3]))
        return {
            "sandbox": self.name,
            "python": version,
            "limits": self.limits() | {"disk_mb": self.disk_mb},
            "pass_env": sorted(self.pass_env),
        }

    def missing_credentials(self) -> str | None:
        missing = [name for name in self.pass_env if name not in os.environ]
        return f"sandbox.pass_env names {', '.join(missing)}, unset here: export it" if missing else None

    def environment(self, path: str, home: str, token: str, extra: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of a command; nothing else of this process's own is inherited."""
        fixed = {
            "PATH": self.path or path,
            "HOME": home,
            "TMPDIR": f"{home}/tmp",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "RECURVE_RESULT_FILE": f"{home}/{RECORD}",
            MARKER: token,
        }
        passed = {name: os.environ[name] for name in self.pass_env if name in os.environ}
        return passed | dict(extra) | {k: v for k, v in fixed.items() if k == MARKER or k not in extra}

    def reap(self, prefix: str) -> int:
        """Kill what sessions whose label starts with ``prefix`` left when their harness was killed; how many."""
        return kill_marked(prefix)


def kill_marked(prefix: str) -> int:
    """Kill every process whose RECURVE_SESSION starts with ``prefix``; how many. A search, not a proof."""
    needle = b"\0" + f"{MARKER}={prefix}".encode()
    killed: set[int] = set()
    deadline = time.monotonic() + REAP_SECONDS
    while living := [pid for pid in _processes() if needle in b"\0" + _environ(pid)]:
        for pid in living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        if time.monotonic() > deadline:
            break
        time.sleep(0.002)
    return len(killed)


def _processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit() and int(entry.name) != os.getpid()]


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
