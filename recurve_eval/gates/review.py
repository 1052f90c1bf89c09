"""A reviewing model: who it is, what it says, and what its counterexamples are worth when they are run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from recurve_eval.capture import check_relative
from recurve_eval.domain import JSON, Budget, GateVerdict, ModelSpec, Task, Turn, TurnStatus, digest
from recurve_eval.errors import ConfigError, InfraError
from recurve_eval.gates.copies import copy_work, lay
from recurve_eval.gates.ledger import FIXTURES, HOME, Claim
from recurve_eval.gates.places import Place, session_place
from recurve_eval.gates.probes import Case, Examination, Limits
from recurve_eval.gates.prompts import fill
from recurve_eval.ports import Agent, GateContext, TurnRequest
from recurve_eval.tiers import tier_of

MAX_PROPOSALS = 8
MAX_PROPOSAL_BYTES = 64 * 1024
GREEN, RED, BROKEN = GateVerdict.GREEN, GateVerdict.RED, GateVerdict.BROKEN


class Unreviewed(Exception):
    """The cell's budget left no room for the review."""


@dataclass
class Reviewer:
    """What every reviewing component is configured with.

    Attributes
    ----------
    reviewer : an agent (a node with ``_target_``)
        The program that reviews: prompt on stdin, the snapshot as its working directory, a JSON review on stdout.
    model : str
        The model that is asked for; who served is read from the response's metadata.
    cross_model : bool
        Whether the served model must differ from every model that served the author.
    max_reviews : int
        Reviews in one cell; another follows when the work has changed.
    wall_s, tokens, usd : bounds of one review; null leaves tokens or dollars to the cell's own budget.
    prompts : directory of the prompt's template; empty for the shipped one.
    """

    name: str = "reviewer"
    reviewer: Any = None
    model: str = ""
    cross_model: bool = True
    max_reviews: int = 2
    wall_s: float = 300.0
    tokens: int | None = None
    usd: float | None = None
    prompts: str = ""

    @property
    def agent(self) -> Agent:
        if not isinstance(self.reviewer, Agent):
            raise ConfigError(f"gate component '{self.name}' has no reviewer: name one with reviewer._target_")
        return self.reviewer

    @property
    def paid(self) -> bool:
        return self.agent.paid

    def admits(self, task: Task) -> str | None:
        return None

    def reviewer_pins(self) -> dict[str, JSON]:
        agent = self.agent
        return {"agent": agent.name, "agent_pins": dict(agent.pins()), "model": self.model, "paid": agent.paid}

    def suits(self, model: ModelSpec, simulated: bool) -> str | None:
        """At plan time: why this reviewer cannot review that model's work, or None."""
        agent = self.agent
        if agent.simulated and not simulated:
            return f"'{self.name}' has a simulated reviewer for a real agent: choose a real one (reviewer._target_)"
        asked = self.model or str(getattr(agent, "served", ""))
        if self.cross_model and not asked:
            return f"'{self.name}' needs a second model: set its model"
        if self.cross_model and same_model(asked, model.id or model.name):
            return f"'{self.name}' asks for '{asked}', the author's own model: a second identity is needed"
        return None

    def consult(self, context: GateContext, prompt: str, place: Path, round_: int, turns: list[Turn]) -> Turn:
        """One review, added to ``turns``, its author's identity verified.

        Raises Unreviewed where the cell's budget ended it, InfraError where there was none, or by the same model.
        """
        spec = ModelSpec(self.model or self.agent.name, self.model, self.agent.simulated)
        bound = Budget(self.name, self.wall_s, self.tokens, self.usd)
        request = TurnRequest(prompt, context.task, spec, 0, round_, bound)
        turn: Turn = context.consult(self.agent, request, place, self.name)
        turns.append(turn)
        context.record.clock["reviews"] = context.record.clock.get("reviews", 0.0) + turn.wall_s
        if self._cut_by_the_cell(turn):
            raise Unreviewed(f"the review by '{self.name}' did not end within what was left of the budget")
        if turn.status is not TurnStatus.COMPLETED:
            raise InfraError(f"the reviewer of '{self.name}' did not review: its turn is {turn.status.value}")
        self._verify(turn, context)
        return turn

    def _cut_by_the_cell(self, turn: Turn) -> bool:
        """Whether the cell's budget ended a review, and not the reviewer's own bounds."""
        if turn.status is TurnStatus.TIMED_OUT:
            return turn.wall_s < self.wall_s
        if turn.status is not TurnStatus.STOPPED:
            return False
        own, used = {"tokens": (self.tokens, turn.usage.tokens), "usd": (self.usd, turn.usage.cost_usd)}.get(
            turn.stopped_by or "", (None, None)
        )
        return own is None or (used is not None and used < own)

    def _verify(self, turn: Turn, context: GateContext) -> None:
        if not self.cross_model:
            return
        if not turn.model_served:
            raise InfraError(f"'{self.name}': the reviewer's metadata do not say which model served")
        authors = {t.model_served for t in context.turns}
        if None in authors:
            raise InfraError(f"'{self.name}': the author's metadata do not say which model served")
        for author in authors:
            if same_model(turn.model_served, author or ""):
                raise InfraError(
                    f"'{self.name}': model '{turn.model_served}' served the review and the work alike, "
                    f"although '{self.model}' was asked for: this is no second identity"
                )


