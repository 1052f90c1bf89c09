"""The sealed results of a run: one line per cell, appended, durable, each cell once.

A line is ``{"cell_id":"<16 hex>","seal":"<16 hex>","row":<canonical JSON>}``. The id stands at a fixed
place, so resuming reads ids without parsing JSON; the seal is the first 16 hex digits of the SHA-256
of the row's canonical JSON, so a changed row is recognised.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recurve_eval.appendlog import AppendLog, FileLock, complete_lines
from recurve_eval.domain import JSON, canonical_json
from recurve_eval.errors import Drift, Refused
from recurve_eval.events import Events
from recurve_eval.rows import InvalidRow, validate
from recurve_eval.sealindex import recall, remember

RESULTS = "results.jsonl"
_LINE = re.compile(rb'\{"cell_id":"([0-9a-f]{16})","seal":"([0-9a-f]{16})","row":')
# Quotes inside a JSON string are escaped, so these can only be the fields themselves.
_COUNTED = {
    "declared": b'"declared_done":true',
    "shipped_bad": b'"outcome":"shipped_bad"',
    "unscored": b'"oracle_verdict":"unscored"',
}
_REMEMBER_EVERY = 5_000  # lines; so many at most are checked one by one when a killed run resumes
_ID, _SEAL, _ROW = slice(12, 28), slice(38, 54), slice(62, -1)


class RunLock(FileLock):
    """Ownership of a run directory; a second process is refused by the name of the first."""

    NAME = "run.lock"

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir, self.NAME)


def run_owner(run_dir: Path) -> Mapping[str, Any] | None:
    """The process that runs this directory now (``pid``, ``host``, ``since``, ``command``), or None."""
    return FileLock.owner(run_dir, RunLock.NAME)


class Ledger:
    """The results of one run directory, open for sealing. Threads and processes may share it.

    Opening recovers from a crash: a last line that is incomplete or broken moves to
    ``results.torn.jsonl`` and is reported as an event, so that its cell runs again.

    Raises
    ------
    Refused
        The directory cannot be written to.
    Drift
        A line in the middle of the file is not a sealed row.
    """

    def __init__(self, run_dir: Path, plan_hash: str | None = None) -> None:
        self.run_dir = Path(run_dir)
        self._plan = plan_hash
        self._mark = b"" if plan_hash is None else f'"plan_hash":"{plan_hash}"'.encode()
        self._log = AppendLog(self.run_dir / RESULTS, self._report_torn)
        with self._log.locked():
            self._seen = recall(self._log.path, plan_hash, _COUNTED)
            self._remembered = self._seen.lines
            self._log.skip(self._seen.size)
            self._catch_up(opening=True)
            self._remember()

    def __reduce__(self) -> tuple[type[Ledger], tuple[Path, str | None]]:
        return Ledger, (self.run_dir, self._plan)

    def seal(self, row: Mapping[str, JSON]) -> None:
        """Validate and append one row; when this returns, the row is on disk.

        Raises InvalidRow on a row that breaks the schema, Refused on a second row of a cell, and
        InfraError when it cannot be written (nothing of it is then left in the file).
        """
        try:
            text = canonical_json(row)
        except (ValueError, TypeError) as error:
            validate(row)  # names the field where it can
            raise InvalidRow(f"the row holds a value that JSON cannot carry: {error}") from error
        validate(json.loads(text))
        cell_id = row["identity"]["cell_id"]
        with self._log.locked():
            self._catch_up()
            if cell_id in self._seen.ids:
                raise Refused(f"cell {cell_id} is sealed already in {self._log.path}")
            line = _line(cell_id, text.encode())
            self._log.append(line)
            self._note(line)
            if self._seen.lines - self._remembered >= _REMEMBER_EVERY:
                self._remember()

    def sealed_ids(self) -> frozenset[str]:
        """The ids of all sealed cells, by whichever process."""
        with self._log.locked():
            self._catch_up()
            return frozenset(self._seen.ids)

    def counts(self) -> dict[str, int]:
        """How many cells are ``sealed``, and of them ``declared``, ``shipped_bad`` and ``unscored``."""
        with self._log.locked():
            self._catch_up()
            return {"sealed": len(self._seen.ids), **self._seen.counts}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Sealed rows in order of sealing, as :func:`read_rows`."""
        return read_rows(self.run_dir, self._plan)

    def _catch_up(self, opening: bool = False) -> None:
        last: bytes | None = None
        for line in self._log.new_lines():
            if last is not None:
                self._note(last)
            last = line
        if last is None:
            return
        if opening and not _intact(last):
            self._log.set_aside(self._log.end - len(last) - 1)
        else:
            self._note(last)

    def _note(self, line: bytes) -> None:
        number = self._seen.lines + 1
        if not _intact(line):
            raise Drift(f"{self._log.path} line {number} is not a sealed row: restore it, or remove the line")
        if self._mark not in line:
            raise Drift(f"{self._log.path} line {number} belongs to another plan: remove the line")
        self._seen.add(line, line[_ID].decode())
        for name, mark in _COUNTED.items():
            self._seen.counts[name] += mark in line

    def _remember(self) -> None:
        if self._seen.lines > self._remembered and len(self._seen.ids) == self._seen.lines:
            remember(self._log.path, self._plan, self._seen)
            self._remembered = self._seen.lines

    def _report_torn(self, torn: bytes) -> None:
        kept_in = self._log.path.with_name("results.torn.jsonl").name
        Events(self.run_dir).append("torn_line_dropped", file=RESULTS, bytes=len(torn), kept_in=kept_in)


