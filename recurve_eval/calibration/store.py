"""Where calibrations are kept: ``<outputs>/calibrations/<benchmark>/<key>.json``, sealed.

The gradings that one rests on (``<key>.rows.jsonl``) are appended one by one, so that an interrupted
calibration resumes and one over more tasks grades only what is new.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recurve_eval.appendlog import AppendLog, FileLock
from recurve_eval.calibration.subject import key_of
from recurve_eval.domain import JSON, canonical_json, digest
from recurve_eval.errors import Drift, Refused
from recurve_eval.exclusions import file_name

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One grading done for a calibration. ``wall_s`` is in seconds, ``attempt`` counts from 0."""

    task_id: str
    role: str
    kind: str
    submission: str
    fingerprint: str
    attempt: int
    verdict: str
    reason: str | None
    detail: str
    tests_passed: int
    tests_total: int
    retried: bool
    flake_rate: float
    wall_s: float


class Rows:
    """The gradings of one calibration, by fingerprint and attempt. Threads may share it.

    Raises Drift, naming file and line, where a line is not what was appended.
    """

    def __init__(self, path: Path) -> None:
        self._log = AppendLog(path)
        self._found: dict[tuple[str, int], Row] = {}
        with self._log.locked():
            self._catch_up()

    def get(self, fingerprint: str, attempt: int) -> Row | None:
        return self._found.get((fingerprint, attempt))

    def add(self, row: Row) -> None:
        """Append one grading, durably."""
        fields = asdict(row)
        with self._log.locked():
            self._catch_up()
            self._log.append(canonical_json({"seal": digest(fields)[:16], "row": fields}).encode())
            self._found[row.fingerprint, row.attempt] = row

    def _catch_up(self) -> None:
        for line in self._log.new_lines():
            row = _opened(line)
            if row is None:
                raise Drift(f"{self._log.path}: a grading was altered after it was written; {_anew(self._log.path)}")
            self._found[row.fingerprint, row.attempt] = row


def _opened(line: bytes) -> Row | None:
    try:
        held = json.loads(line)
        return Row(**held["row"]) if digest(held["row"])[:16] == held["seal"] else None
    except (ValueError, KeyError, TypeError):
        return None


class Store:
    """The calibrations of one benchmark below an output directory."""

    def __init__(self, outputs: Path, benchmark: str) -> None:
        self.root = Path(outputs) / "calibrations" / file_name(benchmark)

    def path(self, key: str) -> Path:
        return self.root / f"{key}.json"

    def lock(self, key: str) -> FileLock:
        return FileLock(self.root, f"{key}.lock")

    def rows(self, key: str) -> Rows:
        return Rows(self._rows_path(key))

    def forget(self, key: str) -> None:
        """Remove the calibration of that name and its gradings."""
        self.path(key).unlink(missing_ok=True)
        self._rows_path(key).unlink(missing_ok=True)

    def _rows_path(self, key: str) -> Path:
        return self.root / f"{key}.rows.jsonl"

    def read(self, key: str) -> dict[str, Any] | None:
        """The calibration of that name, or None. Raises Drift where the file is not what was written."""
        path = self.path(key)
        return opened(path) if path.is_file() else None

    def write(self, document: Mapping[str, JSON]) -> Path:
        """Seal and store a document, wholly or not at all. Raises Refused where that is not possible."""
        path = self.path(str(document["key"]))
        body = json.dumps({**document, "seal": seal_of(document)}, indent=1, sort_keys=True, allow_nan=False) + "\n"
        temporary = path.with_suffix(f".{os.getpid()}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise Refused(f"cannot write {path}: {error.strerror}; the gradings so far are kept") from error
        return path

    def others(self, key: str) -> Iterator[dict[str, Any]]:
        """Every readable calibration of this benchmark but the one of that name, the newest first."""
        paths = sorted(self.root.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
        for path in paths:
            if path.stem != key:
                try:
                    yield opened(path)
                except Drift:
                    continue


def seal_of(document: Mapping[str, JSON]) -> str:
    """SHA-256 (hex) of everything but the seal, as JSON gives it back."""
    return digest(json.loads(canonical_json({k: v for k, v in document.items() if k != "seal"})))


def opened(path: Path) -> dict[str, Any]:
    """A stored calibration. Raises Drift, by the file's name, where it was altered, moved or cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Drift(f"{path} cannot be read as a calibration ({error}): {_anew(path)}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise Drift(f"{path} is not a calibration of schema {SCHEMA}: {_anew(path)}")
    if document.get("seal") != seal_of(document):
        raise Drift(f"{path} was altered after it was written (its seal does not hold): {_anew(path)}")
    key = key_of(document["oracle"]["hash"], document["dataset"]["hash"], document["exclusions"]["hash"])
    if document["key"] != key or path.stem != key:
        raise Drift(f"{path} holds the calibration {key}, not the one that it is named for: {_anew(path)}")
    return document


def _anew(path: Path) -> str:
    return "calibrate again, with --again"