def same_model(one: str, other: str) -> bool:
    """Whether two names may stand for one model: a provider's prefix, a date or ``latest`` make no other model.

    For what must differ; where the asked model must have served, :func:`recurve_eval.domain.is_snapshot` is strict.
    """
    return _plain(one) == _plain(other)


def _plain(name: str) -> str:
    return re.sub(r"([-@:_](20\d{6}|20\d\d-\d\d-\d\d|latest))+$", "", name.strip().lower().rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class Proposal:
    """A counterexample: a probe, a wrong implementation that it rejects, and a right one that it accepts."""

    claim: str
    reason: str
    probe: str
    wrong: Mapping[str, bytes] = field(default_factory=dict)
    right: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def id(self) -> str:
        kept = [sorted((k, v.hex()) for k, v in files.items()) for files in (self.wrong, self.right)]
        return f"{self.claim}-{digest([self.probe, *kept])[:8]}"


@dataclass(frozen=True, slots=True)
class Review:
    """A parsed review. ``objects`` is what the reviewer says; what follows from it is found out by running it."""

    objects: bool
    reason: str
    proposals: tuple[Proposal, ...]


def parse_review(said: bytes, claims: Iterable[Claim]) -> Review:
    """The last JSON object of a reviewer's output. Raises ValueError with what is wrong with it."""
    found = _last_object(said.decode("utf-8", "replace"))
    if found is None or found.get("verdict") not in ("agree", "object"):
        raise ValueError("no JSON object with a verdict of 'agree' or 'object'")
    raw = found.get("proposals") or []
    if not isinstance(raw, list):
        raise ValueError("'proposals' is not a list")
    known = {c.id for c in claims}
    proposals = tuple(_proposal(item, known) for item in raw[:MAX_PROPOSALS])
    return Review(found["verdict"] == "object", str(found.get("reason") or "")[:400], proposals)


def _last_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    best: dict[str, Any] | None = None
    index = text.find("{")
    while index >= 0:
        try:
            value, end = decoder.raw_decode(text, index)
        except (ValueError, RecursionError):
            end = index + 1
        else:
            best = value if isinstance(value, dict) and "verdict" in value else best
        index = text.find("{", end)
    return best


def _proposal(item: Any, known: set[str]) -> Proposal:
    if not isinstance(item, dict) or len(json.dumps(item)) > MAX_PROPOSAL_BYTES:
        raise ValueError("a proposal is not an object of reasonable size")
    if item.get("claim") not in known:
        raise ValueError(f"a proposal names the claim {item.get('claim')!r}. Known: {', '.join(sorted(known))}")
    probe = item.get("probe")
    if not isinstance(probe, str) or not probe.strip():
        raise ValueError("a proposal has no executable probe")
    files = {key: _files(item.get(key) or {}) for key in ("wrong", "right")}
    return Proposal(item["claim"], " ".join(str(item.get("reason") or "").split())[:400], probe, **files)


def _files(value: Any) -> dict[str, bytes]:
    if not isinstance(value, dict):
        raise ValueError("an implementation is not an object of path and text")
    for path, content in value.items():
        check_relative(path, "a proposal")
        if not isinstance(content, str) or path.split("/")[0] == HOME:
            raise ValueError(f"an implementation may not hold {path}")
    return {path: content.encode() for path, content in value.items()}


@dataclass(frozen=True, slots=True)
class Trial:
    """What a counterexample said of the work, of its wrong implementation and of its right one (None: not given).

    ``moved`` says that it gave another verdict on the same work laid down as a fixture: it judges how it is asked.
    ``hung`` says that it timed out twice on the work, and was asked nothing after that.
    """

    work: GateVerdict
    wrong: GateVerdict | None
    right: GateVerdict | None
    line: str = ""
    output: str = ""
    flaky: bool = False
    moved: bool = False
    hung: bool = False


def try_out(context: GateContext, proposal: Proposal, label: str) -> Trial:
    """Run a counterexample, twice; the two runs must agree. Raises Unjudgeable.

    One that is BROKEN on the work shows nothing, whatever it says of the rest or another time: nobody contests,
    captures, vetoes or takes back by it. So one that hangs there ends the trial, and does not hang on all the rest.
    """
    limits = context.record.state.get("limits", Limits())
    results = []
    for _ in range(2):
        with Examination(partial(session_place, context, label), limits) as examination:
            results.append(_once(examination, proposal))
        if results[-1].hung:
            break
    first, again = results[0], results[-1]
    asked = ("work",) if again.hung else ("work", "wrong", "right")
    return replace(first, flaky=any(getattr(first, name) is not getattr(again, name) for name in asked))


_SCRIPT, _WRONG, _RIGHT, _WORK = (f"{FIXTURES}/{name}" for name in ("counterexample", "wrong", "right", "work"))


def _once(examination: Examination, proposal: Proposal) -> Trial:
    words = (f"./{_SCRIPT}",) if proposal.probe.startswith("#!") else ("{python}", _SCRIPT)
    claim = Claim(proposal.claim, proposal.reason, words)
    with examination.beside(partial(_lay_out, proposal)):
        work = examination.run(Case(claim))
        if work.timed_out:
            return Trial(work.verdict, None, None, work.line, work.output, hung=True)
        return Trial(
            work.verdict,
            examination.run(Case(claim, _WRONG)).verdict if proposal.wrong else None,
            examination.run(Case(claim, _RIGHT)).verdict if proposal.right else None,
            work.line, work.output, moved=examination.run(Case(claim, _WORK)).verdict is not work.verdict,
        )  # fmt: skip


def _lay_out(proposal: Proposal, place: Place) -> None:
    """Lay a counterexample down, what it comes with, and the work itself as a fixture."""
    lay(place.root, {_SCRIPT: proposal.probe.encode()})
    for path, files in ((_WRONG, proposal.wrong), (_RIGHT, proposal.right)):
        lay(place.root / path, files)
    (place.root / _WORK).mkdir()
    copy_work(place.root, place.root / _WORK)


def review_prompt(template: str, context: GateContext, claims: Iterable[Claim], more: str = "") -> str:
    """The reviewer's prompt: the statement and the claims."""
    listed = "\n".join(f"- {c.id}: {c.proposition} (probe: {' '.join(c.probe)})" for c in claims)
    return fill(template, {"statement": context.task.statement, "claims": listed, "contested": more or "none"})


def challenge(context: GateContext, by: str, kind: str, claim: str | None, reason: str) -> None:
    """Put one challenge on record, with the tier that the claims hold at this moment."""
    record = context.record
    held = tier_of({
        "outcome": "GREEN", "claims": record.claims, "admission": record.admission,
        "hardening": record.hardening, "adversary": record.adversary,
    })  # fmt: skip
    event: dict[str, JSON] = {
        "phase": "pre_publication", "by": by, "kind": kind, "claim": claim, "reason": reason[:400], "tier_held": held,
    }  # fmt: skip
    record.challenge_events.append(event)
