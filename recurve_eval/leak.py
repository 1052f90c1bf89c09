"""Recognises held-out bytes in a workspace before the agent sees it.

Held out is a whole hidden file, or any line of one with at least 24 characters (stripped) that does not
also stand in the public part. Contents are searched, and names, link targets and git's loose objects,
which are compressed. What cannot be searched is reported rather than trusted.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MIN_LINE = 24
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class HeldOutScanner:
    """Implements the LeakScanner port.

    Parameters
    ----------
    held_out, public : mapping of path to bytes
        The hidden files of a task, and the files that its workspace starts with.
    """

    held_out: Mapping[str, bytes]
    public: Mapping[str, bytes]

    def scan(self, workspace: Path) -> list[str]:
        """Workspace-relative paths with a reason each, sorted; names the hidden path, never its text."""
        return sorted(
            f"{path}: {reason}" for path, content in _everything(workspace) for reason in self._judge(path, content)
        )

    @cached_property
    def _needles(self) -> dict[bytes, str]:
        """What to look for, and the hidden file that it comes from."""
        shown = b"\n".join(self.public.values())
        needles: dict[bytes, str] = {}
        for path, content in sorted(self.held_out.items()):
            for line in content.splitlines():
                text = line.strip()
                if len(text.decode("utf-8", "replace")) >= MIN_LINE and text not in shown:
                    needles.setdefault(text, path)
        return needles

    @cached_property
    def _wholes(self) -> dict[bytes, str]:
        shown = {content.strip() for content in self.public.values()}
        wholes = {content.strip(): path for path, content in sorted(self.held_out.items())}
        return {content: path for content, path in wholes.items() if content and content not in shown}

    def _judge(self, path: str, content: bytes | str) -> Iterator[str]:
        if isinstance(content, str):
            yield content
            return
        name = os.fsencode(path)
        if path in self.held_out and path not in self.public:
            yield f"is named as the held-out file {path}"
        whole = self._wholes.get(content.strip())
        if whole is None and (longer := [w for w in self._wholes if len(w) >= MIN_LINE and w in content]):
            whole = self._wholes[longer[0]]
        if whole is not None:
            yield f"holds the whole of the held-out file {whole}"
            return
        for needle, source in self._needles.items():
            if needle in content or needle in name:
                yield f"holds a line of the held-out file {source}"
                return


def _everything(workspace: Path) -> Iterator[tuple[str, bytes | str]]:
    """Every entry with its searchable content, or with the reason why it has none."""
    for parent, directories, files in os.walk(workspace, followlinks=False):
        for name in sorted([*directories, *files]):
            entry = Path(parent, name)
            path = str(entry.relative_to(workspace))
            mode = entry.lstat().st_mode
            if stat.S_ISLNK(mode):
                target = str(entry.readlink())
                yield path, os.fsencode(target)
                if not entry.resolve().is_relative_to(workspace.resolve()):
                    yield path, "is a link that leads out of the workspace"
            elif stat.S_ISDIR(mode):
                yield path, b""
            elif stat.S_ISREG(mode):
                yield path, _content(entry, path)


def _content(entry: Path, path: str) -> bytes | str:
    if entry.stat().st_size > MAX_BYTES:
        return f"is too large to search (over {MAX_BYTES} bytes)"
    if path.startswith(".git/") and entry.suffix == ".pack":
        return "is a git pack, which cannot be searched: start from a fresh commit"
    try:
        data = entry.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not path.startswith(".git/objects/"):
        return data
    inflate = zlib.decompressobj()
    try:
        return inflate.decompress(data, MAX_BYTES) if data else data
    except zlib.error:
        return data
