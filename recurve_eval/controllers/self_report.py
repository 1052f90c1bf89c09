"""The control's controller: the agent's own word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recurve_eval.controllers.endings import ended_badly
from recurve_eval.domain import JSON, Decision, StopReason
from recurve_eval.ports import LoopState


@dataclass
class SelfReport:
    """One turn; done means that the agent exited 0 with work to show and did not say otherwise.

    The run record's ``declared_done`` wins where it is present. No gate is run.
    """

    name: str = "self_report"

    @property
    def runs_gate(self) -> bool:
        return False

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def decide(self, state: LoopState) -> Decision:
        bad = ended_badly(state)
        if bad:
            return bad
        said = state.turn.declared_done
        declared = said if said is not None else not state.submission_empty
        return Decision(stop=True, declared=declared, source="agent", reason=StopReason.DECLARED)
