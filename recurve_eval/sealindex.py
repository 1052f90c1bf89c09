"""What a ledger's verified beginning holds, so that reopening it costs one digest and not one check a line.

``results.index`` is a cache and never evidence: it counts only while the bytes it speaks of still have
the SHA-256 it states, and whatever does not fit is ignored, which leaves the line-by-line check.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INDEX = "results.index"
_SCHEMA = 1
_ID_CHARS = 16
_CHUNK = 1 << 20


@dataclass
class Beginning:
    """The first ``size`` bytes of a ledger, each line of it verified: the digest so far, its ids and its counts."""

    ids: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    lines: int = 0
    size: int = 0
    sha: Any = field(default_factory=hashlib.sha256)

    def add(self, line: bytes, cell_id: str) -> None:
        """Take in the next line (without its newline)."""
        self.sha.update(line + b"\n")
        self.size += len(line) + 1
        self.lines += 1
        self.ids.add(cell_id)


def recall(ledger: Path, plan_hash: str | None, counted: Iterable[str]) -> Beginning:
    """What the index says of this ledger, where that is still true; else an empty beginning."""
    fresh = Beginning(counts=dict.fromkeys(counted, 0))
    try:
        head, _, blob = (ledger.parent / INDEX).read_bytes().partition(b"\n")
        said = json.loads(head)
        ids = blob.decode("ascii")
        if (said["schema"], said["plan"], set(said["counts"])) != (_SCHEMA, plan_hash, set(fresh.counts)):
            return fresh
        if hashlib.sha256(blob).hexdigest() != said["ids_sha256"] or len(ids) != _ID_CHARS * said["lines"]:
            return fresh
        sha = _digest(ledger, said["size"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return fresh
    if sha is None or sha.hexdigest() != said["sha256"]:
        return fresh
    known = {ids[i : i + _ID_CHARS] for i in range(0, len(ids), _ID_CHARS)}
    return Beginning(known, said["counts"], said["lines"], said["size"], sha)


def remember(ledger: Path, plan_hash: str | None, beginning: Beginning) -> None:
    """Write the index, or leave the former one: nothing is lost where it cannot be written."""
    blob = "".join(sorted(beginning.ids)).encode("ascii")
    head = {
        "schema": _SCHEMA, "plan": plan_hash, "lines": beginning.lines, "size": beginning.size,
        "sha256": beginning.sha.hexdigest(), "counts": beginning.counts, "ids_sha256": hashlib.sha256(blob).hexdigest(),
    }  # fmt: skip
    temporary = ledger.parent / f"{INDEX}.{os.getpid()}.new"
    try:
        temporary.write_bytes(json.dumps(head).encode() + b"\n" + blob)
        temporary.replace(ledger.parent / INDEX)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _digest(path: Path, size: int) -> Any:
    """SHA-256 over the first ``size`` bytes, or None where the file is shorter."""
    sha, left = hashlib.sha256(), size
    buffer = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while left:
            got = file.readinto(buffer[: min(left, _CHUNK)])
            if not got:
                return None
            sha.update(buffer[:got])
            left -= got
    return sha
