"""Recorded submissions, with the checks that their author wrote where the record has them.

JSONL, plain or gzip; each line has task_id, attempt, model, solution and, where there are any, authored_checks.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval.domain import JSON, is_text
from recurve_eval.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Recording:
    """One line: a model's attempt at a task. ``checks`` are statements that raise where the work is wrong."""

    task_id: str
    model: str
    attempt: int
    solution: bytes
    checks: tuple[str, ...] | None = None


def read_file(path: str, setting: str = "") -> bytes:
    """The bytes of a file that ``setting`` names. Raises ConfigError."""
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        named = f"{setting}: " if setting else ""
        raise ConfigError(f"{named}cannot read '{path}': {error.strerror}") from None


def json_lines(path: str, data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """``FILE:LINE`` and the object of each line of JSONL, plain or gzip. Raises ConfigError naming the line."""
    try:
        text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is neither UTF-8 JSONL nor a gzip of it: {error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ConfigError(f"{path}:{number}: must be an object; got {type(row).__name__}")
        yield f"{path}:{number}", row


def field(row: dict[str, Any], name: str, kind: type, where: str) -> Any:
    """A field of its type. Raises ConfigError."""
    value = row.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{where}: '{name}' must be {kind.__name__}; got {value!r}")
    return value


def text(row: dict[str, Any], name: str, where: str) -> str:
    """A field that is a string and can be written down again. Raises ConfigError."""
    value: str = field(row, name, str, where)
    if not is_text(value):
        raise ConfigError(f"{where}: '{name}' is not text (it holds half of a surrogate pair)")
    return value


def recordings(path: str, data: bytes) -> Iterator[tuple[str, Recording]]:
    """``FILE:LINE`` and the recording of each line. Raises ConfigError naming the line."""
    for where, row in json_lines(path, data):
        task_id, attempt = text(row, "task_id", where), field(row, "attempt", int, where)
        model, solution = text(row, "model", where), field(row, "solution", str, where)
        yield where, Recording(task_id, model, attempt, solution.encode("utf-8", "surrogatepass"), _checks(row, where))


def read_recordings(paths: Sequence[str], setting: str) -> list[Recording]:
    """Every line of the files. Raises ConfigError on a bad line and where one attempt stands twice."""
    found: dict[tuple[str, str, int], Recording] = {}
    for path in paths:
        for where, record in recordings(path, read_file(path, setting)):
            key = (record.model, record.task_id, record.attempt)
            if key in found:
                raise ConfigError(f"{where}: {key[0]}'s attempt {key[2]} at task {key[1]} stands twice")
            found[key] = record
    return list(found.values())


def _checks(row: dict[str, Any], where: str) -> tuple[str, ...] | None:
    checks = row.get("authored_checks")
    if checks is None:
        return None
    if not isinstance(checks, list) or not all(isinstance(c, str) for c in checks):
        raise ConfigError(f"{where}: 'authored_checks' must be a list of statements; got {checks!r}")
    return tuple(checks)


def recordings_hash(paths: Sequence[str], setting: str) -> list[JSON]:
    """SHA-256 of each file. Raises ConfigError where one cannot be read."""
    return [hashlib.sha256(read_file(path, setting)).hexdigest() for path in paths]
