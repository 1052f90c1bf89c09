"""An interception from its plan to its sealed rows: owned, resumable, every decision made once."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recurve_eval.domain import (
    Budget,
    Cell,
    Grade,
    ModelSpec,
    OracleVerdict,
    Phase,
    Task,
    UnscoredReason,
    digest,
)  # fmt: skip
from recurve_eval.errors import ConfigError, Interrupted
from recurve_eval.events import Events
from recurve_eval.interception.items import Asked, Item
from recurve_eval.interception.judge import FAILED, Bench, Own
from recurve_eval.interception.plan import Interception
from recurve_eval.interception.rows import Recorder, grade_of, own_of
from recurve_eval.ledger import Ledger, RunLock, read_rows
from recurve_eval.plan import freeze
from recurve_eval.ports import Session, TurnRequest
from recurve_eval.results import RunFacts
from recurve_eval.workspace import remove

LABEL = "recurve-"
Watch = Callable[[int, int], Any]  # decisions sealed, decisions in all


@dataclass(frozen=True)
class Done:
    """How an interception ended. ``made`` are the decisions of this command, ``graded`` its gradings."""

    run_dir: Path
    sealed: int
    total: int
    made: int
    graded: int
    wall_s: float
    unscored: int


def intercept(asked: Interception, facts: RunFacts, watch: Watch, around: Callable[[Path], Any]) -> Done:
    """Decide whatever is not decided yet.

    Parameters
    ----------
    watch : callable
        Told how far it is, a few times a second.
    around : callable
        Given the run directory once it is owned and frozen, a context manager to work in (the tracker's follower).

    Raises
    ------
    RunLocked, Drift, Refused, ConfigError
        Before anything is decided.
    Interrupted
        The user stopped it; sealed decisions are kept.
    """
    for part in (asked.sandbox, asked.oracle):
        problem = part.check()
        if problem:
            raise ConfigError(problem)
    with RunLock(asked.run_dir):
        freeze(asked.plan, asked.run_dir, facts.provenance, asked.lock)
        node = asked.config["tracking"]
        spec = {"target": node["_target_"], "options": {k: v for k, v in node.items() if k != "_target_"}}
        (asked.run_dir / "tracking.json").write_text(
            json.dumps(spec, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )
        work = _Work(asked, facts)
        try:
            with around(asked.run_dir):
                return work.run(watch)
        finally:
            work.close()


class _Work:
    def __init__(self, asked: Interception, facts: RunFacts) -> None:
        self.asked, self.run_dir = asked, asked.run_dir
        self.ledger = Ledger(self.run_dir, facts.plan_hash)
        env = asked.env
        self.recorder = Recorder(
            facts, env.isolation, env.image_digest, env.hash, asked.sandbox.attestation(), asked.ladder.cumulative
        )  # fmt: skip
        self._family = f"{LABEL}{digest([facts.plan_hash, str(self.run_dir.resolve())])[:12]}"
        self._sweep()
        self._root = Path(tempfile.mkdtemp(prefix=f"{self._family}-"))
        label = f"{self._family}-{os.getpid()}"
        self._sessions: list[Session] = []
        self.bench = Bench(
            asked.layers, asked.sandbox, asked.claims, Asked(asked.agent, self._author), self._root, label,
            asked.benchmark.solutions,
        )  # fmt: skip
        self._authored: dict[str, Mapping[str, bytes]] = {}
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._error: BaseException | None = None
        self.made = self.graded = 0

    def run(self, watch: Watch) -> Done:
        started = time.monotonic()
        sealed = self.ledger.sealed_ids()
        total, before = len(self.asked.plan), len(sealed)
        if before:
            Events(self.run_dir).append("resumed", sealed=before, pending=total - before)
        pending = [i for i in self.asked.plan.items if any(c.cell_id not in sealed for c in self._cells(i))]
        known = self._known(sealed, pending)
        self._feed = iter(pending)
        workers = int(self.asked.config["run"]["workers"]) or len(os.sched_getaffinity(0))
        self.asked.oracle.start(workers)
        threads = [
            threading.Thread(target=self._loop, args=(known, sealed), name=f"judge-{n}", daemon=True)
            for n in range(min(workers, max(1, len(pending))))
        ]
        for thread in threads:
            thread.start()
        self._await(threads, lambda: watch(before + self.made, total))
        counts = self.ledger.counts()
        wall = time.monotonic() - started
        return Done(self.run_dir, counts["sealed"], total, self.made, self.graded, wall, counts["unscored"])

    def close(self) -> None:
        self.asked.oracle.close()
        remove(self._root)

    # -- the loop --------------------------------------------------------------------------------

    def _await(self, threads: Sequence[threading.Thread], watch: Callable[[], Any]) -> None:
        try:
            while any(t.is_alive() for t in threads):
                for thread in threads:
                    thread.join(0.1)
                watch()
        except KeyboardInterrupt:
            self._stop.set()
            for thread in threads:
                thread.join(60)
            raise Interrupted(
                f"stopped: decisions so far are sealed in {self.run_dir}; the same command resumes"
            ) from None
        if self._error is not None:
            raise self._error

    def _loop(self, known: Mapping[str, Mapping[str, Any]], sealed: frozenset[str]) -> None:
        while not self._stop.is_set():
            with self._lock:
                item = next(self._feed, None)
            if item is None:
                return
            try:
                self._decide(item, known, sealed)
            except BaseException as error:  # noqa: BLE001 - raised again where the run is awaited
                with self._lock:
                    self._error = self._error or error
                self._stop.set()

    def _decide(self, item: Item, known: Mapping[str, Mapping[str, Any]], sealed: frozenset[str]) -> None:
        task = self.asked.benchmark.task(item.task_id)
        cells = self._cells(item)
        held = {c.cell_id: known[c.cell_id] for c in cells if c.cell_id in known}
        grade = next((g for row in held.values() if (g := grade_of(row)) is not None), None) or self._grade(item)
        below: list[Mapping[str, Any]] = []
        with self.bench.before(task, item) as judge:
            for layer, cell in zip(self.asked.layers, cells, strict=True):
                if cell.cell_id in held:
                    below.append(own_of(held[cell.cell_id]))
                    continue
                own = judge.ask(layer) if grade.verdict is not OracleVerdict.UNSCORED else Own(FAILED, why=grade.detail)
                self._seal(item, cell, layer, own, below, grade, judge.claims_by)
                below.append({"decision": own.decision, "outcome": own.outcome})

    def _seal(self, item: Item, cell: Cell, layer: Any, own: Own, below: Any, grade: Grade, claims_by: str) -> None:
        simulated = (
            self.asked.source.simulated or layer.simulated or (layer.needs_claims and self.asked.claims.simulated)
        )
        condition = self.asked.plan.conditions[cell.condition]
        row = self.recorder.row(item, cell, condition, layer, own, below, grade, simulated, claims_by)
        self.ledger.seal(row)
        with self._lock:
            self.made += 1

    def _grade(self, item: Item) -> Grade:
        if item.truth:
            return Grade(OracleVerdict(item.truth), UnscoredReason.INFRA if item.truth == "unscored" else None)
        job = self.asked.benchmark.oracle_job(item.task_id, item.submission)
        limit = min(job.timeout_s, float(self.asked.config["source"]["timeout_s"]))
        with self._lock:
            self.graded += 1
        return self.asked.oracle.grade(replace(job, timeout_s=limit))

    def _cells(self, item: Item) -> tuple[Cell, ...]:
        return self.asked.plan.of_item[item.id]

    def _known(self, sealed: frozenset[str], pending: Sequence[Item]) -> dict[str, Mapping[str, Any]]:
        """The sealed rows of items that are not done."""
        wanted = {c.cell_id for i in pending for c in self._cells(i)} & sealed
        if not wanted:
            return {}
        rows = read_rows(self.run_dir, self.asked.plan.hash)
        return {row["identity"]["cell_id"]: row for row in rows if row["identity"]["cell_id"] in wanted}

    # -- claims by an agent ----------------------------------------------------------------------

    def _author(self, task: Task) -> Mapping[str, bytes]:
        """Let the configuration's agent state claims on the untouched task, once."""
        with self._lock:
            known = self._authored.get(task.id)
        if known is None:
            known = self.bench.author(task, lambda workspace, session: self._ask_author(task, session))
            with self._lock:
                self._authored[task.id] = known
        return known

    def _ask_author(self, task: Task, session: Session) -> None:
        config, agent = self.asked.config, self.asked.agent
        answers = self.asked.benchmark.solutions(task.id) if agent.simulated else None
        request = TurnRequest(
            task.statement, task, ModelSpec(**config["model"]), int(config["seed"]), 1, Budget(**config["budget"]),
            answers, phase=Phase.AUTHOR,
        )  # fmt: skip
        agent.run(request, session)

    def _sweep(self) -> None:
        """End what a killed process of this run left."""
        killed = self.asked.sandbox.reap(f"{self._family}-")
        if killed:
            Events(self.run_dir).append("orphans_killed", sandbox=self.asked.sandbox.name, processes=killed)
        for place in Path(tempfile.gettempdir()).glob(f"{self._family}-*"):
            remove(place)
