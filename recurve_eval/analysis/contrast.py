"""Two arms compared within one stratum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recurve_eval.analysis.endpoints import ENDPOINTS, NO_TASK, ONE_TASK, Endpoint, endpoint
from recurve_eval.analysis.metrics import Bounds, clustered_rate
from recurve_eval.analysis.options import AnalysisOptions
from recurve_eval.analysis.pairing import Pair, Pairing
from recurve_eval.analysis.price import Price, price, price_columns
from recurve_eval.analysis.records import Record, Stratum, TaskKey
from recurve_eval.domain import Outcome
from recurve_eval.stats import (
    DetectableEffect,
    Estimate,
    Rate,
    Test,
    Undefined,
    expanded_percentile,
    fdr_score,
    resampled_sums,
    smallest_detectable_effect,
)  # fmt: skip
from recurve_eval.stats.resample import divided

Floats = NDArray[np.float64]
FDR_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class FdrContrast:
    """Delta FDR. Its denominators differ by arm, so no McNemar test is made of it.

    ``effect`` is treatment minus baseline with a task-bootstrap interval; ``test`` is the continuity-corrected
    generalised score, ``score`` the same without the correction (for comparison; never the verdict).
    """

    baseline: Rate
    treatment: Rate
    effect: Estimate
    test: Test | Undefined
    score: Test | Undefined
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Contrast:
    """Everything about one pair of arms in one stratum.

    ``role`` is ``primary``, ``declared``, ``noise_floor`` or ``exploratory``. ``after_shipped_bad`` counts what
    became, in the treatment, of the cells that the baseline shipped bad. ``per_task`` holds the paired change of
    P(ship bad) of every task. ``p_holm`` is set for declared contrasts.
    """

    stratum: Stratum
    baseline: str
    treatment: str
    role: str
    design: str
    tasks: int
    pairs: int
    scored_pairs: int
    seeds: int
    missing: dict[str, tuple[str, ...]]
    unscored: dict[str, tuple[str, ...]]
    endpoints: dict[str, Endpoint]
    fdr: FdrContrast
    price: Price
    transitions: dict[str, dict[str, int]]
    after_shipped_bad: dict[str, int]
    detectable: DetectableEffect
    per_task: dict[str, float]
    p_holm: float | Undefined


def compare_all(stratum: Stratum, pairings: Sequence[tuple[Pairing, str]], options: AnalysisOptions) -> list[Contrast]:
    """Contrasts of one stratum, all from the same bootstrap draws of its tasks.

    Parameters
    ----------
    pairings : sequence of (Pairing, role)
    """
    usable = [p for p, _ in pairings if p.pairs]
    order = sorted({task for p in usable for task in p.tasks})
    blocks = [_aligned(order, p) for p in usable]
    replicas = iter(_resampled(blocks, options))
    return [_contrast(stratum, p, role, next(replicas) if p.pairs else None, options) for p, role in pairings]


def _resampled(blocks: Sequence[Floats], options: AnalysisOptions) -> list[Floats]:
    if not blocks:
        return []
    sums = resampled_sums(np.hstack(blocks), resamples=options.resamples, seed=options.seed)
    return np.split(sums, np.cumsum([b.shape[1] for b in blocks])[:-1], axis=1)


def _aligned(order: Sequence[TaskKey], pairing: Pairing) -> Floats:
    """The pairing's columns over the stratum's tasks; a task that it lacks adds nothing to any sum."""
    place = {task: i for i, task in enumerate(order)}
    scored = pairing.scored
    out = np.zeros((len(order), FDR_COLUMNS + len(ENDPOINTS) + 1 + 6))
    at_scored, at_all = [place[t] for t in scored.tasks], [place[t] for t in pairing.tasks]
    out[at_scored, :FDR_COLUMNS] = _fdr_columns(scored)
    for i, event in enumerate(ENDPOINTS.values()):
        out[at_scored, FDR_COLUMNS + i] = scored.task_means(event)
    out[at_scored, FDR_COLUMNS + len(ENDPOINTS)] = 1.0
    out[at_all, -6:] = price_columns(pairing)
    return out


def _fdr_columns(scored: Pairing) -> Floats:
    return scored.task_sums(
        [
            lambda p: p.baseline.declared,
            lambda p: p.baseline.ship_bad,
            lambda p: p.treatment.declared,
            lambda p: p.treatment.ship_bad,
        ]
    )


def _contrast(stratum: Stratum, p: Pairing, role: str, sums: Floats | None, options: AnalysisOptions) -> Contrast:
    scored = p.scored
    replicas = np.full((1, FDR_COLUMNS + len(ENDPOINTS) + 1 + 6), np.nan) if sums is None else sums
    counts = replicas[:, FDR_COLUMNS + len(ENDPOINTS)]
    tasks, seeds = len(scored.tasks), _seeds(scored)
    means = scored.task_means(ENDPOINTS["ship_bad"])
    return Contrast(
        stratum=stratum,
        baseline=p.baseline,
        treatment=p.treatment,
        role=role,
        design="one seed a task" if scored.single_seed else "several seeds a task: the task is the unit",
        tasks=tasks,
        pairs=len(p.pairs),
        scored_pairs=len(scored.pairs),
        seeds=seeds,
        missing={p.baseline: _names(p.only_treatment), p.treatment: _names(p.only_baseline)},
        unscored={
            p.baseline: tuple(_cell(x.baseline) for x in p.pairs if not x.baseline.scored),
            p.treatment: tuple(_cell(x.treatment) for x in p.pairs if not x.treatment.scored),
        },
        endpoints={
            name: endpoint(p, event, divided(replicas[:, FDR_COLUMNS + i], counts), options)
            for i, (name, event) in enumerate(ENDPOINTS.items())
        },
        fdr=_fdr(p, replicas[:, :FDR_COLUMNS], options),
        price=price(p, replicas[:, -6:], options.confidence),
        transitions=_transitions(p.pairs),
        after_shipped_bad=_after_shipped_bad(p.pairs),
        detectable=smallest_detectable_effect(
            tasks, seeds=max(1, seeds), alpha=options.alpha, power=options.power,
            discordance=options.discordance, icc=options.icc,
        ),
        per_task={"/".join(task): float(d) for task, d in zip(scored.tasks, means, strict=True)},
        p_holm=Undefined("not among the declared contrasts"),
    )  # fmt: skip


def _fdr(p: Pairing, sums: Floats, options: AnalysisOptions) -> FdrContrast:
    scored = p.scored
    first = _arm_fdr([x.baseline for x in scored.pairs], options)
    second = _arm_fdr([x.treatment for x in scored.pairs], options)
    bounds = _fdr_bounds(p)
    tasks = len(scored.tasks)
    reason = NO_TASK if tasks == 0 else ONE_TASK
    if tasks < 2 or isinstance(first.value, Undefined) or isinstance(second.value, Undefined):
        if tasks >= 2:
            empty = p.baseline if isinstance(first.value, Undefined) else p.treatment
            reason = f"arm {empty} declared nothing done on the matched tasks, so its FDR is undefined"
        nothing = Undefined(reason)
        return FdrContrast(first, second, Estimate(nothing, nothing, tasks), nothing, nothing, bounds)
    replicates = divided(sums[:, 3], sums[:, 2]) - divided(sums[:, 1], sums[:, 0])
    effect = Estimate(second.value - first.value, expanded_percentile(replicates, tasks, options.confidence), tasks)
    columns = _fdr_columns(scored).T
    test, score = fdr_score(*columns), fdr_score(*columns, correction=False)
    return FdrContrast(first, second, effect, test, score, bounds)


def _arm_fdr(records: Sequence[Record], options: AnalysisOptions) -> Rate:
    return clustered_rate([r for r in records if r.declared], lambda r: r.ship_bad, options.confidence)


def _fdr_bounds(p: Pairing) -> Bounds:
    """Delta FDR over all matched pairs with every unscored declared cell at its best, and worst, for the treatment."""
    unknown = sum(not x.scored for x in p.pairs)

    def at(side: str, unscored_bad: bool) -> float | None:
        records = [r for r in (getattr(x, side) for x in p.pairs) if r.declared]
        bad = sum(r.ship_bad or (unscored_bad and not r.scored) for r in records)
        return bad / len(records) if records else None

    edges = [(at("treatment", worst), at("baseline", not worst)) for worst in (False, True)]
    values = [second - first for second, first in edges if second is not None and first is not None]
    if len(values) < 2:
        nothing = Undefined("an arm declared nothing done on the matched tasks")
        return Bounds(nothing, nothing, unknown)
    return Bounds(values[0], values[1], unknown)


def _transitions(pairs: Sequence[Pair]) -> dict[str, dict[str, int]]:
    table = {first.value: {second.value: 0 for second in Outcome} for first in Outcome}
    for p in pairs:
        table[str(p.baseline.outcome)][str(p.treatment.outcome)] += 1
    return table


def _after_shipped_bad(pairs: Sequence[Pair]) -> dict[str, int]:
    names: Mapping[str, str] = {
        Outcome.SHIPPED_GOOD: "repaired",
        Outcome.WITHHELD_GOOD: "repaired_but_withheld",
        Outcome.WITHHELD_BAD: "refused",
        Outcome.SHIPPED_BAD: "missed",
        Outcome.UNSCORED: "unscored",
    }
    out = {"baseline_shipped_bad": 0, **dict.fromkeys(names.values(), 0)}
    for p in pairs:
        if p.baseline.ship_bad:
            out["baseline_shipped_bad"] += 1
            out[names[p.treatment.outcome]] += 1
    return out


def _seeds(p: Pairing) -> int:
    counts: dict[TaskKey, int] = {}
    for x in p.pairs:
        counts[x.task] = counts.get(x.task, 0) + 1
    return min(counts.values(), default=0)


def _names(keys: Sequence[tuple[object, ...]]) -> tuple[str, ...]:
    return tuple(f"{k[1]} seed {k[5]}" for k in keys)


def _cell(r: Record) -> str:
    return f"{r.task.task_id} seed {r.seed} ({r.reason})"
