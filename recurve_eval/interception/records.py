"""Recorded submissions, with the checks that their author wrote where the record has them."""

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


def json_lines(path: str) -> Iterator[tuple[str, Any]]:
    """``FILE:LINE`` and the object of each line of JSONL, plain or gzip. Raises ConfigError naming the line."""
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read '{path}': {error.strerror}") from None
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


def read_recordings(paths: Sequence[str]) -> list[Recording]:
    """Every line of the files. Raises ConfigError on a bad line and where one attempt stands twice."""
    found: dict[tuple[str, str, int], Recording] = {}
    for path in paths:
        for where, row in json_lines(path):
            solution = field(row, "solution", str, where).encode("utf-8", "surrogatepass")
            task_id, model = text(row, "task_id", where), text(row, "model", where)
            record = Recording(task_id, model, field(row, "attempt", int, where), solution, _checks(row, where))
            key = (record.model, record.task_id, record.attempt)
            if key in found:
                raise ConfigError(f"{where}: {key[0]}'s attempt {key[2]} at task {key[1]} stands twice")
            found[key] = record
    return list(found.values())


def _checks(row: dict[str, Any], where: str) -> tuple[str, ...] | None:
    if "authored_checks" not in row:
        return None
    checks = row["authored_checks"]
    if not isinstance(checks, list) or not all(isinstance(c, str) for c in checks):
        raise ConfigError(f"{where}: 'authored_checks' must be a list of statements")
    return tuple(checks)


def recordings_hash(paths: Sequence[str]) -> list[JSON]:
    """SHA-256 of each file. Raises ConfigError where one cannot be read."""
    out: list[JSON] = []
    for path in paths:
        try:
            out.append(hashlib.sha256(Path(path).expanduser().read_bytes()).hexdigest())
        except OSError as error:
            raise ConfigError(f"cannot read '{path}': {error.strerror}") from None
    return out
