"""A gate decides: GREEN declares, RED goes back to the agent while the budget lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recurve_eval.controllers.endings import ended_badly
from recurve_eval.domain import JSON, Decision, Finding, GateVerdict, StopReason
from recurve_eval.errors import InfraError
from recurve_eval.ports import LoopState


@dataclass
class ExternalCI:
    """External stopping: every binding check GREEN declares the work done.

    Attributes
    ----------
    preamble : str
        Opens the prompt of every turn after the first; the first rejection's text follows.
    """

    name: str = "external_ci"
    preamble: str = "Your work was checked and is not accepted yet."

    @property
    def runs_gate(self) -> bool:
        return True

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def decide(self, state: LoopState) -> Decision:
        bad = ended_badly(state)
        if bad:
            return bad
        binding = [f for f in state.findings if f.binding]
        if not binding:
            raise InfraError(f"controller '{self.name}' has no binding check to decide by")
        rejections = [f for f in binding if f.verdict is not GateVerdict.GREEN]
        if not rejections:
            return Decision(stop=True, declared=True, source="ci", reason=StopReason.GATE_GREEN)
        return self._refuse_or_feed_back(state, rejections[0])

    def _refuse_or_feed_back(self, state: LoopState, rejection: Finding) -> Decision:
        if state.exhausted is not None:
            return Decision(stop=True, source="ci", reason=StopReason(f"budget_{state.exhausted}"))
        if state.cycle >= state.budget.max_cycles or not state.turn.repairable:
            return Decision(stop=True, source="ci", reason=StopReason.MAX_CYCLES)
        return Decision(stop=False, source="ci", feedback=f"{self.preamble}\n\n{rejection.message}\n")
