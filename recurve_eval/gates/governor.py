"""The governor: the last look before a declaration, over the whole batch of claims."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from recurve_eval.domain import JSON, Finding, GateVerdict, Task, Turn
from recurve_eval.errors import InfraError
from recurve_eval.gates.adversary import answer_to, usage_of
from recurve_eval.gates.copies import NOT_CLAIMS, differences, listing
from recurve_eval.gates.ledger import HOME, Claim, LedgerError, read_ledger
from recurve_eval.gates.places import Place, SessionPlace, Unjudgeable
from recurve_eval.gates.probes import Case, Examination, Limits
from recurve_eval.gates.prompts import prompt_pins, read_prompt
from recurve_eval.gates.review import Proposal, Reviewer, Unreviewed, challenge, parse_review, review_prompt, try_out
from recurve_eval.gates.snapshot import snapshot
from recurve_eval.ports import GateContext

GREEN, RED, BROKEN = GateVerdict.GREEN, GateVerdict.RED, GateVerdict.BROKEN


@dataclass
class _Memory:
    reviews: int = 0
    vetoes: dict[str, Proposal] = field(default_factory=dict)
    unsubstantiated: list[str] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    mechanical: str = ""


@dataclass
class MechanicalGovernor:
    """Runs every probe and trap again in a fresh checkout, and vetoes claims that drifted since their admission."""

    name: str = "governor"
    binding: bool = True

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def admits(self, task: Task) -> str | None:
        return None

    def prepare(self, context: GateContext) -> None:
        context.record.state[self.name] = _Memory()

    def check(self, context: GateContext) -> Finding:
        started = time.perf_counter()
        verdict, message = guarded_look(self.name, context)
        context.record.governor = {"kind": "mechanical", "veto": message, "review": None}
        facts = dict(context.record.governor)
        return Finding(self.name, verdict, message, self.binding, time.perf_counter() - started, facts)


@dataclass
class ReviewingGovernor(Reviewer):
    """The mechanical look, and one further review of the whole batch by another served model.

    A reviewer's veto stands when it is shown: its counterexample is RED on the work and GREEN on the implementation
    that it holds to be right, and says the same of the work wherever it lies. A veto that is only said is on record
    and stops nothing.
    """

    name: str = "governor"
    binding: bool = True

    def pins(self) -> Mapping[str, JSON]:
        return {"prompts": prompt_pins(("governor",), self.prompts), "reviewer": self.reviewer_pins()}

    def prepare(self, context: GateContext) -> None:
        context.record.state[self.name] = _Memory()

    def check(self, context: GateContext) -> Finding:
        started = time.perf_counter()
        memory: _Memory = context.record.state[self.name]
        verdict, message = guarded_look(self.name, context)
        if verdict is GREEN:
            try:
                verdict, message = self._batch(context, memory)
            except Unjudgeable as error:
                verdict, message = RED, str(error)
            except Unreviewed as error:
                verdict, message = BROKEN, f"BROKEN: {error}"
        facts = self._facts(memory, message)
        context.record.governor = facts
        return Finding(self.name, verdict, message, self.binding, time.perf_counter() - started, facts)

    def _batch(self, context: GateContext, memory: _Memory) -> tuple[GateVerdict, str]:
        standing = self._standing(context, memory)
        if standing or memory.reviews >= self.max_reviews:
            return (RED, standing) if standing else (GREEN, "")
        claims = read_ledger(context.workspace)
        memory.reviews += 1
        with snapshot(context, claims, traps=False) as (place, _):
            template = read_prompt("governor", self.prompts)
            prompt = review_prompt(template, context, claims, _contested(context))
            self._hear(context, memory, prompt, place, claims)
        standing = self._standing(context, memory)
        return (RED, standing) if standing else (GREEN, "")

    def _hear(self, context: GateContext, memory: _Memory, prompt: str, place: Path, claims: Sequence[Claim]) -> None:
        turn = self.consult(context, prompt, place, memory.reviews, memory.turns)
        try:
            review = parse_review(turn.stdout, claims)
        except ValueError as error:
            raise InfraError(f"the reviewer of '{self.name}' gave no review that can be read: {error}") from None
        for proposal in review.proposals:
            tried = try_out(context, proposal, self.name)
            if tried.work is RED and tried.right is GREEN and not (tried.flaky or tried.moved):
                memory.vetoes[proposal.id] = proposal
                challenge(context, self.name, "veto", proposal.claim, proposal.reason)
            else:
                memory.unsubstantiated.append(proposal.reason)
        if review.objects and not review.proposals:
            memory.unsubstantiated.append(review.reason)

    def _standing(self, context: GateContext, memory: _Memory) -> str:
        """The first veto that the work as it stands has not met."""
        for name, proposal in memory.vetoes.items():
            tried = try_out(context, proposal, self.name)
            if tried.work is not GREEN:
                return (
                    f"RED: claim '{proposal.claim}' is vetoed ({name}): {proposal.reason or tried.line}\n{tried.output}"
                )
        return ""

    def _facts(self, memory: _Memory, message: str) -> dict[str, JSON]:
        review = {
            "reviews": memory.reviews, "requested": self.model, "unsubstantiated": memory.unsubstantiated,
            "served": sorted({str(t.model_served) for t in memory.turns}), "usage": usage_of(memory.turns),
            "vetoes": [{"id": n, "claim": p.claim, "reason": p.reason} for n, p in memory.vetoes.items()],
        }  # fmt: skip
        return {"kind": "mechanical_review", "veto": message, "review": review}


def guarded_look(name: str, context: GateContext) -> tuple[GateVerdict, str]:
    """The mechanical look; a veto is put on record as a challenge."""
    try:
        kind, claim, veto = mechanical_look(name, context)
    except LedgerError as error:
        kind, claim, veto = "drift", None, str(error)
    except Unjudgeable as error:
        return RED, str(error)
    if not veto:
        return GREEN, ""
    challenge(context, name, kind, claim, veto)
    return RED, f"RED: the governor vetoes: {veto}"


def mechanical_look(name: str, context: GateContext) -> tuple[str, str | None, str]:
    """Kind, claim and reason of a veto; an empty reason is none. Raises LedgerError, Unjudgeable."""
    now = listing(context.workspace / HOME, NOT_CLAIMS)
    drifted = differences(context.record.state.get("admitted", now), now)
    if drifted:
        return "drift", None, f"claims or probes are not what was admitted: {', '.join(drifted[:5])}"
    claims = read_ledger(context.workspace)
    limits = context.record.state.get("limits", Limits())
    with Examination(partial(_checkout, name, context, claims), limits) as examination:
        for case in _cases(claims):
            run = examination.run(case)
            if run.verdict is not case.want:
                found = f"{run.verdict.value} where {case.want.value} is wanted"
                return "rerun", case.claim.id, f"in a fresh checkout the probe of {case.label} is {found} {run.why}"
    return "", None, ""


@contextmanager
def _checkout(name: str, context: GateContext, claims: Sequence[Claim]) -> Iterator[Place]:
    with snapshot(context, claims, traps=True) as (place, _):
        session = context.open_session(place, name)
        try:
            yield SessionPlace(place, session, context.task.public, context.record.clock, context.record.retried)
        finally:
            session.close()


def _cases(claims: Sequence[Claim]) -> list[Case]:
    return [Case(c) for c in claims] + [Case(c, trap, RED) for c in claims for trap in c.traps]


def _contested(context: GateContext) -> str:
    """What an adversary contested and how the agent answered, for the batch review."""
    lines = []
    for contest in (context.record.adversary or {}).get("contested", []):
        said = answer_to(context, str(contest["id"])) or "nothing"
        lines.append(f"- {contest['id']} ({contest['status']}): {contest['reason']}\n  the author answered: {said}")
    return "\n".join(lines)
