"""What an analysis assumes, taken from the plan unless the caller says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """Settings of an analysis.

    Attributes
    ----------
    alpha : float
        Two-sided error that a declared contrast may take, before Holm.
    power : float
        Power for which the smallest detectable effect is stated.
    seed : int
        Seed of every bootstrap and of permutations too many to enumerate.
    resamples : int
        Bootstrap resamples and random permutations.
    confidence : float
        Coverage of every interval.
    discordance : float
        Share of pairs assumed to differ between two arms, for the smallest detectable effect.
    icc : float
        Assumed correlation of the seeds of one task, for the same.
    """

    alpha: float = 0.05
    power: float = 0.8
    seed: int = 0
    resamples: int = 10_000
    confidence: float = 0.95
    discordance: float = 0.2
    icc: float = 0.5

    @classmethod
    def from_plan(cls, plan: Mapping[str, Any]) -> AnalysisOptions:
        """The options that ``plan["analysis"]`` names; other keys of it are not the analysis's concern."""
        given = plan.get("analysis") or {}
        return cls(**{f.name: given[f.name] for f in fields(cls) if given.get(f.name) is not None})