def read_rows(run_dir: Path, plan_hash: str | None = None) -> Iterator[dict[str, Any]]:
    """Sealed rows of a run directory, in order of sealing, each verified; writes nothing, locks nothing.

    A broken last line is the trace of a crash and is left out. Raises Drift, naming file and line, when
    any other line is broken, a cell stands there twice, or a row belongs to another plan than ``plan_hash``.
    """
    path = Path(run_dir) / RESULTS
    seen: set[str] = set()
    broken: str | None = None
    for number, line in enumerate(complete_lines(path), start=1):
        if broken is not None:
            raise Drift(broken)
        row = open_line(line[:-1])
        if row is None:
            broken = f"{path} line {number}: the row does not match its seal"
            continue
        cell_id = row["identity"]["cell_id"]
        if cell_id in seen:
            raise Drift(f"{path} line {number}: cell {cell_id} is sealed a second time")
        if plan_hash is not None and row["identity"]["plan_hash"] != plan_hash:
            raise Drift(f"{path} line {number} belongs to another plan: remove the line")
        seen.add(cell_id)
        yield row


def sealed_lines(run_dir: Path) -> Iterator[bytes]:
    """The intact lines of a run directory's ledger as they stand, without parsing rows."""
    return (line for line in complete_lines(Path(run_dir) / RESULTS) if _intact(line[:-1]))


def read_seals(run_dir: Path) -> dict[str, str]:
    """The seal of every intact row by cell id, without parsing rows."""
    return {id_of_line(line): seal_of_line(line) for line in sealed_lines(run_dir)}


def open_line(line: bytes) -> dict[str, Any] | None:
    """The row of one line (without its newline), or None when the line or its seal is broken."""
    if not _intact(line):
        return None
    try:
        row = json.loads(line[_ROW])
    except ValueError:
        return None
    same = isinstance(row, dict) and row.get("identity", {}).get("cell_id") == line[_ID].decode()
    return row if same else None


def id_of_line(line: bytes) -> str:
    """The cell id of one line, without parsing it."""
    return line[_ID].decode("ascii", "replace")


def seal_of_line(line: bytes) -> str:
    """The seal that one line states, unchecked."""
    return line[_SEAL].decode("ascii", "replace")


def row_seal(text: bytes) -> str:
    """The seal of a row's canonical JSON."""
    return hashlib.sha256(text).hexdigest()[:16]


def _line(cell_id: str, text: bytes) -> bytes:
    return b'{"cell_id":"%s","seal":"%s","row":%s}' % (cell_id.encode(), row_seal(text).encode(), text)


def _intact(line: bytes) -> bool:
    return _LINE.match(line) is not None and line.endswith(b"}") and row_seal(line[_ROW]).encode() == line[_SEAL]
