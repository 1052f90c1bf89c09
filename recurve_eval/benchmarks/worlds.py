"""A parent workspace: a directory that a task's workspace starts as a copy of, and that no run may change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from recurve_eval.domain import digest
from recurve_eval.errors import ConfigError

MAX_FILES = 2000
MAX_BYTES = 64 * 1024 * 1024
_LEFT_OUT = (".git", "__pycache__")


def read_world(root: Path, key: str) -> dict[str, bytes]:
    """Every file below a parent workspace, by its path; git's own directory and caches are left out.

    ``key`` names the setting in messages. Raises ConfigError where the directory is missing (nothing else is
    ever used in its place), where an entry is neither a file nor a directory, or where it is too large.
    """
    if not root.is_dir():
        raise ConfigError(f"{key}: the workspace {root} does not exist, and nothing else stands in for it")
    files: dict[str, bytes] = {}
    room = MAX_BYTES
    for path in _entries(root):
        inside = path.relative_to(root).as_posix()
        if path.is_symlink() or not path.is_file():
            raise ConfigError(f"{key}: {path} is not a regular file: a workspace's content is its own bytes")
        room -= path.stat().st_size
        if room < 0 or len(files) >= MAX_FILES:
            raise ConfigError(f"{key}: {root} holds more than {MAX_BYTES} bytes or {MAX_FILES} files")
        files[inside] = path.read_bytes()
    return files


def _entries(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.name in _LEFT_OUT:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _entries(path)
        else:
            yield path


def world_hash(files: Mapping[str, bytes]) -> str:
    """SHA-256 (hex) over the path and content of every file."""
    return digest([[path, hashlib.sha256(data).hexdigest()] for path, data in sorted(files.items())])
