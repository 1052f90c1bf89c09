"""What one arm did, as numbers with their raw counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recurve_eval.analysis.records import Record, TaskKey
from recurve_eval.domain import OracleVerdict, Outcome, StopReason
from recurve_eval.stats import Rate, Undefined, pass_at_k, pass_hat_k, wilson_clustered

PROCESS_FAILURES = frozenset(
    {StopReason.PROCESS_FAILED, StopReason.AGENT_ERROR, StopReason.CANCELLED, StopReason.INFRA}
)
QUANTITIES: dict[str, Callable[[Record], float | None]] = {
    "tokens": lambda r: r.tokens,
    "cost_usd": lambda r: r.cost_usd,
    "steps": lambda r: r.steps,
    "wall_s": lambda r: r.wall_s,
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lowest and highest value of a number that any verdicts of the unscored cells could give."""

    low: float | Undefined
    high: float | Undefined
    unscored: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """Quantiles of a quantity over the cells where it is known."""

    known: int
    unknown: int
    mean: float | Undefined
    quantiles: dict[str, float] | Undefined


@dataclass(frozen=True, slots=True)
class ArmMetrics:
    """All that is reported of one arm in one group of cells. Rates count cells; clusters are tasks.

    Attributes
    ----------
    ship_bad, yield_good : Rate
        Bad, and good, work shipped among all scored cells.
    fdr : Rate
        Bad work among scored cells that were declared done; undefined where none was.
    false_rejection : Rate
        Withheld among scored cells whose work is good.
    oracle_pass : Rate
        Good work among scored cells, declared or not.
    withheld : dict
        Why cells were not declared done: ``process_failed`` (the agent or machinery broke), ``refused`` (the
        gate said no), ``exhausted`` (a budget ran out without a refusal), ``other``.
    rejections : dict
        ``total`` rejections by the gate and ``cells`` with at least one.
    timeline : tuple
        Round by round, how many cells the gate checked and how many it rejected; empty where no gate ran.
    gate : dict
        Cells by ``tiers`` reached, ``claims`` and ``traps`` in all, boundary ``violations`` and ``challenges``.
    """

    arm: str
    n: int
    tasks: int
    seeds: int
    scored: int
    unscored: dict[str, int]
    unscored_cells: tuple[str, ...]
    declared: int
    tampered: int
    outcomes: dict[str, int]
    stop_reasons: dict[str, int]
    withheld: dict[str, int]
    rejections: dict[str, int]
    timeline: tuple[Round, ...]
    gate: GateFacts
    ship_bad: Rate
    fdr: Rate
    yield_good: Rate
    false_rejection: Rate
    oracle_pass: Rate
    ship_bad_bounds: Bounds
    fdr_bounds: Bounds
    attempts: tuple[AttemptSuccess, ...]
    distributions: dict[str, dict[str, Distribution]]


@dataclass(frozen=True, slots=True)
class Round:
    """The ``round``-th check of a cell by its gate: cells that had one, and cells that it rejected."""

    round: int
    checked: int
    rejected: int


@dataclass(frozen=True, slots=True)
class GateFacts:
    """What the gates of an arm held and met. ``violations`` and ``challenges`` count events, not cells."""

    claims: int
    traps: int
    tiers: dict[str, int]
    violations: int
    challenges: dict[str, int]


@dataclass(frozen=True, slots=True)
class AttemptSuccess:
    """pass@k and pass^k over a task's seeds, the mean over tasks with at least ``k`` scored seeds."""

    k: int
    tasks: int
    pass_at_k: float
    pass_hat_k: float


def arm_metrics(arm: str, records: Sequence[Record], confidence: float = 0.95) -> ArmMetrics:
    """Metrics of the records of one arm; ``records`` may span strata, tasks being the clusters."""
    scored = [r for r in records if r.scored]
    unscored = [r for r in records if not r.scored]
    tasks: dict[TaskKey, set[int]] = {}
    for r in records:
        tasks.setdefault(r.task, set()).add(r.seed)

    def rate(event: Callable[[Record], bool], among: Callable[[Record], bool] = lambda r: True) -> Rate:
        return clustered_rate([r for r in scored if among(r)], event, confidence)

    return ArmMetrics(
        arm=arm,
        n=len(records),
        tasks=len(tasks),
        seeds=max((len(s) for s in tasks.values()), default=0),
        scored=len(scored),
        unscored=_counts(str(r.reason) for r in unscored),
        unscored_cells=tuple(f"{r.task.task_id} seed {r.seed} ({r.reason}, {r.cell_id})" for r in unscored),
        declared=sum(r.declared for r in records),
        tampered=sum(r.verdict == OracleVerdict.TAMPERED for r in records),
        outcomes={**dict.fromkeys((o.value for o in Outcome), 0), **_counts(r.outcome for r in records)},
        stop_reasons=_counts(r.stop_reason for r in records),
        withheld=_withheld(records),
        rejections={"total": sum(r.rejections for r in records), "cells": sum(r.rejections > 0 for r in records)},
        timeline=_timeline(records),
        gate=_gate(records),
        ship_bad=rate(lambda r: r.ship_bad),
        fdr=rate(lambda r: r.ship_bad, lambda r: r.declared),
        yield_good=rate(lambda r: r.ship_good),
        false_rejection=rate(lambda r: not r.declared, lambda r: r.good),
        oracle_pass=rate(lambda r: r.good),
        ship_bad_bounds=_bounds(records),
        fdr_bounds=_bounds([r for r in records if r.declared]),
        attempts=_attempts(scored),
        distributions=_distributions(records),
    )


