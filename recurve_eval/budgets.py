"""A cell's budget over its turns: what is left, and which bound was met first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from recurve_eval.domain import Budget, Turn

UNITS = ("tokens", "usd", "steps")
_FIELD = {"tokens": "tokens", "usd": "cost_usd", "steps": "steps"}


@dataclass(frozen=True)
class Consumed:
    """What the turns of a cell consumed, and the seconds that its gate took."""

    turns: Sequence[Turn]
    gate_wall_s: float = 0.0

    @property
    def agent_wall_s(self) -> float:
        return sum(t.wall_s for t in self.turns)

    def of(self, unit: str) -> Any:
        """The sum over all turns, or None as soon as one turn's use is unknown."""
        used = [getattr(t.usage, _FIELD[unit]) for t in self.turns]
        return None if None in used else sum(used)


def remaining(budget: Budget, used: Consumed) -> Budget:
    """What is left for the next turn."""
    left = {unit: _less(getattr(budget, unit), used.of(unit)) for unit in UNITS}
    return replace(budget, wall_s=max(0.001, budget.wall_s - used.agent_wall_s - used.gate_wall_s), **left)


def exhausted(budget: Budget, used: Consumed) -> tuple[str | None, bool]:
    """The first bound with nothing left for another turn, and whether it was overrun.

    A bounded unit whose use is unknown admits no further turn, because nobody could say that it stays
    within its bound; nothing is known to be overrun either.
    """
    for unit in UNITS:
        bound, spent = getattr(budget, unit), used.of(unit)
        if bound is not None and spent is not None and spent >= bound:
            return unit, spent > bound
    if used.agent_wall_s + used.gate_wall_s >= budget.wall_s:
        return "wall", used.agent_wall_s > budget.wall_s
    unknown = [u for u in UNITS if getattr(budget, u) is not None and used.of(u) is None]
    return (unknown[0], False) if unknown else (None, False)


def _less(bound: Any, used: Any) -> Any:
    if bound is None:
        return None
    return max(type(bound)(0), bound - (used or 0))
