"""One cell, as a list of verbs.

materialize -> prepare -> converse -> close -> capture -> grade -> row. A cell never raises for what
happens inside it: trouble of the machinery seals an ``unscored`` row with its reason. The one
exception is cancellation by the user, which seals nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recurve_eval import bounds, offline
from recurve_eval.budgets import Consumed, exhausted, remaining
from recurve_eval.capture import capture, capture_tree, changed_paths
from recurve_eval.domain import (
    AgentRun,
    Budget,
    CaptureKind,
    Cell,
    CostSource,
    Decision,
    Finding,
    GateVerdict,
    Grade,
    ModelSpec,
    OracleVerdict,
    Phase,
    StopReason,
    Submission,
    Task,
    Turn,
    TurnStatus,
    UnscoredReason,
    Usage,
    is_snapshot,
    refusals,
)  # fmt: skip
from recurve_eval.errors import InfraError, Interrupted, Leak, OracleError
from recurve_eval.evidence import CellFiles
from recurve_eval.oracle.protocol import arrangement
from recurve_eval.plan import Condition
from recurve_eval.ports import (
    Agent,
    Auditor,
    Benchmark,
    Controller,
    GateComponent,
    GateContext,
    GateRecord,
    Guarded,
    Imaged,
    LoopState,
    Offline,
    OracleBackend,
    Proxied,
    Rehoused,
    Sandbox,
    Session,
    TurnRequest,
)  # fmt: skip
from recurve_eval.rounds import Rounds
from recurve_eval.workspace import materialize, remove

NOT_CLAIMS = ("gate.pyz", "answers", ".fixtures")
MAX_CLAIM_BYTES, MAX_CLAIM_FILES = 256 * 1024, 500
UNITS = ("wall_s", "tokens", "usd", "steps")
NEVER_DECIDED = Decision(stop=True, source="none", reason=StopReason.INFRA)


@dataclass(frozen=True)
class Adapters:
    """The instantiated parts of one condition."""

    benchmark: Benchmark
    agent: Agent
    sandbox: Sandbox
    components: tuple[GateComponent, ...]
    controller: Controller
    oracle: OracleBackend
    auditors: tuple[Auditor, ...] = ()


@dataclass
class Trial:
    """What is known of one attempt at a cell, filled in as it goes."""

    cell: Cell
    condition: Condition
    parts: Adapters
    files: CellFiles
    place: Path  # a private directory of this attempt: workspace/ and scratch/
    attempt: int
    cancelled: threading.Event
    task: Task | None = None
    leak_scan: str = "not_run"
    parent: str | None = None  # hash of the parent workspace before the agent started
    turns: list[Turn] = field(default_factory=list)
    begun: int = 0  # turns that were started, reviews included; where one did not end, its cost is unknown
    reviews: list[Turn] = field(default_factory=list)  # turns of reviewing agents, charged to the cell
    record: GateRecord = field(default_factory=GateRecord)
    rounds: Rounds | None = None
    gate_wall_s: float = 0.0
    decision: Decision = NEVER_DECIDED
    run: AgentRun | None = None
    submission: Submission | None = None
    grade: Grade | None = None
    candidate: str | None = None  # whether the submission was graded apart from its tests or shared their process
    image: str | None = None  # that the task was graded in, where it has one of its own
    wall_s: float = 0.0
    on_session: Callable[[Session], Any] = lambda session: None
    sessions: list[Session] = field(default_factory=list)

    def begin_turn(self) -> None:
        self.begun += 1
        self._note_cost()

    def end_turn(self, turn: Turn) -> None:
        self.turns.append(turn)
        self._note_cost()

    def end_review(self, turn: Turn) -> None:
        self.reviews.append(turn)
        self._note_cost()

    @property
    def consumed(self) -> Consumed:
        """What the budget is held against. Reviews count too; their time is part of the gate's."""
        return Consumed([*self.turns, *(replace(r, wall_s=0.0) for r in self.reviews)], self.gate_wall_s)

    @property
    def cost(self) -> tuple[float | None, str]:
        """US dollars of all turns, and where the figure comes from; None as soon as one turn's cost is unknown."""
        ended = [turn.usage for turn in (*self.turns, *self.reviews)]
        if self.begun != len(ended):
            return None, CostSource.UNKNOWN.value
        total = sum(ended[1:], ended[0]) if ended else Usage(cost_usd=0.0)
        return total.cost_usd, total.cost_source.value if total.cost_usd is not None else CostSource.UNKNOWN.value

    def _note_cost(self) -> None:
        if self.condition.paid:
            self.files.cost(self.attempt, *self.cost)

    def register(self, session: Session) -> None:
        """Let a cancellation reach this session."""
        self.sessions.append(session)
        self.on_session(session)

    @property
    def usage(self) -> Usage:
        """What the agent and its reviewers used; unknown where any of it is unknown."""
        used = self.run.usage if self.run is not None and self.run.turns else Usage()
        for review in self.reviews:
            used = used + review.usage
        return used

    @property
    def workspace(self) -> Path:
        return self.place / "workspace"


