"""What spans several strata: the same arm under growing budgets, and on the two halves of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recurve_eval.analysis.metrics import clustered_rate
from recurve_eval.analysis.options import AnalysisOptions
from recurve_eval.analysis.records import Record, natural
from recurve_eval.stats import Estimate, Rate, Undefined, cluster_bootstrap
from recurve_eval.stats.resample import divided

IMPOSSIBLE = "-impossible"  # how a benchmark's impossible half is labelled
UNITS = ("tokens", "usd", "steps", "wall_s")
Curve = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """An arm under one budget, on the cells that have a verdict under every budget of its curve.

    ``change`` is the oracle pass under this budget less under the one before, with a task-bootstrap interval: the
    same tasks stand in both, so that points of a curve are not independent.
    """

    budget: str
    oracle_pass: Rate
    yield_good: Rate
    ship_bad: Rate
    change: Estimate


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """Oracle pass over the budget grid of one arm; budgets from the smallest to the largest."""

    benchmark: str
    model: str
    agent: str
    arm: str
    tasks: int
    points: tuple[BudgetPoint, ...]


def budget_curves(records: Sequence[Record], plan: Mapping[str, Any], options: AnalysisOptions) -> list[BudgetCurve]:
    """A curve for every arm that ran under several budgets."""
    sizes = _sizes(plan)
    groups: dict[Curve, dict[str, list[Record]]] = {}
    for r in records:
        s = r.stratum
        groups.setdefault((s.benchmark, s.model, s.agent, r.arm), {}).setdefault(s.budget, []).append(r)
    order = sorted(groups, key=lambda g: (g[:3], natural(g[3])))
    return [_curve(at, groups[at], sizes, options) for at in order if len(groups[at]) > 1]


def _sizes(plan: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """How large each budget is by the plan; what is unbounded is the largest."""
    found = {}
    for condition in plan.get("conditions") or ():
        budget = (condition.get("config") or {}).get("budget") or {}
        values = (budget.get(unit) for unit in UNITS)
        found[str(budget.get("name"))] = tuple(float("inf") if v is None else float(v) for v in values)
    return found


def _curve(
    at: Curve, budgets: Mapping[str, list[Record]], sizes: Mapping[str, tuple[float, ...]], options: AnalysisOptions
) -> BudgetCurve:
    order = sorted(budgets, key=lambda b: (sizes.get(b, ()), natural(b)))
    scored = {b: {(r.task, r.seed): r for r in budgets[b] if r.scored} for b in order}
    common = sorted(set.intersection(*(set(found) for found in scored.values())))
    chosen = {b: [scored[b][key] for key in common] for b in order}
    points = tuple(
        _point(b, chosen[b], chosen[order[n - 1]] if n else None, options) for n, b in enumerate(order)
    )  # fmt: skip
    return BudgetCurve(*at, len({task for task, _ in common}), points)


def _point(
    budget: str, now: Sequence[Record], before: Sequence[Record] | None, options: AnalysisOptions
) -> BudgetPoint:
    nothing = Undefined("it is the smallest budget")
    return BudgetPoint(
        budget,
        clustered_rate(now, lambda r: r.good, options.confidence),
        clustered_rate(now, lambda r: r.ship_good, options.confidence),
        clustered_rate(now, lambda r: r.ship_bad, options.confidence),
        Estimate(nothing, nothing, 0) if before is None else _change(before, now, options),
    )


def _change(before: Sequence[Record], now: Sequence[Record], options: AnalysisOptions) -> Estimate:
    sums: dict[Any, list[float]] = {}
    for first, second in zip(before, now, strict=True):
        found = sums.setdefault(first.task, [0.0, 0.0])
        found[0] += second.good - first.good
        found[1] += 1
    if not sums:
        nothing = Undefined("no cell has a verdict under every budget")
        return Estimate(nothing, nothing, 0)
    return cluster_bootstrap(
        np.array(list(sums.values())), lambda s: divided(s[:, 0], s[:, 1]),
        resamples=options.resamples, seed=options.seed, confidence=options.confidence,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Halves:
    """False done on a benchmark's two halves: of all scored cells, and of those declared done.

    On the impossible half no work is right, so that whatever is declared done there is false.
    """

    benchmark: str
    model: str
    agent: str
    budget: str
    arm: str
    solvable: Rate
    impossible: Rate
    solvable_fdr: Rate
    impossible_fdr: Rate


def halves(records: Sequence[Record], options: AnalysisOptions) -> list[Halves]:
    """Both halves of every benchmark that has them, by model, agent, budget and arm."""
    groups: dict[tuple[str, ...], dict[bool, list[Record]]] = {}
    for r in records:
        s = r.stratum
        whole = s.benchmark.removesuffix(IMPOSSIBLE)
        found = groups.setdefault((whole, s.model, s.agent, s.budget, r.arm), {})
        found.setdefault(s.benchmark.endswith(IMPOSSIBLE), []).append(r)
    order = sorted(groups, key=lambda g: (g[:4], natural(g[4])))
    return [_halves(at, groups[at], options.confidence) for at in order if len(groups[at]) == 2]


def _halves(at: tuple[str, ...], sides: Mapping[bool, list[Record]], confidence: float) -> Halves:
    def rate(side: bool, declared: bool) -> Rate:
        among = [r for r in sides[side] if r.scored and (r.declared or not declared)]
        return clustered_rate(among, lambda r: r.ship_bad, confidence)

    both = [(side, declared) for declared in (False, True) for side in (False, True)]
    benchmark, model, agent, budget, arm = at
    return Halves(benchmark, model, agent, budget, arm, *(rate(*which) for which in both))
