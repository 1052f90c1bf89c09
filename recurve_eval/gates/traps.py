"""RED-first: a probe that has never been seen to fail certifies nothing."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.domain import JSON, Finding, GateVerdict, Phase, Task
from recurve_eval.gates.claims import examined
from recurve_eval.gates.copies import listing
from recurve_eval.gates.ledger import Claim, LedgerError, read_ledger
from recurve_eval.gates.places import session_place
from recurve_eval.gates.probes import Case, fixture_of
from recurve_eval.gates.prompts import prompt_pins, read_prompt
from recurve_eval.ports import GateContext


@dataclass
class RedFirst:
    """Admits a claim only when its probe is RED on the untouched work and on each of its traps, and keeps it so.

    Attributes
    ----------
    prompts : str
        Directory of the template ``traps.md``; empty for the shipped one.
    """

    name: str = "red_first"
    binding: bool = True
    prompts: str = ""
    author_turns = 0

    def pins(self) -> Mapping[str, JSON]:
        return {"prompts": prompt_pins(("traps",), self.prompts)}

    def admits(self, task: Task) -> str | None:
        return None

    def prepare(self, context: GateContext) -> None:
        pass

    def before(self, context: GateContext) -> str:
        return read_prompt("traps", self.prompts) if context.record.phase is Phase.AUTHOR else ""

    def after(self, context: GateContext) -> None:
        pass

    def admit(self, context: GateContext) -> Finding:
        started = time.perf_counter()
        problem = self._vacuous(context)
        if problem:
            finding = Finding(self.name, GateVerdict.BROKEN, problem, self.binding, 0.0, {"why": problem}, Phase.AUTHOR)
        else:
            finding = examined(self.name, self.binding, context, _red_everywhere, Phase.AUTHOR)
        green = finding.verdict is GateVerdict.GREEN
        context.record.admission = {"admitted": green, "red_first": green, "by": self.name, "why": finding.message}
        wall = time.perf_counter() - started
        return Finding(
            self.name, finding.verdict, finding.message, self.binding, wall, finding.evidence, Phase.AUTHOR
        )  # fmt: skip

    def check(self, context: GateContext) -> Finding:
        """GREEN when every probe is RED on each of its traps, twice."""
        return examined(self.name, self.binding, context, _red_on_traps)

    def _vacuous(self, context: GateContext) -> str:
        try:
            claims = read_ledger(context.workspace)
        except LedgerError as error:
            return str(error)
        for claim in claims:
            if not claim.traps:
                return f"claim '{claim.id}' has no trap: give known-bad work that its probe must turn RED"
            for trap in claim.traps:
                if is_the_work(context, trap):
                    return f"claim '{claim.id}': trap {trap} is the work itself, so it proves nothing: make it wrong"
        return ""


def _red_everywhere(claims: tuple[Claim, ...]) -> list[Case]:
    untouched = [Case(c, "", GateVerdict.RED) for c in claims]
    return untouched + _red_on_traps(claims)


def _red_on_traps(claims: tuple[Claim, ...]) -> list[Case]:
    return [Case(c, trap, GateVerdict.RED) for c in claims for trap in c.traps]


def is_the_work(context: GateContext, trap: str) -> bool:
    """Whether every file of a trap stands in the untouched work, the same."""
    given = {path: hashlib.sha256(content).hexdigest() for path, content in context.task.public.items()}
    if not trap.endswith(".patch"):
        return _same(given, context.workspace / trap)
    with session_place(context, "trap", untouched=True) as place:
        problem, made = fixture_of(place, trap)
        return not problem and made is not None and _same(given, place.root / made)


def _same(given: Mapping[str, str], place: Path) -> bool:
    return all(given.get(path) == content for path, content in listing(place).items())