def run_cell(trial: Trial) -> Trial:
    """Carry one cell through to its grade. Raises Interrupted when the user cancelled it."""
    started = time.perf_counter()
    try:
        _materialize(trial)
        _work(trial)
        _prove_parent(trial)
        _capture(trial)
        _grade(trial)
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a cell seals its trouble, whatever it is
        trial.grade = _trouble(trial, error)
    finally:
        _discard(trial)
        trial.wall_s = time.perf_counter() - started
    if trial.cancelled.is_set() and _was_cut_short(trial):
        raise Interrupted(f"cell {trial.cell.cell_id} was cancelled")
    trial.files.grade(trial.grade)
    return trial


def _discard(trial: Trial) -> None:
    """Remove the attempt's workspace; one that resists is a fact of the machine, not of the work."""
    try:
        remove(trial.place)
    except OSError as error:
        trial.files.text("leftover.txt", f"{trial.place}: {error}\n")


def _was_cut_short(trial: Trial) -> bool:
    """Whether the cancellation touched this cell; one that had its verdict in hand is kept."""
    unscored = trial.grade is None or trial.grade.verdict is OracleVerdict.UNSCORED
    return unscored or trial.decision.reason is StopReason.CANCELLED


def _trouble(trial: Trial, error: BaseException) -> Grade:
    """An unscored grade for whatever the machinery did wrong; the evidence keeps the whole story."""
    reason = UnscoredReason.ORACLE_ERROR if isinstance(error, OracleError) else UnscoredReason.INFRA
    if reason is UnscoredReason.INFRA and trial.run is None:
        trial.decision = NEVER_DECIDED
    with contextlib.suppress(OSError):
        trial.files.text("trouble.txt", "".join(traceback.format_exception(error)))
    return Grade(OracleVerdict.UNSCORED, reason, f"{type(error).__name__}: {error}"[:2000])


def _materialize(trial: Trial) -> None:
    task = trial.task = trial.parts.benchmark.task(trial.cell.at.task_id)
    trial.parent = bounds.parent_of(trial.parts.benchmark)
    remove(trial.place)
    trial.place.mkdir(parents=True, mode=0o700)
    materialize(task, trial.workspace)
    found = trial.parts.benchmark.scanner(task.id).scan(trial.workspace)
    trial.leak_scan = "leak" if found else "clean"
    if found:
        raise Leak(f"task {task.id}: the workspace holds held-out bytes, so no agent was started: {found[0]}")
    trial.files.text("prompt.md", task.statement)


def _prove_parent(trial: Trial) -> None:
    """A world that reached beyond its workspace says nothing of any task. Raises InfraError."""
    if trial.parent is None:
        return
    after = bounds.parent_of(trial.parts.benchmark)
    trial.files.text("parent.json", bounds.parent_proof(trial.parent, after))
    if after != trial.parent:
        raise InfraError("the parent workspace was changed while the agent worked: its world was not held")


def _work(trial: Trial) -> None:
    """The agent and its gate, inside one sandbox session that is gone when this returns."""
    assert trial.task is not None
    scratch = trial.place / "scratch"
    scratch.mkdir(mode=0o700)
    label = f"{trial.files.run_label}.{trial.cell.cell_id}.{trial.attempt}"
    place = offline.as_asked(place_of(trial.parts, trial.task.id), trial.task)
    session = place.open(trial.workspace, scratch, label)
    trial.register(session)
    try:
        rounds = trial.rounds = _rounds(trial, session, label)
        rounds.open()
        _converse(trial, session, rounds)
        rounds.audit()
        for observation in rounds.observations:
            trial.files.observation(observation)
    finally:
        departure = session.close()
        if isinstance(session, Proxied) and (refused := session.refused()):
            trial.files.json("refused-hosts.json", refused)
    trial.run = AgentRun(tuple(trial.turns), departure)


