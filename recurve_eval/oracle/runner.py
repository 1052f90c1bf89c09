"""The sources of the grading runner: what a server runs, and the hash by which an environment names it."""

from __future__ import annotations

import hashlib
from pathlib import Path


def runner_sources(directory: Path) -> dict[str, bytes]:
    """The runner's sources by name, in order of name."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.py"))}


def runner_hash(directory: Path) -> str:
    """SHA-256 over names and bytes of the runner's sources, in order of name."""
    total = hashlib.sha256()
    for name, content in runner_sources(directory).items():
        total.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return total.hexdigest()
