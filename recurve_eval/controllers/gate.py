"""External stopping by claims: GREEN declares, the budget refuses, a rejection goes back to the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recurve_eval.controllers.endings import demand_binding, ended_badly, of_work
from recurve_eval.domain import JSON, Decision, Phase, StopReason, refusals
from recurve_eval.ports import LoopState


@dataclass
class Gate:
    """Every binding component GREEN declares the work done.

    Claims that are never admitted end the cell as ``process_failed``: operating the gate failed, which is
    not the gate catching bad work.

    Attributes
    ----------
    preamble : str
        Opens the refusal of work; the component's one line and its bounded output follow.
    admission_preamble : str
        Opens the refusal of claims.
    """

    name: str = "gate"
    preamble: str = "Your work was checked and is not accepted yet."
    admission_preamble: str = "Your claims were checked and are not admitted yet."

    @property
    def runs_gate(self) -> bool:
        return True

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def decide(self, state: LoopState) -> Decision:
        bad = ended_badly(state)
        if bad:
            return bad
        demand_binding(state, self.name)
        return self._of_claims(state) if state.phase is Phase.AUTHOR else of_work(state, "gate", self.preamble)

    def _of_claims(self, state: LoopState) -> Decision:
        refused = refusals(state.findings)
        if not refused and state.exhausted is None:
            return Decision(stop=False, source="gate")
        if not refused:
            return Decision(stop=True, source="gate", reason=StopReason(f"budget_{state.exhausted}"))
        if state.exhausted is not None or state.author_left <= 0 or not state.turn.repairable:
            reason = StopReason.MAX_CYCLES if state.reopened else StopReason.PROCESS_FAILED
            return Decision(stop=True, source="gate", reason=reason)
        return Decision(stop=False, source="gate", feedback=f"{self.admission_preamble}\n\n{refused[0].message}\n")