def place_of(parts: Adapters, task_id: str) -> Sandbox:
    """The sandbox of a condition, around the task's own image where it is set so and the task has one."""
    sandbox = parts.sandbox
    if isinstance(sandbox, Rehoused) and sandbox.task_image and isinstance(parts.benchmark, Imaged):
        return sandbox.within(parts.benchmark.image(task_id))
    return sandbox


def _rounds(trial: Trial, session: Session, label: str) -> Rounds:
    sandbox = place_of(trial.parts, trial.cell.at.task_id)
    unplugged = sandbox.offline() if isinstance(sandbox, Offline) else sandbox

    def open_session(workspace: Path, purpose: str) -> Session:
        return _extra_session(trial, unplugged, workspace, f"{label}.{purpose}")

    def consult(agent: Agent, request: TurnRequest, workspace: Path, purpose: str) -> Turn:
        return _consult(trial, agent, request, _extra_session(trial, sandbox, workspace, f"{label}.{purpose}"))

    assert trial.task is not None
    evidence = trial.files.directory("gate")
    context = GateContext(
        trial.task, trial.workspace, session, evidence, open_session, trial.record, trial.turns, consult
    )  # fmt: skip
    parts = trial.parts
    return Rounds(parts.components, parts.auditors, context, lambda f: trial.files.finding(len(trial.turns), f))


def _extra_session(trial: Trial, sandbox: Sandbox, workspace: Path, label: str) -> Session:
    scratch = workspace.parent / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    extra = sandbox.open(workspace, scratch, label)
    trial.register(extra)
    return extra


def _consult(trial: Trial, agent: Agent, request: TurnRequest, session: Session) -> Turn:
    """One turn of a reviewing agent, within what is left of the cell's budget and charged to it."""
    left = remaining(_budget(trial), trial.consumed)
    least = {unit: _tighter(getattr(left, unit), getattr(request.allowance, unit)) for unit in UNITS}
    answers = trial.parts.benchmark.solutions(request.task.id) if agent.simulated else None
    trial.begin_turn()
    try:
        if isinstance(session, Guarded):
            session.guard(read_only=("",))
        allowance, rates = replace(request.allowance, **least), trial.condition.rates(request.model.id)
        turn = agent.run(replace(request, allowance=allowance, rates=rates, answers=answers), session)
    finally:
        session.close()
    turn = _priced(trial, request, turn)
    trial.end_review(turn)
    trial.files.review(len(trial.reviews), request.prompt, turn)
    if turn.trouble:
        raise InfraError(turn.trouble)
    return turn


