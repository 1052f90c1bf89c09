"""Claims and probes: the agent says what its work will do, and how that is found out, before it does the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recurve_eval.domain import JSON, Finding, GateVerdict, Phase, Task
from recurve_eval.errors import ConfigError
from recurve_eval.gates.bundle import gate_program
from recurve_eval.gates.copies import NOT_CLAIMS, listing
from recurve_eval.gates.ledger import HOME, Claim, LedgerError, missing_parts, read_ledger
from recurve_eval.gates.places import OpenPlace, Unjudgeable, session_place
from recurve_eval.gates.probes import Case, Judgement, Limits, judge
from recurve_eval.gates.prompts import prompt_pins, read_prompt
from recurve_eval.ports import GateContext

PROGRAM = f"{HOME}/gate.pyz"


@dataclass
class Claims:
    """Opens the author phase, and holds the work against the claims' probes afterwards.

    Attributes
    ----------
    author_turns : int
        Turns that the agent has to bring its claims to admission.
    timeout_s : float
        Seconds a probe may take before it is asked once more, then BROKEN; a claim may ask for less.
    max_feedback_bytes : int
        How much of a probe's output a rejection carries.
    prompts : str
        Directory of the templates ``author.md`` and ``sculpt.md``; empty for the shipped ones.
    """

    name: str = "claims"
    author_turns: int = 2
    timeout_s: float = 20.0
    max_feedback_bytes: int = 2048
    binding: bool = True
    prompts: str = ""

    def __post_init__(self) -> None:
        if self.author_turns < 1:
            raise ConfigError(f"gate.checks.author_turns must be at least 1; got {self.author_turns}")
        if self.timeout_s <= 0:
            raise ConfigError(f"gate.checks.timeout_s must be positive; got {self.timeout_s}")
        if self.max_feedback_bytes < 0:
            raise ConfigError(f"gate.checks.max_feedback_bytes must not be negative; got {self.max_feedback_bytes}")

    @property
    def limits(self) -> Limits:
        return Limits(self.timeout_s, self.max_feedback_bytes)

    def pins(self) -> Mapping[str, JSON]:
        return {"prompts": prompt_pins(("author", "sculpt"), self.prompts)}

    def admits(self, task: Task) -> str | None:
        if any(path.split("/")[0] == HOME for path in (*task.public, *task.capture.paths)):
            return f"task {task.id} has files in {HOME}/, which belongs to the gate"
        return None

    def prepare(self, context: GateContext) -> None:
        """Give the claims a home, with the gate itself in it, so that the agent can run what will judge it."""
        (context.workspace / HOME).mkdir(exist_ok=True)
        (context.workspace / PROGRAM).write_bytes(gate_program())
        context.record.state["limits"] = self.limits

    def before(self, context: GateContext) -> str:
        return read_prompt("author" if context.record.phase is Phase.AUTHOR else "sculpt", self.prompts)

    def after(self, context: GateContext) -> None:
        pass

    def admit(self, context: GateContext) -> Finding:
        """GREEN when the ledger is well formed and everything it names is there."""
        started = time.perf_counter()
        problem = ""
        try:
            claims = read_ledger(context.workspace)
            problem = "\n".join(missing_parts(context.workspace, claims))
            context.record.claims = len(claims)
            context.record.traps = sum(len(c.traps) for c in claims)
        except LedgerError as error:
            problem = str(error)
        context.record.state["admitted"] = listing(context.workspace / HOME, NOT_CLAIMS)
        verdict = GateVerdict.BROKEN if problem else GateVerdict.GREEN
        context.record.admission = {"admitted": not problem, "by": self.name, "why": problem}
        wall = time.perf_counter() - started
        return Finding(self.name, verdict, problem, self.binding, wall, {"why": problem}, Phase.AUTHOR)

    def check(self, context: GateContext) -> Finding:
        """GREEN when every probe is GREEN on the work, twice."""
        return examined(self.name, self.binding, context, lambda claims: [Case(c) for c in claims])


CasesOf = Callable[[tuple[Claim, ...]], list[Case]]


def examined(
    name: str, binding: bool, context: GateContext, cases_of: CasesOf, phase: Phase = Phase.SCULPT
) -> Finding:  # fmt: skip
    """The finding over the cases that ``cases_of(claims)`` gives; flakes go on record.

    In the author phase the cases are judged over the untouched work, whatever the workspace holds by now.
    """
    started = time.perf_counter()
    judgement = _judged(name, context, cases_of, phase)
    context.record.flakes += judgement.flakes
    wall = time.perf_counter() - started
    return Finding(name, judgement.verdict, judgement.message, binding, wall, judgement.facts, phase)


def _judged(name: str, context: GateContext, cases_of: CasesOf, phase: Phase) -> Judgement:
    try:
        claims = read_ledger(context.workspace)
        lacking = next(missing_parts(context.workspace, claims), None)
        if lacking:
            return Judgement(GateVerdict.BROKEN, f"BROKEN: {lacking}")
        return judge(places_of(context, name, phase), cases_of(claims), context.record.state["limits"])
    except LedgerError as error:
        return Judgement(GateVerdict.BROKEN, f"BROKEN: {error}")
    except Unjudgeable as error:
        return Judgement(GateVerdict.RED, str(error))


def places_of(context: GateContext, label: str, phase: Phase = Phase.SCULPT) -> OpenPlace:
    """Fresh copies in the agent's sandbox, one a call: of the work, or (author) of the work as it was given."""
    return lambda: session_place(context, label, untouched=phase is Phase.AUTHOR)
