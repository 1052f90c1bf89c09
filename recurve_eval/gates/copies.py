"""Private copies of a workspace, bounded, never following a link."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from recurve_eval.domain import Task
from recurve_eval.errors import InfraError
from recurve_eval.gates.ledger import FIXTURES
from recurve_eval.workspace import remove

MAX_COPY_BYTES = 64 * 1024 * 1024
MAX_COPY_FILES = 20_000
MAX_COPY_DEPTH = 64
NOT_CLAIMS = frozenset({"answers", "gate.pyz"})  # what of .recurve/ the claims do not consist of
CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


@contextmanager
def copy_of(workspace: Path, task: Task) -> Iterator[Path | str]:
    """A private copy of the work with the protected files restored, or why none could be made (RED: ...)."""
    place = Path(tempfile.mkdtemp(prefix="recurve-check-", dir=workspace.parent))
    place.chmod(0o700)
    copy = place / "workspace"
    try:
        problem = _copy_or_say(workspace, copy, task)
        yield problem or copy
    finally:
        remove(place)


def clear_fixtures(copy: Path) -> None:
    """Leave nothing of the work's where the gate will lay down its fixtures."""
    if (copy / FIXTURES).exists():
        remove(copy / FIXTURES)


def _copy_or_say(workspace: Path, copy: Path, task: Task) -> str:
    """Make the copy, or say what about the workspace prevents it. Raises InfraError for this machine's trouble."""
    try:
        problem = copy_tree(workspace, copy)
        if not problem:
            clear_fixtures(copy)
            for path in task.protected:
                _lay(copy, path, task.public[path])
    except OSError as error:
        if error.errno in _OF_THE_MACHINE:
            raise InfraError(f"no copy of the workspace can be made: {error.strerror}") from error
        return f"RED: the workspace cannot be copied: {error.strerror}"
    return problem


def _lay(copy: Path, path: str, content: bytes) -> None:
    """Put a protected file in its place, whatever stands there or in its way."""
    target = copy / path
    for step in [*reversed(target.relative_to(copy).parents), target.relative_to(copy)]:
        here = copy / step
        if here == target and here.is_dir() and not here.is_symlink():
            shutil.rmtree(here)
        elif here.is_symlink() or (here.exists() and not here.is_dir()):
            here.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def copy_tree(source: Path, target: Path) -> str:
    """Copy regular files and directories, never following a link; say why where that is refused.

    What an agent can do to its workspace is the agent's doing, so a tree that is beyond the bounds is
    rejected work and not trouble of the harness.
    """
    if not source.is_dir() or source.is_symlink():
        return "RED: the workspace is gone"
    left_bytes, left_files = MAX_COPY_BYTES, MAX_COPY_FILES
    for here, directories, files in os.walk(source, followlinks=False):
        inside = Path(here).relative_to(source)
        if len(inside.parts) > MAX_COPY_DEPTH:
            return f"RED: the workspace is nested deeper than {MAX_COPY_DEPTH} directories"
        left_files -= len(files) + len(directories)
        if left_files < 0:
            return f"RED: the workspace holds more than {MAX_COPY_FILES} files"
        (target / inside).mkdir(parents=True, exist_ok=True)
        directories[:] = [d for d in directories if d != ".git" and not (Path(here) / d).is_symlink()]
        for name in files:
            left_bytes -= _copy_file(Path(here) / name, target / inside / name, left_bytes)
            if left_bytes < 0:
                return f"RED: the workspace is larger than {MAX_COPY_BYTES // 2**20} MiB"
    return ""


def _copy_file(path: Path, target: Path, room: int) -> int:
    """Copy a regular, readable file that fits; its size. What cannot be read is left out of the copy."""
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        return 0
    if info.st_size <= room:
        with contextlib.suppress(PermissionError):
            target.write_bytes(path.read_bytes())
            target.chmod(0o700 if info.st_mode & stat.S_IXUSR else 0o600)
    return info.st_size


def reset(copy: Path, task: Task, keep: frozenset[str] = frozenset({".recurve"})) -> None:
    """Make a copy hold the task's public part and, of all else, only the top-level names in ``keep``."""
    for entry in copy.iterdir():
        if entry.name not in keep:
            remove(entry)
    lay(copy, task.public)


def lay(place: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a directory of our own."""
    for path, content in files.items():
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o700 if content.startswith(b"#!") else 0o600)


def copy_work(root: Path, target: Path) -> None:
    """Copy the work alone, without claims and history, into a directory of our own."""
    for entry in root.iterdir():
        if entry.name in (".recurve", ".git"):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, target / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, target / entry.name, follow_symlinks=False)


def listing(root: Path, skip: frozenset[str] = frozenset()) -> dict[str, str]:
    """SHA-256 of every regular file below ``root`` by its relative path; links and special files by their kind.

    Caches that running code leaves are passed over, and so are the top-level names in ``skip``.
    """
    found: dict[str, str] = {}
    for here, directories, files in os.walk(root, followlinks=False):
        inside = Path(here).relative_to(root)
        if inside == Path():
            directories[:] = [d for d in directories if d not in skip]
            files = [f for f in files if f not in skip]
        for name in [d for d in directories if (Path(here) / d).is_symlink()]:
            found[str(inside / name)] = "link"
        directories[:] = sorted(d for d in directories if d not in CACHES and not (Path(here) / d).is_symlink())
        for name in files:
            if not name.endswith(".pyc"):
                found[str(inside / name)] = _fingerprint(Path(here) / name)
    return found


def _fingerprint(path: Path) -> str:
    try:
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            return f"link {path.readlink()}"
        if not stat.S_ISREG(info.st_mode):
            return "special"
        if info.st_size > MAX_COPY_BYTES:
            return f"{info.st_size} bytes"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Paths that one listing has otherwise than the other, sorted."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
