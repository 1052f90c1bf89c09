"""Grade what is known and write down how the oracle did.

Canonical solutions one at a time, so that their timings are clean; known-bad ones in parallel, under
a limit derived from those timings (a wrong solution that never ends must not cost its full limit).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from recurve_eval.appendlog import utc_now
from recurve_eval.calibration.document import Examined, Settings, as_it_must, covered, document_of
from recurve_eval.calibration.judge import AT_LEAST, moved
from recurve_eval.calibration.store import Row, Rows, Store
from recurve_eval.calibration.subject import CANONICAL, Grading, Subject
from recurve_eval.domain import OracleVerdict
from recurve_eval.errors import ConfigError, Drift

Watch = Callable[[str, int, int], None]  # phase, gradings done, gradings in all


@dataclass(frozen=True)
class Outcome:
    """A calibration, where it stands, and whether it was there already."""

    document: dict[str, Any]
    path: Path
    reused: bool
    graded: int  # gradings that this command did

    @property
    def green(self) -> bool:
        return bool(self.document["green"])


def calibrate(
    subject: Subject, settings: Settings, store: Store, *, workers: int, watch: Watch, again: bool = False
) -> Outcome:
    """Calibrate an oracle, or find that it is calibrated.

    Parameters
    ----------
    workers : int
        Gradings at once in the parallel part; the oracle's own concurrency bounds it further.
    again : bool
        Grade everything anew, whatever was recorded.

    Raises
    ------
    ConfigError
        The oracle cannot run here.
    Drift
        A recorded calibration or grading was altered.
    RunLocked
        Another process calibrates the same thing.
    """
    with store.lock(subject.key):
        held = _forgotten(subject, store) if again else store.read(subject.key)
        if held is not None and not again and _current(subject, settings, held):
            return Outcome(held, store.path(subject.key), True, 0)
        problem = subject.oracle.check()
        if problem:
            raise ConfigError(problem)
        work = _Work(subject, settings, store.rows(subject.key), watch)
        started = time.monotonic()
        try:
            examined = work.examine(_tasks(subject, held), workers)
        finally:
            subject.oracle.close()
        document = document_of(subject, settings, examined, utc_now(), time.monotonic() - started)
        return Outcome(document, store.write(document), False, work.graded)


def _current(subject: Subject, settings: Settings, held: dict[str, Any]) -> bool:
    asked, had = asdict(settings), held["settings"]
    same = all(had[k] == asked[k] for k in asked if k not in AT_LEAST) and all(had[k] >= asked[k] for k in AT_LEAST)
    return bool(held["green"]) and same and moved(subject, held) is None


def _forgotten(subject: Subject, store: Store) -> dict[str, Any] | None:
    """Remove what is on record; what it covered is returned, where it can be read, to be covered again."""
    try:
        held = store.read(subject.key)
    except Drift:
        held = None
    store.forget(subject.key)
    return held


def _tasks(subject: Subject, held: dict[str, Any] | None) -> list[str]:
    """What is asked for and what was calibrated before, in the benchmark's order."""
    wanted = {*subject.task_ids, *(covered(held) if held else ())} - set(subject.exclusions.reasons)
    return [task_id for task_id in subject.benchmark.task_ids() if task_id in wanted]


class _Work:
    """The gradings of one calibration, those on record included."""

    def __init__(self, subject: Subject, settings: Settings, rows: Rows, watch: Watch) -> None:
        self.subject, self.settings, self.rows, self.watch = subject, settings, rows, watch
        self.graded = 0
        self._warm: tuple[str, ...] | None = None

    def examine(self, task_ids: Sequence[str], workers: int) -> list[Examined]:
        self.subject.oracle.start(workers)
        gold = {task_id: self.subject.canonical(task_id) for task_id in task_ids}
        canonical = self._canonical(gold)
        wrong = self._wrong(task_ids, canonical, workers)
        return [
            Examined(
                t,
                g.fingerprint,
                g.job.expected,
                g.job.timeout_s,
                tuple(canonical[t]),
                tuple(wrong[t]),
                self.subject.impossible(t),
            )
            for t, g in gold.items()
        ]

    def _canonical(self, gold: dict[str, Grading]) -> dict[str, list[Row]]:
        done: dict[str, list[Row]] = {task_id: [] for task_id in gold}
        total = len(gold) * self.settings.runs
        for attempt in range(self.settings.runs):
            for number, (task_id, grading) in enumerate(gold.items(), start=1):
                row = self.rows.get(grading.fingerprint, attempt)
                if row is None:
                    self._warm_up(grading)
                    row = self._grade(grading, attempt)
                done[task_id].append(row)
                self.watch(CANONICAL, attempt * len(gold) + number, total)
        return done

    def _warm_up(self, grading: Grading) -> None:
        """Let a server start and import before anything is timed."""
        if grading.job.preload != self._warm:
            self.subject.oracle.grade(grading.job)
            self._warm = grading.job.preload

    def _wrong(self, task_ids: Sequence[str], canonical: dict[str, list[Row]], workers: int) -> dict[str, list[Row]]:
        gradings: list[tuple[str, Grading]] = []
        for task_id in task_ids:
            impossible = bool(self.subject.impossible(task_id))
            limit = self.settings.derived([row.wall_s for row in canonical[task_id] if as_it_must(row, impossible)])
            for g in self.subject.wrong(task_id, self.settings.mutants, self.settings.seed):
                job = replace(g.job, timeout_s=min(g.job.timeout_s, limit))
                gradings.append((task_id, replace(g, job=job)))
        rows = self._in_parallel([g for _, g in gradings], workers)
        out: dict[str, list[Row]] = {task_id: [] for task_id in task_ids}
        for (task_id, _), row in zip(gradings, rows, strict=True):
            out[task_id].append(row)
        return out

    def _in_parallel(self, gradings: Sequence[Grading], workers: int) -> list[Row]:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="known-bad")
        try:
            futures = [pool.submit(self._recorded, grading) for grading in gradings]
            self._await(futures)
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _await(self, futures: Iterable[Future[Row]]) -> None:
        pending = set(futures)
        total = len(pending)
        while pending:
            done, pending = wait(pending, timeout=0.5, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            self.watch("known-bad", total - len(pending), total)

    def _recorded(self, grading: Grading) -> Row:
        row = self.rows.get(grading.fingerprint, 0) or self._grade(grading, 0)
        return replace(row, role=grading.role, kind=grading.kind)  # one submission may be known under several names

    def _grade(self, grading: Grading, attempt: int) -> Row:
        """One grading, recorded unless it gave no verdict: then the next calibration tries it again."""
        grade = self.subject.oracle.grade(grading.job)
        self.graded += 1
        row = Row(
            task_id=grading.job.task_id, role=grading.role, kind=grading.kind,
            submission=grading.job.submission.sha256, fingerprint=grading.fingerprint, attempt=attempt,
            verdict=grade.verdict.value, reason=grade.reason.value if grade.reason else None,
            detail=grade.detail[:500], tests_passed=grade.tests_passed, tests_total=grade.tests_total,
            retried=grade.retried, flake_rate=grade.flake_rate, wall_s=round(grade.wall_s, 6),
        )  # fmt: skip
        if grade.verdict is not OracleVerdict.UNSCORED:
            self.rows.add(row)
        return row
