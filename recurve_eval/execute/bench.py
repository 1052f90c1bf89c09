"""What it takes to run and seal one cell of a frozen plan, in whichever process a launcher put it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from recurve_eval import provenance
from recurve_eval.cell import Adapters, Trial, run_cell
from recurve_eval.domain import JSON, Cell, OracleEnv, OracleVerdict
from recurve_eval.errors import ConfigError
from recurve_eval.events import Events
from recurve_eval.evidence import CellFiles
from recurve_eval.ledger import Ledger
from recurve_eval.plan import Condition
from recurve_eval.ports import OracleBackend, Session
from recurve_eval.results import RunFacts, row_of
from recurve_eval.spend import SpendLedger

LABEL = "recurve-"


@dataclass
class Tally:
    """Counts for progress; read from any thread, written under the bench's lock."""

    total: int = 0
    sealed_before: int = 0
    sealed: int = 0
    running: int = 0
    unscored: int = 0
    shipped_bad: int = 0
    declared: int = 0

    @property
    def done(self) -> int:
        return self.sealed_before + self.sealed


@dataclass
class Bench:
    """The parts of some conditions of a plan, and the run directory's ledgers.

    Attributes
    ----------
    dir : Path
        The run directory.
    conditions, adapters, envs : mapping of condition index
        What the cells of each condition use.
    """

    dir: Path
    facts: RunFacts
    conditions: Mapping[int, Condition]
    adapters: Mapping[int, Adapters]
    envs: Mapping[int, OracleEnv]
    max_usd: float | None = None
    tally: Tally = field(default_factory=Tally)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._mutex = threading.Lock()
        self._sessions: set[Session] = set()
        self._yaml: dict[int, bytes] = {}

    def open(self) -> None:
        """Open the ledgers. Raises Refused where the directory cannot be written."""
        self.events = Events(self.dir)
        self.ledger = Ledger(self.dir)
        self.spend = SpendLedger(self.dir, self.max_usd)

    @property
    def family(self) -> str:
        """Opens the label of every process that any run of this plan starts."""
        return f"{LABEL}{self.facts.plan_hash[:12]}"

    @property
    def label(self) -> str:
        """Marks what the cells of this process start: ``recurve-<plan>-<pid of the harness>``."""
        return f"{self.family}-{os.getpid()}"

    @property
    def scratch_root(self) -> Path:
        """Where workspaces live while their cells run: outside the results, so nothing is beside them."""
        return Path(tempfile.gettempdir()) / self.label

    @property
    def backends(self) -> list[OracleBackend]:
        return list({id(a.oracle): a.oracle for a in self.adapters.values()}.values())

    def start(self, workers: int) -> None:
        """Warm the graders. Raises ConfigError with the remedy where a part cannot run here."""
        preflight(self.adapters.values())
        for backend in self.backends:
            backend.start(workers)

    def cancel(self) -> None:
        """Kill what runs; the cells it belongs to are not sealed and will run again."""
        self.cancelled.set()
        with self._mutex:
            sessions = list(self._sessions)
        for session in sessions:
            session.cancel()
        self.close()

    def close(self) -> None:
        for backend in self.backends:
            backend.close()

    def execute(self, cell: Cell) -> Mapping[str, JSON]:
        """Run and seal one cell.

        Raises Interrupted when cancelled, SpendRefused when the authority does not cover the cell, and
        InfraError when the ledger cannot be written; in each case nothing is sealed.
        """
        condition = self.conditions[cell.condition]
        files = CellFiles(self.dir, cell.cell_id, self.label)
        attempt = files.begin(self._config_yaml(condition))
        ceiling = float(condition.config["budget"]["usd"] or 0.0) if condition.paid else 0.0
        self.spend.reserve(cell.cell_id, attempt, ceiling)
        trial = Trial(
            cell, condition, self.adapters[cell.condition], files, self.scratch_root / cell.cell_id, attempt,
            self.cancelled, on_session=self._register,
        )  # fmt: skip
        self._running(+1)
        try:
            row = row_of(run_cell(trial), self.facts, self.envs[cell.condition])
            self.ledger.seal(row)
        finally:
            self._running(-1)
            self._forget(trial)
            self._settle(trial)
        self._account(row)
        return row

    def _settle(self, trial: Trial) -> None:
        if not trial.condition.paid:
            return
        usage = trial.run.usage if trial.run is not None and trial.run.turns else None
        if usage is None:
            self.spend.settle(trial.cell.cell_id, trial.attempt, None if trial.turns else 0.0, "unknown")
        else:
            self.spend.settle(trial.cell.cell_id, trial.attempt, usage.cost_usd, usage.cost_source.value)

    def _config_yaml(self, condition: Condition) -> bytes:
        if condition.index not in self._yaml:
            dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
            text = yaml.dump(dict(condition.config), Dumper=dumper, sort_keys=False, allow_unicode=True)
            self._yaml[condition.index] = text.encode()
        return self._yaml[condition.index]

    def _register(self, session: Session) -> None:
        with self._mutex:
            self._sessions.add(session)
        if self.cancelled.is_set():
            session.cancel()

    def _forget(self, trial: Trial) -> None:
        with self._mutex:
            self._sessions.difference_update(trial.sessions)

    def _running(self, change: int) -> None:
        with self._mutex:
            self.tally.running += change

    def _account(self, row: Mapping[str, Any]) -> None:
        with self._mutex:
            self.tally.sealed += 1
            self.tally.declared += row["declaration"]["declared_done"]
            self.tally.unscored += row["verdict"]["oracle_verdict"] == OracleVerdict.UNSCORED.value
            self.tally.shipped_bad += row["derived"]["outcome"] == "shipped_bad"


def preflight(adapters: Iterable[Adapters]) -> None:
    """Ask every part whether it can run here. Raises ConfigError with what is missing and the remedy."""
    for part in {id(p): p for a in adapters for p in (a.agent, a.sandbox, a.oracle)}.values():
        problem = part.check()
        if problem:
            raise ConfigError(problem)


def run_facts(plan_hash: str, experiment: str) -> RunFacts:
    """The provenance that every row of a run repeats."""
    git = provenance.git_facts()
    facts = {
        "git_commit": git.commit,
        "git_dirty": git.dirty,
        "dependency_hash": provenance.dependency_hash(),
        "host": provenance.host_facts(),
    }
    return RunFacts(plan_hash, experiment, facts)
