"""What every sandbox's session and configuration share."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from recurve_eval.domain import Departure
from recurve_eval.errors import SandboxError
from recurve_eval.ports import Command, Completed
from recurve_eval.sandbox._confined import MIB, RECORD, Confined
from recurve_eval.sandbox._guard import Guard
from recurve_eval.sandbox._network import RELAY, RELAY_NAME, Network
from recurve_eval.sandbox._place import DiskWatch
from recurve_eval.sandbox._proc import Child, Exchange, Waited
from recurve_eval.sandbox._proxy import Proxy

WORKSPACE, SCRATCH = "/workspace", "/scratch"  # where a sandbox with walls shows a session its two directories


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
            exchange = Exchange(child, command.stdin, command.max_output_bytes, self._watch(command))
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

    def _watch(self, command: Command) -> Callable[[bytes], str | None] | None:
        """The command's own watch, and a look at the disk beside it."""
        limit, own = self._sandbox.disk_mb * MIB, command.watch
        if not limit:
            return own
        disk = DiskWatch((self._workspace, self._scratch), limit)
        return lambda chunk: (own(chunk) if own is not None else None) or disk()

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
