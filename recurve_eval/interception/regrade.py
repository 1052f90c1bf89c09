"""Stored submissions graded again, beside what was sealed. Sealed rows are read and never written."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from recurve_eval.appendlog import AppendLog
from recurve_eval.domain import Grade, OracleEnv, canonical_json, digest
from recurve_eval.errors import Drift
from recurve_eval.interception.stored import stored_submission
from recurve_eval.ledger import read_rows
from recurve_eval.ports import Benchmark, OracleBackend

AGAIN = 2  # further gradings of a submission whose verdict flipped, to tell a flip from a flake


@dataclass(frozen=True, slots=True)
class Regraded:
    """One submission, then and now. ``again`` are the verdicts of further gradings where the first one differed."""

    cell_id: str
    task_id: str
    arm: str
    sealed: str
    sealed_env: str
    sealed_detail: str
    now: str
    detail: str
    again: tuple[str, ...] = ()
    wall_s: float = 0.0

    @property
    def flipped(self) -> bool:
        """Whether the verdict changed. A grading without a verdict, then or now, has none to compare."""
        return "unscored" not in (self.sealed, self.now) and self.good != (self.sealed == "pass")

    @property
    def good(self) -> bool:
        return self.now == "pass"

    @property
    def why(self) -> str:
        """What is known of the reason, in one clause."""
        if self.again and len({self.now, *self.again}) > 1:
            return f"flaky: graded again it was {', '.join(self.again)}"
        before = self.sealed_detail or "no detail was recorded"
        return f"then: {before}; now: {self.detail or 'no detail'}"


@dataclass(frozen=True)
class Outcome:
    """How far a regrading came. ``left`` cells were not reached in the time given."""

    regraded: tuple[Regraded, ...]
    path: Path
    left: int
    without: int  # sealed cells that have no submission
    altered: tuple[str, ...]  # stored submissions that are not what was graded

    @property
    def flips(self) -> list[Regraded]:
        return [r for r in self.regraded if r.flipped]

    @property
    def unscored(self) -> list[Regraded]:
        return [r for r in self.regraded if r.now == "unscored"]


Parts = Callable[[Mapping[str, Any]], tuple[Benchmark, OracleBackend, OracleEnv]]


class Regrading:
    """One run's submissions under one oracle environment for each of its conditions.

    Parameters
    ----------
    parts : callable
        Given a row, its benchmark, the oracle to grade with, and that oracle's environment.
    within_s : float, optional
        Seconds after which no further grading is begun; what is left is for the next time.
    """

    def __init__(self, run_dir: Path, parts: Parts, workers: int, within_s: float | None = None) -> None:
        self.run_dir, self.parts, self.workers = run_dir, parts, workers
        self._deadline = None if within_s is None else time.monotonic() + within_s
        self._logs: dict[str, _Log] = {}
        self._lock = threading.Lock()

    def run(self, watch: Callable[[int, int], Any]) -> Outcome:
        """Grade what this environment has not graded yet. Raises Drift where the records of it were altered."""
        rows, altered, without = [], [], 0
        for row in read_rows(self.run_dir):
            try:
                stored = stored_submission(self.run_dir, row)
            except Drift as error:
                altered.append(str(error))
                continue
            without += stored is None
            rows += [(row, stored)] if stored is not None else []
        done: list[Regraded] = []
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="regrade")
        try:
            for number, result in enumerate(pool.map(lambda pair: self._one(*pair), rows), start=1):
                done += [result] if result is not None else []
                watch(number, len(rows))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        path = self.run_dir / "regrades"
        return Outcome(tuple(done), path, len(rows) - len(done), without, tuple(altered))

    def _one(self, row: Mapping[str, Any], stored: Any) -> Regraded | None:
        benchmark, oracle, env = self.parts(row)
        log = self._log(env.hash)
        cell_id = row["identity"]["cell_id"]
        with self._lock:
            known = log.known.get(cell_id)
        if known is not None:
            return known
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return None
        task_id = row["identity"]["task_id"]
        grade: Grade = oracle.grade(benchmark.oracle_job(task_id, stored))
        verdict = row["verdict"]
        result = Regraded(
            cell_id, task_id, row["identity"]["arm"], verdict["oracle_verdict"], row["provenance"]["oracle_env_hash"],
            verdict["detail"][:300], grade.verdict.value, grade.detail[:300], wall_s=round(grade.wall_s, 6),
        )  # fmt: skip
        if result.flipped:
            more = [oracle.grade(benchmark.oracle_job(task_id, stored)).verdict.value for _ in range(AGAIN)]
            result = replace(result, again=tuple(more))
        if result.now != "unscored":
            log.add(result)
        return result

    def _log(self, env_hash: str) -> _Log:
        with self._lock:
            if env_hash not in self._logs:
                self._logs[env_hash] = _Log(self.run_dir / "regrades" / f"{env_hash[:16]}.jsonl")
            return self._logs[env_hash]


class _Log:
    """The gradings of one environment so far, sealed line by line."""

    def __init__(self, path: Path) -> None:
        self._log = AppendLog(path)
        self.known: dict[str, Regraded] = {}
        with self._log.locked():
            for line in self._log.new_lines():
                found = _opened(line)
                if found is None:
                    raise Drift(f"{path}: a grading was altered after it was written: remove the file to grade anew")
                self.known[found.cell_id] = found

    def add(self, result: Regraded) -> None:
        fields = asdict(result)
        with self._log.locked():
            for _ in self._log.new_lines():
                pass
            self._log.append(canonical_json({"seal": digest(fields)[:16], "row": fields}).encode())
            self.known[result.cell_id] = result


def _opened(line: bytes) -> Regraded | None:
    try:
        held = json.loads(line)
        fields = held["row"]
        return Regraded(**{**fields, "again": tuple(fields["again"])}) if digest(fields)[:16] == held["seal"] else None
    except (ValueError, KeyError, TypeError):
        return None


def table_of(outcome: Outcome) -> Iterator[str]:
    """The table of flips as text, one line each, and what could not be compared."""
    changes: dict[tuple[str, str], int] = {}
    for r in outcome.regraded:
        changes[r.sealed, r.now] = changes.get((r.sealed, r.now), 0) + 1
    yield f"{len(outcome.regraded)} submissions graded again"
    for (then, now), count in sorted(changes.items()):
        yield f"  {then:>9} -> {now:<9} {count}{'' if then == now else '   <-'}"
    for r in outcome.flips:
        yield f"flip  {r.task_id} ({r.arm}, cell {r.cell_id}): {r.sealed} -> {r.now}; {r.why}"
    for r in outcome.unscored:
        yield f"no verdict  {r.task_id} ({r.arm}, cell {r.cell_id}): {r.detail}"
    for problem in outcome.altered:
        yield f"not graded  {problem}"
    if outcome.without:
        yield f"{outcome.without} sealed cells have no submission"
    if outcome.left:
        yield f"{outcome.left} were not reached in the time given; the same command goes on"
