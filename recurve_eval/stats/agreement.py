"""Whether two judges miss the same things: miss-correlation, phi, Cohen's kappa."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recurve_eval.stats.resample import Floats, cluster_bootstrap, divided
from recurve_eval.stats.results import Estimate, PairedTable, Undefined

NOTHING = "there is nothing that both have judged"


@dataclass(frozen=True, slots=True)
class MissCorrelation:
    """Misses of an adversary against misses of an actor, over the same items.

    ``rho`` is P(adversary misses | actor missed) / P(adversary misses): 1 where the misses are independent, above
    1 where they are shared. ``table`` counts items by (actor missed, adversary missed).
    """

    table: PairedTable
    clusters: int
    rho: Estimate
    phi: float | Undefined
    kappa: float | Undefined


def phi(table: PairedTable) -> float | Undefined:
    """Pearson's correlation of two yes-or-no judgements.

    Notes
    -----
    Yule, Journal of the Royal Statistical Society 75 (1912) 579-652.
    """
    margins = table.first * (table.n - table.first) * table.second * (table.n - table.second)
    if table.n == 0:
        return Undefined(NOTHING)
    if margins == 0:
        return Undefined("one of the two says the same of everything")
    return (table.both * table.neither - table.first_only * table.second_only) / math.sqrt(margins)


def kappa(table: PairedTable) -> float | Undefined:
    """Agreement beyond chance.

    Notes
    -----
    Cohen, Educational and Psychological Measurement 20 (1960) 37-46.
    """
    n = table.n
    if n == 0:
        return Undefined(NOTHING)
    chance = (table.first * table.second + (n - table.first) * (n - table.second)) / n**2
    if chance == 1.0:
        return Undefined("both say the same of everything, so agreement by chance is certain")
    return ((table.both + table.neither) / n - chance) / (1 - chance)


def miss_correlation(
    tables: Sequence[PairedTable], *, resamples: int = 10_000, seed: int = 0, confidence: float = 0.95
) -> MissCorrelation:
    """Rho with its task-cluster bootstrap interval.

    Parameters
    ----------
    tables : sequence of PairedTable, one for each task
        The actor's misses are the rows (baseline), the adversary's the columns (treatment).
    resamples, seed : int
    confidence : float
    """
    cells = np.array([[t.both, t.first_only, t.second_only, t.neither] for t in tables if t.n], dtype=float)
    whole = PairedTable(*(int(c) for c in cells.sum(axis=0))) if len(cells) else PairedTable(0, 0, 0, 0)
    why = _undefined(whole)
    if why is not None:
        rho = Estimate(why, why, len(cells))
    else:
        rho = cluster_bootstrap(cells, _rho, resamples=resamples, seed=seed, confidence=confidence)
    return MissCorrelation(whole, len(cells), rho, phi(whole), kappa(whole))


def _undefined(table: PairedTable) -> Undefined | None:
    if table.n == 0:
        return Undefined(NOTHING)
    if table.first == 0:
        return Undefined("the actor missed nothing, so nothing is conditioned on")
    if table.second == 0:
        return Undefined("the adversary missed nothing, so its rate of misses is zero")
    return None


def _rho(sums: Floats) -> Floats:
    both, first, second, neither = sums.T
    total = both + first + second + neither
    return divided(divided(both, both + first), divided(both + second, total))