def _tighter(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _converse(trial: Trial, session: Session, rounds: Rounds) -> None:
    """Turns of the agent and rounds of the gate until the controller stops them."""
    task = rounds.context.task
    budget = bounds.within(_budget(trial), task)
    feedback, cycles = "", dict.fromkeys(Phase, 0)
    while True:
        if trial.cancelled.is_set():
            raise Interrupted(f"cell {trial.cell.cell_id} was cancelled")
        cycles[rounds.phase] += 1
        cycle = cycles[rounds.phase]
        prompt = _prompt(rounds.before(), feedback, task)
        request = _request(trial, task, prompt, cycle, budget)
        turn = _turn(trial, request, session)
        bounds.hold_to_end(task, turn, request.allowance.wall_s)
        trial.files.turn(len(trial.turns), prompt, turn, task.statement)
        _hold_to_model(trial, request, turn)
        findings = _gather(trial, rounds, turn)
        spent, overspent = exhausted(budget, trial.consumed)
        empty = _nothing_to_show(trial, task)
        state = LoopState(
            turn, empty, findings, cycle, budget, spent, overspent, rounds.phase, rounds.author_left, rounds.reopened
        )  # fmt: skip
        trial.decision = trial.parts.controller.decide(state)
        if trial.decision.stop:
            return
        feedback = trial.decision.feedback
        rounds.advance(findings)


def _prompt(opening: str, feedback: str, task: Task) -> str:
    """Instructions of the phase, the last refusal, and the statement, which always stands last."""
    lead = "\n".join(text for text in (f"{opening}\n" if opening else "", feedback) if text)
    return f"{lead}\n{task.statement}" if lead else task.statement


def _request(trial: Trial, task: Task, prompt: str, cycle: int, budget: Budget) -> TurnRequest:
    model = ModelSpec(**trial.condition.config["model"])
    answers = trial.parts.benchmark.solutions(task.id) if trial.parts.agent.simulated else None
    stream = int(trial.condition.config["arm"]["stream"])
    return TurnRequest(
        prompt, task, model, trial.cell.at.seed, cycle, remaining(budget, trial.consumed), answers, stream,
        trial.record.phase, trial.condition.rates(model.id),
    )  # fmt: skip


def _budget(trial: Trial) -> Budget:
    return Budget(**trial.condition.config["budget"]).binding


def _turn(trial: Trial, request: TurnRequest, session: Session) -> Turn:
    """One turn of the agent, on record before and after, so that no crash can hide what it cost."""
    trial.begin_turn()
    turn = _priced(trial, request, trial.parts.agent.run(request, session))
    trial.end_turn(turn)
    return turn


def _hold_to_model(trial: Trial, request: TurnRequest, turn: Turn) -> None:
    """Raises InfraError where the endpoint failed, or the arm requires the asked model and another one served."""
    if turn.trouble:
        raise InfraError(turn.trouble)
    required = trial.condition.config["arm"]["require_model"]
    if required and not is_snapshot(request.model.id, turn.model_served):
        served = turn.model_served or "a model that the agent does not name"
        raise InfraError(f"model '{request.model.id}' was asked for and {served} served (arm.require_model)")


def _priced(trial: Trial, request: TurnRequest, turn: Turn) -> Turn:
    """A cost that is not reported comes from the price list, for the model that served and not the one asked for."""
    rates = trial.condition.rates(turn.model_served or request.model.id) if trial.condition.paid else None
    return replace(turn, usage=rates.priced(turn.usage)) if rates else turn


def _gather(trial: Trial, rounds: Rounds, turn: Turn) -> tuple[Finding, ...]:
    started = time.perf_counter()
    rounds.after()
    judged = turn.status is TurnStatus.COMPLETED and trial.parts.controller.runs_gate
    findings = rounds.judge() if judged else ()
    trial.gate_wall_s += time.perf_counter() - started
    return findings


def _nothing_to_show(trial: Trial, task: Task) -> bool:
    """Whether the capture paths hold nothing; asked of the living workspace only to read a self-report."""
    if task.capture.kind is CaptureKind.DIFF:
        return not changed_paths(trial.workspace, task.public, task.capture)
    for path in task.capture.paths:
        try:
            if (trial.workspace / path).lstat().st_size > 0:
                return False
        except OSError:
            continue
    return True


def _capture(trial: Trial) -> None:
    assert trial.task is not None and trial.run is not None
    if trial.cancelled.is_set():
        raise Interrupted(f"cell {trial.cell.cell_id} was cancelled")
    trial.submission = capture(trial.run, trial.workspace, trial.task.capture, trial.task.public)
    trial.files.submission(trial.submission, trial.task.public)
    trial.files.claims(capture_tree(trial.workspace, ".recurve", NOT_CLAIMS, MAX_CLAIM_BYTES, MAX_CLAIM_FILES))


def _grade(trial: Trial) -> None:
    assert trial.task is not None and trial.submission is not None
    job = trial.parts.benchmark.oracle_job(trial.task.id, trial.submission)
    trial.candidate = arrangement(job)
    trial.image = job.image
    trial.grade = trial.parts.oracle.grade(job)


def gate_outcome(trial: Trial) -> str:
    """The last round's verdict over binding findings: GREEN, RED, BROKEN, or none where no gate ran."""
    if trial.rounds is None or not trial.rounds.findings:
        return "none"
    verdicts = {f.verdict for f in trial.rounds.findings[-1] if f.binding}
    for worst in (GateVerdict.BROKEN, GateVerdict.RED):
        if worst in verdicts:
            return worst.value
    return GateVerdict.GREEN.value


def declared(trial: Trial) -> bool:
    """A declaration counts only from a run that completed; what it left, if anything, is then graded."""
    return trial.decision.declared and trial.run is not None and trial.run.completed


def rejections(trial: Trial) -> int:
    """Rounds in which a binding component refused the work; refused claims are no rejection of work."""
    rounds = trial.rounds.findings if trial.rounds is not None else []
    return sum(bool(refusals([f for f in r if f.phase is Phase.SCULPT])) for r in rounds)
