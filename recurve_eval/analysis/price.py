"""The price of trust: what the gate costs beside what it prevents, on matched tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recurve_eval.analysis.metrics import QUANTITIES
from recurve_eval.analysis.pairing import Pair, Pairing
from recurve_eval.analysis.records import Record
from recurve_eval.stats import Estimate, Undefined, expanded_percentile
from recurve_eval.stats.resample import divided

Floats = NDArray[np.float64]
PRICED = ("tokens", "cost_usd", "wall_s")


@dataclass(frozen=True, slots=True)
class PriceRatio:
    """Mean of the treatment over mean of the baseline, over matched cells where both are known."""

    ratio: Estimate
    baseline_mean: float | Undefined
    treatment_mean: float | Undefined
    known: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Price:
    """Ratios by quantity, and what one prevented bad submission cost.

    ``usd_per_prevented`` is extra dollars over bad submissions prevented; ``prevented`` and ``good_lost`` count
    cells of the matched, scored pairs, and are negative where the treatment did worse, or better.
    """

    ratios: dict[str, PriceRatio]
    prevented: int
    good_lost: int
    usd_per_prevented: float | Undefined
    tokens_per_prevented: float | Undefined


def _known(p: Pair, get: Callable[[Record], float | None]) -> tuple[float, float] | None:
    first, second = get(p.baseline), get(p.treatment)
    return None if first is None or second is None else (float(first), float(second))


def price_columns(pairing: Pairing) -> Floats:
    """Per-task sums for the bootstrap: (baseline, treatment) of each priced quantity; shape (tasks, 6)."""
    return pairing.task_sums([_measure(QUANTITIES[name], side) for name in PRICED for side in (0, 1)])


def _measure(get: Callable[[Record], float | None], side: int) -> Callable[[Pair], float]:
    return lambda p: (_known(p, get) or (0.0, 0.0))[side]


def price(pairing: Pairing, sums: Floats, confidence: float) -> Price:
    """Price of trust of a pairing, given bootstrap sums of :func:`price_columns`, shape (resamples, 6)."""
    ratios = {
        name: _ratio(pairing, QUANTITIES[name], sums[:, 2 * i], sums[:, 2 * i + 1], confidence)
        for i, name in enumerate(PRICED)
    }
    scored = pairing.scored.pairs
    prevented = sum(p.baseline.ship_bad for p in scored) - sum(p.treatment.ship_bad for p in scored)
    lost = sum(p.baseline.ship_good for p in scored) - sum(p.treatment.ship_good for p in scored)
    return Price(
        ratios,
        prevented,
        lost,
        _per_prevented(pairing, "cost_usd", prevented),
        _per_prevented(pairing, "tokens", prevented),
    )


def _ratio(
    pairing: Pairing, get: Callable[[Record], float | None], first: Floats, second: Floats, confidence: float
) -> PriceRatio:
    found = [_known(p, get) for p in pairing.pairs]
    values = np.array([f for f in found if f is not None]).reshape(-1, 2)
    known, unknown = len(values), len(found) - len(values)
    tasks = len({p.task for p, f in zip(pairing.pairs, found, strict=True) if f is not None})
    if unknown:
        reason = Undefined(f"unknown in {unknown} of {len(found)} matched pairs, and unknown is never zero")
        return PriceRatio(Estimate(reason, reason, tasks), reason, reason, known, unknown)
    if not known:
        reason = Undefined("there are no matched cells")
        return PriceRatio(Estimate(reason, reason, 0), reason, reason, 0, 0)
    base, treat = values.mean(axis=0)
    if base <= 0:
        reason = Undefined("the baseline's mean is zero")
        return PriceRatio(Estimate(reason, reason, tasks), float(base), float(treat), known, 0)
    interval = expanded_percentile(divided(second, first), tasks, confidence)
    return PriceRatio(Estimate(float(treat / base), interval, tasks), float(base), float(treat), known, 0)


def _per_prevented(pairing: Pairing, name: str, prevented: int) -> float | Undefined:
    found = [_known(p, QUANTITIES[name]) for p in pairing.pairs]
    if any(f is None for f in found):
        return Undefined(f"{name} is unknown in {sum(f is None for f in found)} of {len(found)} matched pairs")
    if prevented <= 0:
        return Undefined("no bad submission was prevented on balance")
    return sum(f[1] - f[0] for f in found if f is not None) / prevented