def clustered_rate(records: Sequence[Record], event: Callable[[Record], bool], confidence: float) -> Rate:
    """Share of records with an event; the interval counts tasks, not seeds, as independent."""
    sizes = Counter(r.task for r in records)
    events = Counter(r.task for r in records if event(r))
    return wilson_clustered([events[task] for task in sizes], list(sizes.values()), confidence)


def _withheld(records: Sequence[Record]) -> dict[str, int]:
    found = dict.fromkeys(("process_failed", "refused", "exhausted", "other"), 0)
    for r in records:
        if not r.declared:
            found[_why_withheld(r)] += 1
    return found


def _why_withheld(r: Record) -> str:
    if r.stop_reason in PROCESS_FAILURES:
        return "process_failed"
    if r.gate_outcome in ("RED", "BROKEN"):
        return "refused"
    return "exhausted" if r.stop_reason.startswith("budget_") or r.stop_reason == "max_cycles" else "other"


def _timeline(records: Sequence[Record]) -> tuple[Round, ...]:
    """A rejection ends every round of a cell but its last, so the n-th rejection was that of the n-th round."""
    gated = [r for r in records if r.gate_outcome != "none"]
    rounds = Counter(r.cycles for r in gated)
    rejections = Counter(r.rejections for r in gated)
    return tuple(
        Round(n, sum(c for k, c in rounds.items() if k >= n), sum(c for k, c in rejections.items() if k >= n))
        for n in range(1, max(rounds, default=0) + 1)
    )


def _gate(records: Sequence[Record]) -> GateFacts:
    return GateFacts(
        claims=sum(r.claims for r in records),
        traps=sum(r.traps for r in records),
        tiers=_counts(r.tier or "none" for r in records),
        violations=sum(r.violations for r in records),
        challenges=_counts(phase for r in records for phase in r.challenges),
    )


def _bounds(records: Sequence[Record]) -> Bounds:
    bad, unknown = sum(r.ship_bad for r in records), sum(not r.scored for r in records)
    if not records:
        nothing = Undefined("no cell is in the denominator")
        return Bounds(nothing, nothing, 0)
    return Bounds(bad / len(records), (bad + unknown) / len(records), unknown)


def _attempts(scored: Sequence[Record]) -> tuple[AttemptSuccess, ...]:
    made = Counter((r.stratum, r.task) for r in scored)
    passed = Counter((r.stratum, r.task) for r in scored if r.good)
    alike = Counter((n, passed[at]) for at, n in made.items())
    return tuple(_attempt(k, alike) for k in range(1, max(made.values(), default=0) + 1))


def _attempt(k: int, alike: Mapping[tuple[int, int], int]) -> AttemptSuccess:
    """``alike`` counts the tasks of each (attempts made, attempts passed)."""
    enough = sorted((made, passed, tasks) for (made, passed), tasks in alike.items() if made >= k)
    tasks = sum(weight for _, _, weight in enough)

    def mean(of: Callable[[int, int, int], float | Undefined]) -> float:
        values = [(of(made, passed, k), weight) for made, passed, weight in enough]
        return sum(v * weight for v, weight in values if not isinstance(v, Undefined)) / tasks

    return AttemptSuccess(k, tasks, mean(pass_at_k), mean(pass_hat_k))


def _distributions(records: Sequence[Record]) -> dict[str, dict[str, Distribution]]:
    groups: dict[str, list[Record]] = {"all": list(records)}
    for outcome in Outcome:
        chosen = [r for r in records if r.outcome == outcome.value]
        if chosen:
            groups[outcome.value] = chosen
    return {
        name: {group: distribution([get(r) for r in chosen]) for group, chosen in groups.items()}
        for name, get in QUANTITIES.items()
    }


def distribution(values: Sequence[float | None]) -> Distribution:
    """Mean and quantiles of the known values; the unknown ones are counted, never taken as zero."""
    known = np.sort(np.array([v for v in values if v is not None], dtype=float))
    unknown = len(values) - len(known)
    if not len(known):
        nothing = Undefined(f"unknown in all {unknown} cells" if unknown else "there are no cells")
        return Distribution(0, unknown, nothing, nothing)
    points = {"min": 0.0, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "max": 1.0}
    quantiles = dict(zip(points, map(float, np.quantile(known, list(points.values()))), strict=True))
    return Distribution(len(known), unknown, float(known.mean()), quantiles)


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
