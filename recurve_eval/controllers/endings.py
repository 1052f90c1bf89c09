"""Endings that every controller shares: a turn that did not complete, a budget that ran out."""

from __future__ import annotations

from recurve_eval.domain import Decision, StopReason, TurnStatus
from recurve_eval.ports import LoopState


def ended_badly(state: LoopState) -> Decision | None:
    """The decision for a turn that did not complete or overran its budget; None for a good one.

    Only a completed turn within its budget can be declared done, whatever files it left.
    """
    if state.turn.status is TurnStatus.CANCELLED:
        return Decision(stop=True, source="none", reason=StopReason.CANCELLED)
    if state.turn.status is TurnStatus.TIMED_OUT:
        return Decision(stop=True, source="none", reason=StopReason.BUDGET_WALL)
    if state.turn.status is TurnStatus.STOPPED:
        return Decision(stop=True, source="none", reason=StopReason(f"budget_{state.turn.stopped_by}"))
    if state.turn.status is TurnStatus.FAILED:
        return Decision(stop=True, source="none", reason=StopReason.AGENT_ERROR)
    if state.exhausted in ("tokens", "usd", "wall", "steps") and state.overspent:
        return Decision(stop=True, source="none", reason=StopReason(f"budget_{state.exhausted}"))
    return None
