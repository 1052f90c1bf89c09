"""A run directory in hand: its lock, its bench, and the cells still to do."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from recurve_eval.app import Study
from recurve_eval.domain import Cell
from recurve_eval.errors import Leak
from recurve_eval.evidence import CellFiles
from recurve_eval.execute.bench import LABEL, Bench, run_facts
from recurve_eval.ledger import RunLock
from recurve_eval.plan import freeze
from recurve_eval.workspace import materialize, remove


@dataclass
class Run:
    """One study in its directory. Use as a context manager: it owns the directory while open.

    Raises RunLocked for a second process, Drift for an altered directory, Refused for an unwritable
    one; all before anything is spent.
    """

    study: Study
    workers: int

    def __post_init__(self) -> None:
        plan = self.study.plan
        self.dir = self.study.run_dir
        self.bench = Bench(
            self.dir,
            run_facts(plan.hash, plan.experiment),
            dict(enumerate(plan.conditions)),
            dict(enumerate(self.study.adapters)),
            dict(enumerate(self.study.envs)),
            self.study.config["spend"]["max_usd"],
        )
        self._lock = RunLock(self.dir)

    def __enter__(self) -> Run:
        self._lock.acquire()
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _open(self) -> None:
        if not (self.dir / "plan.yaml").exists():
            self._prove_clean()
        new = freeze(self.study.plan, self.dir, self.bench.facts.provenance, self.study.lock())
        self._write_tracking_spec()
        with ThreadPoolExecutor(1) as beside:  # reading a long ledger leaves the interpreter free
            opening = beside.submit(self.bench.open)
            self.study.plan.cell_ids  # noqa: B018 - worked out meanwhile
            opening.result()
        recorded = partial(CellFiles.recorded_cost, self.dir)
        for cell_id, attempt, usd in self.bench.spend.recover(recorded):
            self.bench.events.append("dead_cell_settled", cell_id=cell_id, attempt=attempt, usd=usd)
        self._sweep_leftovers()
        sealed = self.bench.ledger.sealed_ids()
        plan = self.study.plan
        self.pending = list(plan.cells_but(sealed))
        self.bench.tally.total = len(plan)
        self.bench.tally.sealed_before = len(plan) - len(self.pending)
        self.bench.tally.recount(self.bench.ledger.counts())
        if not new:
            done = self.bench.tally.sealed_before
            self.bench.events.append("resumed", sealed=done, pending=len(self.pending))

    def __exit__(self, *exc: object) -> None:
        try:
            self.bench.close()
            self._remove_workspaces()
        finally:
            self._lock.release()

    def _prove_clean(self) -> None:
        """Look for held-out bytes in every task's workspace before anything is frozen. Raises Leak."""
        seen: set[tuple[int, str]] = set()
        with tempfile.TemporaryDirectory(prefix=f"{LABEL}look-") as place:
            for condition, parts in zip(self.study.plan.conditions, self.study.adapters, strict=True):
                for task_id in condition.task_ids:
                    if (id(parts.benchmark), task_id) in seen:
                        continue
                    seen.add((id(parts.benchmark), task_id))
                    workspace = Path(place) / str(len(seen))
                    materialize(parts.benchmark.task(task_id), workspace)
                    found = parts.benchmark.scanner(task_id).scan(workspace)
                    if found:
                        raise Leak(f"task {task_id}: the public part holds held-out bytes: {found[0]}")

    def _sweep_leftovers(self) -> None:
        """End what a killed process of this run left: its agents' processes and their workspaces."""
        for sandbox in {id(a.sandbox): a.sandbox for a in self.study.adapters}.values():
            killed = sandbox.reap(f"{self.bench.family}-")
            if killed:
                self.bench.events.append("orphans_killed", sandbox=sandbox.name, processes=killed)
        self._remove_workspaces()

    def _remove_workspaces(self) -> None:
        """Those of every process that has run cells in this directory, which only its owner may do."""
        for place in Path(tempfile.gettempdir()).glob(f"{self.bench.family}-*"):
            remove(place)

    def _write_tracking_spec(self) -> None:
        """tracking.json: which tracker mirrors this run, for the follower and the verb ``mirror``."""
        node = self.study.config["tracking"]
        spec = {"target": node["_target_"], "options": {k: v for k, v in node.items() if k != "_target_"}}
        (self.dir / "tracking.json").write_text(json.dumps(spec, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def feed(self) -> Iterator[Cell]:
        """Pending cells in their pinned order, until the run is cancelled."""
        for cell in self.pending:
            if self.bench.cancelled.is_set():
                return
            yield cell
