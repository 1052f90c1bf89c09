"""Bounded capture of an ended run: what it left becomes the submission, whatever it left.

No link is followed, in the last component or in any before it; nothing that is not a regular file is opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from recurve_eval.domain import AgentRun, CapturedFile, CaptureSpec, CaptureStatus, Submission
from recurve_eval.errors import ConfigError

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
STATUS = {
    errno.ENOENT: CaptureStatus.MISSING,
    errno.ENOTDIR: CaptureStatus.NOT_FILE,
    errno.ELOOP: CaptureStatus.NOT_FILE,
}


def capture(run: AgentRun, workspace: Path, spec: CaptureSpec) -> Submission:
    """Read the files that ``spec`` names, each with a status; never raises for what an agent left there."""
    return Submission(run, tuple(capture_file(workspace, path, spec.max_file_bytes) for path in spec.paths))


def capture_file(workspace: Path, path: str, max_bytes: int) -> CapturedFile:
    """One file of at most ``max_bytes`` bytes; ``size`` is what the file system said, where it said it."""
    try:
        with _parent(workspace, path) as directory:
            return _read(directory, path, max_bytes)
    except OSError as error:
        return CapturedFile(path, STATUS.get(error.errno or 0, CaptureStatus.UNREADABLE))


def check_paths(spec: CaptureSpec) -> str | None:
    """At plan time: None, or why this capture cannot be made inside a workspace."""
    if not spec.paths:
        return "no path is captured: name at least one file of the submission"
    try:
        for path in spec.paths:
            check_relative(path, "capture")
    except ConfigError as error:
        return str(error)
    if len(set(spec.paths)) != len(spec.paths):
        return f"a path is captured twice: {', '.join(spec.paths)}"
    if spec.max_file_bytes < 1:
        return f"max_file_bytes must be positive; got {spec.max_file_bytes}"
    return None


def check_relative(path: str, where: str) -> None:
    """Refuse a path that is not plainly inside a workspace. Raises ConfigError naming ``where``."""
    parts = PurePosixPath(path).parts
    plain = bool(parts) and "/".join(parts) == path and ".." not in parts and "\0" not in path
    if not plain or path.startswith("/"):
        raise ConfigError(f"{where}: '{path}' is not a plain relative path inside the workspace")
    if parts[0] == ".git":
        raise ConfigError(f"{where}: '{path}' lies in the workspace's own git directory")


@contextlib.contextmanager
def _parent(workspace: Path, path: str) -> Iterator[int]:
    directory = os.open(workspace, DIRECTORY)
    try:
        for part in PurePosixPath(path).parts[:-1]:
            inner = os.open(part, DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        yield directory
    finally:
        os.close(directory)


def _read(directory: int, path: str, max_bytes: int) -> CapturedFile:
    name = PurePosixPath(path).name
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return CapturedFile(path, CaptureStatus.NOT_FILE)
    if not found.st_mode & stat.S_IRUSR:
        # A privileged harness could read it; the status must not depend on who captures.
        return CapturedFile(path, CaptureStatus.UNREADABLE, size=found.st_size)
    if found.st_size > max_bytes:
        return CapturedFile(path, CaptureStatus.TOO_LARGE, size=found.st_size)
    fd = os.open(name, FILE, dir_fd=directory)
    try:
        content = _bounded(fd, max_bytes + 1)
    finally:
        os.close(fd)
    if len(content) > max_bytes:
        return CapturedFile(path, CaptureStatus.TOO_LARGE, size=len(content))
    return CapturedFile(path, CaptureStatus.OK, content, len(content))


def _bounded(fd: int, limit: int) -> bytes:
    content = b""
    while len(content) < limit and (chunk := os.read(fd, limit - len(content))):
        content += chunk
    return content
