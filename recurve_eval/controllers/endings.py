"""What controllers share: a turn that did not complete, a budget that ran out, work that a gate judged."""

from __future__ import annotations

from recurve_eval.domain import Decision, StopReason, TurnStatus, refusals
from recurve_eval.errors import InfraError
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


def demand_binding(state: LoopState, controller: str) -> None:
    """Raises InfraError where no finding has a say."""
    if not any(f.binding for f in state.findings):
        raise InfraError(f"controller '{controller}' has no binding check to decide by")


def of_work(state: LoopState, source: str, preamble: str) -> Decision:
    """All binding checks GREEN declares; else the first refusal goes back to the agent while the budget lasts."""
    refused = refusals(state.findings)
    if not refused:
        return Decision(stop=True, declared=True, source=source, reason=StopReason.GATE_GREEN)
    if state.exhausted is not None:
        return Decision(stop=True, source=source, reason=StopReason(f"budget_{state.exhausted}"))
    if state.cycle >= state.budget.max_cycles or not state.turn.repairable:
        return Decision(stop=True, source=source, reason=StopReason.MAX_CYCLES)
    return Decision(stop=False, source=source, feedback=f"{preamble}\n\n{refused[0].message}\n")
