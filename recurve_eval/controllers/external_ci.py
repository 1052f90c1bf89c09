"""A gate decides: GREEN declares, RED goes back to the agent while the budget lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recurve_eval.controllers.endings import demand_binding, ended_badly, of_work
from recurve_eval.domain import JSON, Decision
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
        demand_binding(state, self.name)
        return of_work(state, "ci", self.preamble)
