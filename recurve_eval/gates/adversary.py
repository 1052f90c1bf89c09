"""The adversary: a second model that tries to show, by running it, that a claim lets wrong work through."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recurve_eval.capture import capture_file
from recurve_eval.domain import JSON, Finding, GateVerdict, Turn, Usage, digest
from recurve_eval.errors import InfraError
from recurve_eval.gates.boundary import ANSWERS
from recurve_eval.gates.copies import MAX_COPY_BYTES, listing
from recurve_eval.gates.ledger import HOME, Claim, LedgerError, read_ledger
from recurve_eval.gates.places import Unjudgeable
from recurve_eval.gates.prompts import prompt_pins, read_prompt
from recurve_eval.gates.review import (
    Proposal,
    Review,
    Reviewer,
    Trial,
    Unreviewed,
    challenge,
    parse_review,
    review_prompt,
    try_out,
)  # fmt: skip
from recurve_eval.gates.snapshot import snapshot
from recurve_eval.ports import GateContext

MAX_ANSWER_BYTES = 4096
GREEN, RED, BROKEN = GateVerdict.GREEN, GateVerdict.RED, GateVerdict.BROKEN


@dataclass
class _Memory:
    """What an adversary remembers of one cell."""

    reviewed: set[str] = field(default_factory=set)  # digests of the work that has been reviewed
    reviews: int = 0
    contests: dict[str, Proposal] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)  # of each contest: open, answered, repaired
    captured: dict[str, Proposal] = field(default_factory=dict)
    discarded: list[dict[str, JSON]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@dataclass
class Adversary(Reviewer):
    """Reviews work that is GREEN so far, in a snapshot without traps.

    The capture rule decides, not the reviewer: a counterexample that is GREEN on the work and RED on its wrong
    implementation is captured as a further check and trap; one that is RED on the work contests the claim, and the
    gate is BROKEN until the agent mends the work or answers in ``.recurve/answers/``. All else is discarded.
    """

    name: str = "adversary"
    binding: bool = True

    def pins(self) -> Mapping[str, JSON]:
        return {"prompts": prompt_pins(("adversary",), self.prompts), "reviewer": self.reviewer_pins()}

    def prepare(self, context: GateContext) -> None:
        context.record.state[self.name] = _Memory()

    def check(self, context: GateContext) -> Finding:
        started = time.perf_counter()
        memory: _Memory = context.record.state[self.name]
        try:
            claims = read_ledger(context.workspace)
            verdict, message = self._standing(context, memory)
            if verdict is GREEN and self._due(context, memory):
                self._review(context, memory, claims)
                verdict, message = self._standing(context, memory)
        except (LedgerError, Unreviewed) as error:
            verdict, message = BROKEN, f"BROKEN: {error}"
        except Unjudgeable as error:
            verdict, message = RED, str(error)
        facts = self._facts(memory, completed=verdict is GREEN)
        context.record.adversary = facts
        return Finding(self.name, verdict, message, self.binding, time.perf_counter() - started, facts)

    def _due(self, context: GateContext, memory: _Memory) -> bool:
        return memory.reviews < self.max_reviews and _work_digest(context) not in memory.reviewed

    def _review(self, context: GateContext, memory: _Memory, claims: Sequence[Claim]) -> None:
        template = read_prompt("adversary", self.prompts)
        memory.reviewed.add(_work_digest(context))
        memory.reviews += 1
        with snapshot(context, claims, traps=False) as (place, commit):
            prompt = review_prompt(template, context, claims, "\n".join(memory.status))
            review = self._answer(context, memory, prompt, place, claims)
        memory.said.append("object" if review.objects else "agree")
        (context.evidence / f"{self.name}-{memory.reviews}.commit").write_text(f"{commit}\n")
        for proposal in review.proposals:
            self._weigh(context, memory, proposal)

    def _answer(
        self, context: GateContext, memory: _Memory, prompt: str, place: Path, claims: Sequence[Claim]
    ) -> Review:
        """A review that can be read; a reviewer has two tries. Raises InfraError: an unread review is no review."""
        problem = ""
        for _ in range(2):
            turn = self.consult(context, f"{prompt}\n{problem}", place, memory.reviews, memory.turns)
            try:
                return parse_review(turn.stdout, claims)
            except ValueError as error:
                problem = f"Your last answer could not be read: {error}"
        raise InfraError(f"the reviewer of '{self.name}' gave no review that can be read: {problem}")

    def _weigh(self, context: GateContext, memory: _Memory, proposal: Proposal) -> None:
        """The capture rule."""
        if proposal.id in memory.contests or proposal.id in memory.captured:
            return
        tried = try_out(context, proposal, self.name)
        why = worthless(context, proposal, tried)
        if why:
            memory.discarded.append({"id": proposal.id, "claim": proposal.claim, "why": why})
        elif tried.work is RED:
            memory.contests[proposal.id] = proposal
            memory.status[proposal.id] = "open"
            challenge(context, self.name, "contested", proposal.claim, proposal.reason)
        else:
            memory.captured[proposal.id] = proposal
            context.record.traps += 1
            challenge(context, self.name, "captured", proposal.claim, proposal.reason)

    def _standing(self, context: GateContext, memory: _Memory) -> tuple[GateVerdict, str]:
        """The verdict of what has been captured and contested so far on the work as it stands."""
        for name, proposal in memory.captured.items():
            tried = try_out(context, proposal, self.name)
            if tried.flaky or tried.work is not GREEN or tried.wrong is not RED:
                return (
                    RED,
                    f"RED: claim '{proposal.claim}': the captured check {name} says: {tried.line}\n{tried.output}",
                )
        for name, proposal in memory.contests.items():
            tried = try_out(context, proposal, self.name)
            if tried.work is GREEN and not tried.flaky:
                memory.status[name] = "repaired"
            elif answer_to(context, name):
                memory.status[name] = "answered"
            else:
                memory.status[name] = "open"
                return BROKEN, _contest(name, proposal, tried)
        return GREEN, ""

    def _facts(self, memory: _Memory, *, completed: bool) -> dict[str, JSON]:
        return {
            "completed": completed and memory.reviews > 0, "cross_model": self.cross_model, "reviews": memory.reviews,
            "requested": self.model, "served": sorted({str(t.model_served) for t in memory.turns}), "said": memory.said,
            "captured": [_told(p) for p in memory.captured.values()],
            "contested": [{**_told(p), "status": memory.status[n]} for n, p in memory.contests.items()],
            "discarded": memory.discarded, "usage": usage_of(memory.turns),
        }  # fmt: skip


def worthless(context: GateContext, proposal: Proposal, tried: Trial) -> str:
    """Why a counterexample shows nothing, or nothing where it shows something."""
    if tried.flaky:
        return "it does not repeat"
    if BROKEN in (tried.work, tried.wrong):
        return "it cannot judge"
    if tried.work is GREEN and proposal.wrong and _is_work(context, proposal.wrong):
        return "its wrong implementation is the work itself"
    if tried.moved:
        return "it judges the same work differently where it lies elsewhere"
    if tried.work is RED:
        return ""
    if tried.wrong is None:
        return "it comes without a wrong implementation"
    return "" if tried.wrong is RED else "it accepts its own wrong implementation"


def _is_work(context: GateContext, files: Mapping[str, bytes]) -> bool:
    return all(_bytes(context, path) == content for path, content in files.items())


def _bytes(context: GateContext, path: str) -> bytes | None:
    return capture_file(context.workspace, path, MAX_COPY_BYTES).content


def answer_to(context: GateContext, name: str) -> str:
    """What the agent answered to a contest; empty where it did not. No link is followed."""
    said = capture_file(context.workspace, f"{ANSWERS}/{name}", MAX_ANSWER_BYTES).content or b""
    return said.decode("utf-8", "replace").strip()


def _contest(name: str, proposal: Proposal, tried: Trial) -> str:
    return (
        f"BROKEN: claim '{proposal.claim}' is contested ({name}): {proposal.reason or tried.line}\n"
        f"{tried.output}\nMend the work, or say in {ANSWERS}/{name} why the reviewer is wrong."
    )


def _told(proposal: Proposal) -> dict[str, JSON]:
    return {"id": proposal.id, "claim": proposal.claim, "reason": proposal.reason}


def _work_digest(context: GateContext) -> str:
    return digest(listing(context.workspace, frozenset({HOME, ".git"})))


def usage_of(turns: Sequence[Turn]) -> dict[str, JSON]:
    """What the reviewer used, apart from the cell's total; unknown is null."""
    total: Usage | None = None
    for turn in turns:
        total = turn.usage if total is None else total + turn.usage
    if total is None:
        return {"tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0}
    return {"tokens_in": total.tokens_in, "tokens_out": total.tokens_out, "cost_usd": total.cost_usd}
