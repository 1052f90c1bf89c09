"""The control's controller: the agent's own word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recurve_eval.controllers.endings import ended_badly
from recurve_eval.domain import JSON, Decision, Phase, StopReason, refusals
from recurve_eval.ports import LoopState


@dataclass
class SelfReport:
    """One turn at the work; done means that the agent exited 0 with work to show and did not say otherwise.

    The run record's ``declared_done`` wins where it is present.

    Attributes
    ----------
    observe : bool
        Whether the gate's components are run and recorded. They have no say in either case.
    """

    name: str = "self_report"
    observe: bool = False

    @property
    def runs_gate(self) -> bool:
        return self.observe

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def decide(self, state: LoopState) -> Decision:
        bad = ended_badly(state)
        if bad:
            return bad
        if state.phase is Phase.AUTHOR:
            return self._of_claims(state)
        said = state.turn.declared_done
        declared = said if said is not None else not state.submission_empty
        return Decision(stop=True, declared=declared, source="agent", reason=StopReason.DECLARED)

    def _of_claims(self, state: LoopState) -> Decision:
        """Claims are asked for and looked at; the work goes on without them where they were not admitted."""
        if state.exhausted is not None:
            return Decision(stop=True, source="agent", reason=StopReason(f"budget_{state.exhausted}"))
        refused = refusals(state.findings)
        again = bool(refused) and state.author_left > 0 and state.turn.repairable
        return Decision(stop=False, source="agent", feedback=f"{refused[0].message}\n" if again else "")
