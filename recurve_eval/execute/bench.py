"""What it takes to run and seal one cell of a frozen plan, in whichever process a launcher put it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recurve_eval import provenance
from recurve_eval.cell import Adapters, Trial, run_cell
from recurve_eval.domain import JSON, Cell, OracleEnv, digest
from recurve_eval.errors import ConfigError, InfraError, SpendRefused
from recurve_eval.events import Events
from recurve_eval.evidence import CellFiles
from recurve_eval.ledger import Ledger
from recurve_eval.plan import Condition, readable_yaml
from recurve_eval.ports import Agent, Command, OracleBackend, Programmed, Sandbox, Session
from recurve_eval.results import RunFacts, row_of
from recurve_eval.spend import SpendLedger
from recurve_eval.study import reviewing
from recurve_eval.workspace import remove

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

    def recount(self, counts: Mapping[str, int]) -> None:
        """Take the counts that a ledger states, in whichever process its rows were sealed."""
        self.sealed = counts["sealed"] - self.sealed_before
        self.declared, self.shipped_bad = counts["declared"], counts["shipped_bad"]
        self.unscored = counts["unscored"]


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
        self._freed = threading.Condition()
        self._reserving = 0  # cells of this process whose money is set aside and not settled

    def open(self) -> None:
        """Open the ledgers. Raises Refused where the directory cannot be written."""
        self.events = Events(self.dir)
        self.ledger = Ledger(self.dir, self.facts.plan_hash)
        self.spend = SpendLedger(self.dir, self.max_usd)

    @property
    def family(self) -> str:
        """Opens the label of every process that a run in this directory starts."""
        return f"{LABEL}{digest([self.facts.plan_hash, str(self.dir.resolve())])[:12]}"

    @property
    def label(self) -> str:
        """Marks what the cells of this process start: ``recurve-<run directory>-<pid of the harness>``."""
        return f"{self.family}-{os.getpid()}"

    @property
    def scratch_root(self) -> Path:
        """Where workspaces live while their cells run: outside the results, so nothing is beside them."""
        return Path(tempfile.gettempdir()) / self.label

    @property
    def backends(self) -> list[OracleBackend]:
        return list({id(a.oracle): a.oracle for a in self.adapters.values()}.values())

    def start(self, workers: int) -> None:
        """Warm the graders. That every part can run here is what :func:`preflight` finds out, once."""
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
        try:
            attempt = files.begin(self._config_yaml(condition))
            if condition.paid:
                files.cost(attempt, 0.0, "not_started")
        except OSError as error:
            raise InfraError(f"cannot write {files.root}: {error.strerror}") from error
        self._reserve(cell, attempt, condition.ceiling_usd or 0.0)
        trial = Trial(
            cell, condition, self.adapters[cell.condition], files, self.scratch_root / cell.cell_id, attempt,
            self.cancelled, on_session=self._register,
        )  # fmt: skip
        self._running(+1)
        try:
            row = row_of(run_cell(trial), self.facts, self.envs[cell.condition])
            self.ledger.seal(row)
            for event in row["gate"]["challenge_events"]:
                self.events.append("challenge_event", cell_id=cell.cell_id, challenge=event)
        except OSError as error:
            raise InfraError(f"cannot write {error.filename or self.dir}: {error.strerror}") from error
        finally:
            self._running(-1)
            self._forget(trial)
            self._settle(trial)
        self._account()
        return row

    def _reserve(self, cell: Cell, attempt: int, usd: float) -> None:
        """Set money aside. Where cells under way may still give some back, wait for them before refusing.

        Raises SpendRefused when nothing is under way any more and the authority does not cover the cell.
        """
        while True:
            with self._freed:
                waiting = self._reserving
                try:
                    self.spend.reserve(cell.cell_id, attempt, usd)
                    self._reserving += 1
                    return
                except SpendRefused:
                    if not waiting or self.cancelled.is_set():
                        raise
                    self._freed.wait(1.0)

    def _settle(self, trial: Trial) -> None:
        try:
            if trial.condition.paid:
                usd, source = trial.cost
                self.spend.settle(trial.cell.cell_id, trial.attempt, usd, source)
        finally:
            with self._freed:
                self._reserving -= 1
                self._freed.notify_all()

    def _config_yaml(self, condition: Condition) -> bytes:
        if condition.index not in self._yaml:
            self._yaml[condition.index] = readable_yaml(dict(condition.config)).encode()
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

    def _account(self) -> None:
        with self._mutex:
            self.tally.recount(self.ledger.counts())


def preflight(adapters: Collection[Adapters]) -> None:
    """Ask every part whether it can run here. Raises ConfigError with what is missing and the remedy."""
    for part in {id(p): p for a in adapters for p in _parts(a)}.values():
        problem = part.check()
        if problem:
            raise ConfigError(problem)
    used = [(agent, a.sandbox) for a in adapters for agent in (a.agent, *(r.agent for r in reviewing(a)))]
    for agent, sandbox in {(id(agent), id(sandbox)): (agent, sandbox) for agent, sandbox in used}.values():
        _find_program(agent, sandbox)


def _parts(adapters: Adapters) -> list[Agent | Sandbox | OracleBackend]:
    return [adapters.agent, adapters.sandbox, adapters.oracle, *(r.agent for r in reviewing(adapters))]


def _find_program(agent: Agent, sandbox: Sandbox) -> None:
    """A program that the host has and the sandbox hides would look like an agent that fails."""
    program = agent.program() if isinstance(agent, Programmed) else None
    if program is None:
        return
    with tempfile.TemporaryDirectory(prefix=f"{LABEL}look-") as name:
        place = Path(name)
        (place / "workspace").mkdir()
        (place / "scratch").mkdir()
        session = sandbox.open(place / "workspace", place / "scratch", f"{LABEL}look-{os.getpid()}.0.0")
        try:
            look = ("sh", "-c", 'command -v -- "$0"', program)
            found = session.run(Command(look, timeout_s=30)).exit_code == 0
        finally:
            session.close()
            remove(place / "workspace")
            remove(place / "scratch")
    if not found:
        raise ConfigError(
            f"agent '{agent.name}': '{program}' is not to be found inside sandbox '{sandbox.name}': let the sandbox "
            "show its directory (sandbox.read_only=[DIR]), or choose another sandbox"
        )


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
