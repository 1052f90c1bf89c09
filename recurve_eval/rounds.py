"""The gate's side of a conversation: phases, what a prompt opens with, rounds of findings, audits at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recurve_eval.domain import JSON, Finding, Phase, refusals
from recurve_eval.ports import Auditor, GateComponent, GateContext, Observation, Staged


@dataclass
class Rounds:
    """The components of one cell, and how far its conversation has come."""

    components: Sequence[GateComponent]
    auditors: Sequence[Auditor]
    context: GateContext
    note: Callable[[Finding], Any]
    findings: list[tuple[Finding, ...]] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    author_left: int = 0
    reopened: bool = False
    authored: int = 0  # turns spent on claims

    def open(self) -> None:
        """Prepare the workspace. An author phase comes first where a component asks for one."""
        for component in self.components:
            component.prepare(self.context)
        self.author_left = max((s.author_turns for s in self._staged), default=0)
        self.context.record.phase = Phase.AUTHOR if self.author_left else Phase.SCULPT

    @property
    def phase(self) -> Phase:
        return self.context.record.phase

    @property
    def _staged(self) -> list[Staged]:
        return [c for c in self.components if isinstance(c, Staged)]

    def before(self) -> str:
        """Set the next turn up; what its prompt opens with."""
        return "\n\n".join(text for s in self._staged if (text := s.before(self.context)))

    def after(self) -> None:
        """Put right what the turn's phase did not permit."""
        if self.phase is Phase.AUTHOR:
            self.author_left -= 1
            self.authored += 1
        for staged in self._staged:
            staged.after(self.context)

    def judge(self) -> tuple[Finding, ...]:
        """One round: in the author phase over the claims, else over the work; ends at the first binding refusal."""
        found: list[Finding] = []
        for component in self._staged if self.phase is Phase.AUTHOR else self.components:
            look = component.admit if self.phase is Phase.AUTHOR else component.check  # type: ignore[union-attr]
            record = self.context.record
            before, seen = sum(record.clock.values()), len(record.retried)
            finding = look(self.context)
            more: dict[str, JSON] = {"probe_wall_s": round(sum(record.clock.values()) - before, 6)}
            found.append(replace(finding, evidence={**finding.evidence, **more, **self._asked_twice(seen)}))
            self.note(found[-1])
            if refusals(found[-1:]):
                break
        self.findings.append(tuple(found))
        return tuple(found)

    def advance(self, findings: Sequence[Finding]) -> None:
        """Move on to the work once the claims are admitted, or no turn is left to mend them.

        Back to the claims where a component found them wanting, once: there is no end to mending otherwise.
        """
        if self.phase is not Phase.AUTHOR:
            if self.context.record.state.pop("reopen", False) and not self.reopened:
                self.reopened, self.author_left = True, 1
                self.context.record.phase = Phase.AUTHOR
            return
        admitted = bool(findings) and not refusals(findings)
        if admitted or self.author_left <= 0:
            self.context.record.phase = Phase.SCULPT

    def audit(self) -> None:
        """Let the auditors look, now that everything is decided."""
        for auditor in self.auditors:
            seen = len(self.context.record.retried)
            saw = auditor.observe(self.context)
            self.observations.append(replace(saw, facts={**saw.facts, **self._asked_twice(seen)}))

    def _asked_twice(self, seen: int) -> dict[str, JSON]:
        """The time-outs beyond the first ``seen`` that were asked once more, where there were any."""
        new = self.context.record.retried[seen:]
        return {"asked_twice": new} if new else {}
