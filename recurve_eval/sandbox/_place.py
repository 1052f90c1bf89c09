"""A session's directories: whose they are, which parts are fixed, how much they hold."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from recurve_eval.errors import SandboxError

UID_BASE, UID_RANGE = 200_000, 50_000
DISK = "disk"
LOOK_SECONDS = 0.5
_uids = itertools.count()


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


def guarded_parts(
    workspace: Path, inside: str, read_only: Sequence[str], writable: Sequence[str]
) -> list[tuple[str, str, bool]]:
    """Host path, path inside and whether it is fixed, of each part of a workspace. Raises SandboxError.

    A fixed file with a second name elsewhere could be written through that one: it gets an inode of its own.
    """
    parts = []
    for fixed, paths in ((True, read_only), (False, writable)):
        for path in paths:
            place = workspace / path
            if not place.is_dir() or place.resolve() != workspace.resolve() / path:
                raise SandboxError(f"'{path}' is no directory of the workspace: it cannot be mounted")
            if fixed and path:
                _part_twins(place)
            parts.append((str(place), f"{inside}/{path}".rstrip("/"), fixed))
    return parts


class DiskWatch:
    """Says ``disk`` once the places hold more than ``limit`` bytes; looks twice a second at most, and less if slow."""

    def __init__(self, places: Sequence[Path], limit: int) -> None:
        self._places, self._limit = places, limit
        self._next = 0.0

    def __call__(self) -> str | None:
        started = time.monotonic()
        if started < self._next:
            return None
        used = sum(held(str(place)) for place in self._places)
        now = time.monotonic()
        self._next = now + max(LOOK_SECONDS, 20 * (now - started))
        return DISK if used > self._limit else None


def held(directory: str) -> int:
    """Bytes on disk below a directory; links are not followed, and what vanishes meanwhile counts nothing."""
    total = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        total += held(entry.path)
                except (OSError, RecursionError):
                    continue
    except OSError:
        pass
    return total
