"""Files of lines that threads and processes append to, and that outlive the death of any of them.

:class:`AppendLog` is the common floor of the ledger, the spend log and the event log; :class:`FileLock`
says who owns a directory. Both rest on ``flock``, which the kernel drops when its holder dies, so no
lock is ever stale.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from recurve_eval.errors import Drift, InfraError, Refused, RunLocked


def utc_now() -> str:
    """The time as ISO 8601, UTC, in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class AppendLog:
    """One file of newline-ended records.

    Use under :meth:`locked`: first :meth:`new_lines` (what others appended since), then :meth:`append`.
    Instances may be pickled and may cross a fork; each process opens the file for itself.

    Parameters
    ----------
    path : Path
        Created with its directory when missing.
    on_torn : callable of bytes, optional
        Told of a last line without its newline, after it was moved to ``<stem>.torn<suffix>``.

    Raises
    ------
    Refused
        The file cannot be opened for appending.
    """

    def __init__(self, path: Path, on_torn: Callable[[bytes], None] | None = None) -> None:
        self.path = Path(path)
        self._on_torn = on_torn
        self._thread_lock = threading.RLock()
        self._end = 0
        self._fd, self._pid = -1, -1
        self._handle()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "on_torn": self._on_torn}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["on_torn"])  # type: ignore[misc]

    @property
    def end(self) -> int:
        """The byte up to which this process has read or written."""
        return self._end

    def skip(self, offset: int) -> None:
        """Take the bytes before ``offset``, the end of a line, as read."""
        self._end = offset

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file against every other thread and process."""
        with self._thread_lock:
            fd = self._handle()
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)

    def new_lines(self) -> Iterator[bytes]:
        """Complete lines appended since the last call, without their newline; a torn tail is set aside.

        Raises Drift where the file has shrunk or was deleted under this process.
        """
        size = self._checked_size()
        if size == self._end:
            return
        with self.path.open("rb", buffering=1 << 20) as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):
                    self.set_aside(self._end)
                    return
                self._end += len(line)
                yield line[:-1]

    def append(self, line: bytes) -> None:
        """Add one line, wholly and durably, or not at all.

        Raises InfraError when it cannot be written; what had reached the file is taken back.
        """
        start = self._checked_size()
        data = line + b"\n"
        try:
            written = 0
            while written < len(data):
                written += os.write(self._fd, data[written:])
            os.fsync(self._fd)
        except OSError as error:
            self._take_back(start)
            raise InfraError(f"could not append to {self.path}: {error.strerror}; nothing was recorded") from error
        self._end = start + len(data)

    def set_aside(self, start: int) -> None:
        """Move everything from byte ``start`` on into the ``.torn`` file beside this one."""
        with self.path.open("rb") as file:
            file.seek(start)
            torn = file.read()
        aside = self.path.with_name(f"{self.path.stem}.torn{self.path.suffix}")
        try:
            with aside.open("ab") as file:
                file.write(torn + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InfraError(f"could not set a torn line aside in {aside}: {error.strerror}") from error
        self._take_back(start)
        self._end = start
        if self._on_torn is not None:
            self._on_torn(torn)

    def _handle(self) -> int:
        # A fork shares the open file description and with it the lock, so a child opens its own.
        if self._pid != os.getpid():
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise Refused(
                    f"cannot write {self.path}: {error.strerror}. Nothing was run or spent; "
                    "choose an output directory that this user can write to."
                ) from error
            self._pid = os.getpid()
            weakref.finalize(self, _close_quietly, self._fd)
        return self._fd

    def _checked_size(self) -> int:
        status = os.fstat(self._fd)
        if status.st_nlink == 0:
            raise Drift(f"{self.path} was deleted or replaced while in use")
        if status.st_size < self._end:
            raise Drift(f"{self.path} has shrunk from {self._end} to {status.st_size} bytes while in use")
        return status.st_size

    def _take_back(self, start: int) -> None:
        try:
            os.ftruncate(self._fd, start)
            os.fsync(self._fd)
        except OSError as error:  # what stays has no newline, so the next reader sets it aside
            raise InfraError(f"could not take back a partial line of {self.path}: {error.strerror}") from error


def complete_lines(path: Path, offset: int = 0) -> Iterator[bytes]:
    """The newline-ended lines of a file from ``offset`` on, with their newline, without locking or writing."""
    if not path.exists():
        return
    with path.open("rb", buffering=1 << 20) as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield line


class FileLock:
    """Exclusive ownership of a directory for one purpose, by a file that says who has it since when.

    Raises RunLocked on :meth:`acquire` when another process has it, naming that process.
    """

    def __init__(self, run_dir: Path, name: str, wait_s: float = 0.2) -> None:
        self.path = Path(run_dir) / name
        self._wait_s = wait_s
        self._fd = -1

    def acquire(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Refused(f"cannot lock {self.path.parent}: {error.strerror}. Nothing was run or spent.") from error
        if not _flock_within(fd, self._wait_s):
            os.close(fd)
            raise RunLocked(f"{self.path.parent} belongs to {_describe(_read_owner(self.path))}")
        self._fd = fd
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(_myself()).encode(), 0)
        # A forked child would share the lock and keep it beyond this process's death.
        os.register_at_fork(after_in_child=_closer(weakref.ref(self)))

    def release(self) -> None:
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    @classmethod
    def owner(cls, run_dir: Path, name: str) -> Mapping[str, Any] | None:
        """Who holds the lock now (``pid``, ``host``, ``since``, ``command``), or None."""
        path = Path(run_dir) / name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            return _read_owner(path)
        finally:
            os.close(fd)


def _flock_within(fd: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while True:  # waits a moment, because asking for the owner holds a shared lock for an instant
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)


def _closer(reference: weakref.ref[FileLock]) -> Callable[[], None]:
    def close_in_child() -> None:
        lock = reference()
        if lock is not None and lock._fd >= 0:
            _close_quietly(lock._fd)
            lock._fd = -1

    return close_in_child


def _close_quietly(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass


def _myself() -> dict[str, Any]:
    command = " ".join(sys.orig_argv)[:500]
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": utc_now(), "command": command}


def _read_owner(path: Path) -> Mapping[str, Any]:
    try:
        owner = json.loads(path.read_text())
    except (OSError, ValueError):
        owner = {}
    return owner if isinstance(owner, dict) else {}


def _describe(owner: Mapping[str, Any]) -> str:
    if not owner:
        return "another process that has not yet said its name"
    return f"process {owner['pid']} on {owner['host']} since {owner['since']} ({owner['command']})"
