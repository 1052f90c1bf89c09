"""What every sandbox's session and configuration share."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import stat
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recurve_eval.domain import JSON, Departure
from recurve_eval.errors import ConfigError, SandboxError
from recurve_eval.ports import Command, Completed
from recurve_eval.sandbox._guard import Guard
from recurve_eval.sandbox._network import RELAY, RELAY_NAME, Network
from recurve_eval.sandbox._proc import Child, Exchange, Waited
from recurve_eval.sandbox._proxy import Proxy

RECORD = "run-record.json"
MARKER = "RECURVE_SESSION"
MIB = 1024 * 1024
REAP_SECONDS = 5.0
WORKSPACE, SCRATCH = "/workspace", "/scratch"  # where a sandbox with walls shows a session its two directories
UID_BASE, UID_RANGE = 200_000, 50_000
_uids = itertools.count()


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
        for name, value in asked.items():
            if value < 0:
                raise ConfigError(f"sandbox {self.name}: the limit '{name}' is negative; 0 leaves it unlimited")
        return {"core": 0} | {name: value for name, value in asked.items() if value}

    def shared_pins(self) -> dict[str, JSON]:
        version = self.python or ".".join(map(str, sys.version_info[:3]))
        return {"sandbox": self.name, "python": version, "limits": self.limits(), "pass_env": sorted(self.pass_env)}

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


def _part_twins(place: Path) -> None:
    for file in place.rglob("*"):
        found = file.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            own = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
            shutil.copy2(file, own, follow_symlinks=False)
            own.replace(file)


def unprivileged_uid() -> int:
    """A uid for one session: limits are counted by uid, and one session's processes cannot signal another's."""
    return UID_BASE + (os.getpid() * 97 + next(_uids)) % UID_RANGE


def give(place: Path, uid: int) -> None:
    """Make ``uid`` the owner of a tree, links themselves included and never what they point at."""
    for _, _, files, directory in os.fwalk(place, follow_symlinks=False):
        if os.fstat(directory).st_uid != uid:
            os.fchown(directory, uid, uid)
        for name in files:
            if os.stat(name, dir_fd=directory, follow_symlinks=False).st_uid != uid:
                os.chown(name, uid, uid, dir_fd=directory, follow_symlinks=False)


class BaseSession(ABC):
    """One workspace, one scratch directory, one command at a time. Safe to cancel from any thread."""

    def __init__(self, sandbox: Confined, workspace: Path, scratch: Path, label: str) -> None:
        self._sandbox = sandbox
        self._workspace = workspace.absolute()
        self._scratch = scratch.absolute()
        self._label = label
        self._token = f"{label}:{secrets.token_hex(8)}"
        self._turn = threading.Lock()
        self._wake_lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._cancelled = False
        self._closed: Departure | None = None
        self._killed = 0
        self._fault: str | None = None
        self._net = Network("none")
        self._proxy: Proxy | None = None
        self._way = self._scratch.parent / f".way-{self._scratch.name}"
        self._restore()

    # -- what a sandbox supplies -----------------------------------------------------------------

    result_file: str

    @abstractmethod
    def _start(self, command: Command) -> Child:
        """Start the command. Raises SandboxError when the sandbox is at fault."""

    @abstractmethod
    def _depart(self) -> str:
        """Prove that no process of this session lives; says how. Raises SandboxError."""

    # -- the port --------------------------------------------------------------------------------

    @property
    def token(self) -> str:
        """The value of RECURVE_SESSION in the environment of every process of this session."""
        return self._token

    def run(self, command: Command) -> Completed:
        with self._turn:
            if self._closed or self._fault:
                raise SandboxError(f"{self._label}: {self._fault or 'the session is closed'}")
            if self._cancelled:
                return Completed(None, False, True, b"", b"", 0, 0.0)
            self._restore()
            self._discard_record()
            return self._run(command)

    def _run(self, command: Command) -> Completed:
        started = time.monotonic()
        child = self._start(command)
        exchange, guard = None, Guard()
        try:
            guard.watch(child.guarded, command.timeout_s + self._sandbox.grace_s)
            exchange = Exchange(child, command.stdin, command.max_output_bytes, command.watch)
            how = exchange.until(child.ended, self._wake, started + command.timeout_s)
            if how in (Waited.TIMED_OUT, Waited.CANCELLED):
                child.terminate()
                exchange.until(child.ended, None, time.monotonic() + self._sandbox.grace_s)
            wall = time.monotonic() - started
            if how is Waited.ENDED and wall > command.timeout_s + self._sandbox.grace_s:
                how = Waited.TIMED_OUT  # this process was held up, and the watchdog ended the command
            ending = child.finish()
            self._killed += ending.killed
            exchange.drain()
            if how is Waited.ENDED and ending.exit_code is None:
                said = exchange.stderr[:2000].decode(errors="replace").strip()
                raise SandboxError(f"the command was never executed: {said or 'no reason given'}")
        except SandboxError as fault:
            self._fault = str(fault)
            raise
        except BaseException:
            with contextlib.suppress(SandboxError):
                child.finish()
            raise
        finally:
            guard.release()
            if exchange is not None:
                exchange.close()
            child.release()
        return Completed(
            exit_code=ending.exit_code if how is Waited.ENDED else None,
            timed_out=how is Waited.TIMED_OUT,
            cancelled=how is Waited.CANCELLED,
            stopped=exchange.stopped,
            stdout=exchange.stdout,
            stderr=exchange.stderr,
            dropped_bytes=exchange.dropped,
            wall_s=wall,
        )

    def cancel(self) -> None:
        with self._wake_lock:
            self._cancelled = True
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def read_result(self, max_bytes: int) -> bytes | None:
        record = self._scratch / RECORD
        try:
            if not stat.S_ISREG(record.lstat().st_mode):
                raise ValueError("the run record is not a regular file")
            fd = os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ValueError(f"the run record cannot be opened ({error.strerror})") from error
        try:
            data = b""
            while len(data) <= max_bytes and (chunk := os.read(fd, max_bytes + 1 - len(data))):
                data += chunk
            return data
        except OSError as error:
            raise ValueError(f"the run record cannot be read ({error.strerror})") from error
        finally:
            os.close(fd)

    def close(self) -> Departure:
        self.cancel()
        with self._turn:
            if self._closed is None:
                try:
                    proof = self._depart()
                finally:
                    self._close_network()
                    with self._wake_lock:
                        if self._wake >= 0:
                            os.close(self._wake)
                        self._wake = -1
                if self._fault:
                    raise SandboxError(f"{self._label}: {self._fault}")
                self._closed = Departure(self._sandbox.name, self._killed, proof)
            return self._closed

    # -- its way out ----------------------------------------------------------------------------

    def _open_network(self, net: Network) -> None:
        self._net, self._proxy = net, net.proxy(self._way)
        if self._proxy is not None:
            shutil.copyfile(RELAY, self._way / RELAY_NAME)

    def refused(self) -> dict[str, int]:
        """Hosts that were asked for and are not allowed, with how often."""
        return dict(self._proxy.refused) if self._proxy is not None else {}

    def _close_network(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
            shutil.rmtree(self._way, ignore_errors=True)

    def _parts(self, read_only: Sequence[str], writable: Sequence[str]) -> list[tuple[str, str, bool]]:
        """Host path, path inside and whether it is fixed, of each guarded part. Raises SandboxError.

        A fixed file with a second name elsewhere could be written through that one: it gets an inode of its own.
        """
        parts = []
        for fixed, paths in ((True, read_only), (False, writable)):
            for path in paths:
                place = self._workspace / path
                if not place.is_dir() or place.resolve() != self._workspace.resolve() / path:
                    raise SandboxError(f"'{path}' is no directory of the workspace: it cannot be mounted")
                if fixed and path:
                    _part_twins(place)
                parts.append((str(place), f"{WORKSPACE}/{path}".rstrip("/"), fixed))
        return parts

    # -- its place -------------------------------------------------------------------------------

    def _restore(self) -> None:
        """An agent may remove or replace its directories; the next command still needs real ones."""
        for place in (self._workspace, self._scratch, self._scratch / "tmp"):
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(parents=True, exist_ok=True)
            if stat.S_IMODE(place.stat().st_mode) & 0o700 != 0o700:
                place.chmod(0o700)

    def _discard_record(self) -> None:
        record = self._scratch / RECORD
        try:
            record.unlink()
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(record, ignore_errors=True)
