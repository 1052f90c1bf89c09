"""What a paired design can see before any money moves: exact McNemar power and its inversion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from recurve_eval.stats.results import Undefined


def fewest_discordant(alpha: float = 0.05) -> int:
    """Discordant pairs, all one way, that a two-sided exact McNemar test needs for ``p <= alpha``: 6 for .05."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha lies strictly between 0 and 1; got {alpha}")
    needed = math.ceil(1 - math.log2(alpha) - 1e-12)
    return max(1, needed)


def mcnemar_power(p01: float, p10: float, n: int, *, alpha: float = 0.05, mid_p: bool = False) -> float:
    """Exact unconditional power of the two-sided McNemar test.

    Parameters
    ----------
    p01, p10 : float
        Chance that a pair is discordant one way, and the other; ``p01 + p10 <= 1``.
    n : int
        Pairs.
    alpha : float
    mid_p : bool
        The mid-p test instead of the exact one.

    Returns
    -------
    float
        Summed over the number of discordant pairs, which is binomial, and their split, which is binomial
        given it. p01 = .15, p10 = .05 and 155 pairs give .762 (exact) and .808 (mid-p).
    """
    from scipy.stats import binom

    discordance = p01 + p10
    if min(p01, p10) < 0 or discordance > 1 + 1e-12 or n < 0:
        raise ValueError("p01 and p10 are probabilities whose sum is at most 1, and n is a count")
    if discordance == 0 or n == 0:
        return 0.0
    total = min(1.0, discordance)
    low, high = binom.ppf(1e-14, n, total), binom.isf(1e-14, n, total)
    m = np.arange(int(low), int(high) + 1)
    critical = _critical(n, alpha, mid_p)[m]
    share = p01 / discordance
    rejected = np.where(critical >= 0, binom.cdf(critical, m, share) + binom.sf(m - critical - 1, m, share), 0.0)
    return float(min(1.0, (binom.pmf(m, n, total) * rejected).sum()))


@lru_cache(maxsize=32)
def _critical(n: int, alpha: float, mid_p: bool) -> NDArray[np.int64]:
    """Per number of discordant pairs in 0..n, the largest smaller count that rejects, or -1."""
    from scipy.stats import binom

    m = np.arange(n + 1)
    guess = binom.ppf(alpha / 2, m, 0.5).astype(int)
    best = np.full(m.shape, -1)
    for offset in (-1, 0, 1):
        k = guess + offset
        p = 2 * binom.cdf(k, m, 0.5) - (binom.pmf(k, m, 0.5) if mid_p else 0.0)
        fits = (k >= 0) & (2 * k < m) & (p <= alpha)
        best = np.where(fits, np.maximum(best, k), best)
    return best


@dataclass(frozen=True, slots=True)
class DetectableEffect:
    """The smallest difference that a design sees with the stated power.

    ``delta`` assumes that a share ``discordance`` of pairs disagrees; ``delta_one_way`` is the best case,
    in which every discordant pair goes the same way. ``refused`` is the reason why the design cannot
    reach its own alpha even with perfect separation, or empty.
    """

    tasks: int
    seeds: int
    alpha: float
    power: float
    discordance: float
    icc: float
    pairs: int
    delta: float | Undefined
    delta_one_way: float | Undefined
    refused: str = ""


@lru_cache(maxsize=64)
def smallest_detectable_effect(
    tasks: int, *, seeds: int = 1, alpha: float = 0.05, power: float = 0.8, discordance: float = 0.2, icc: float = 0.5
) -> DetectableEffect:
    """The smallest difference of paired rates that ``tasks`` tasks of ``seeds`` seeds detect.

    Parameters
    ----------
    tasks, seeds : int
    alpha, power : float
    discordance : float
        Assumed share of pairs that differ between the arms, in (0, 1].
    icc : float
        Assumed correlation of a task's seeds. They count as ``tasks / (icc + (1 - icc) / seeds)`` pairs, rounded
        down; with one seed that is the number of tasks and the result is exact.

    Returns
    -------
    DetectableEffect
        ``delta`` is undefined where even a one-way split of the assumed discordance lacks the power.
    """
    if tasks < 0 or seeds < 1 or not 0 < discordance <= 1 or not 0 <= icc <= 1:
        raise ValueError("need tasks >= 0, seeds >= 1, discordance in (0, 1] and icc in [0, 1]")
    pairs = math.floor(tasks / (icc + (1 - icc) / seeds) + 1e-9)
    needed = fewest_discordant(alpha)
    if tasks < needed:
        least_p = min(1.0, 2.0 ** (1 - tasks))
        why = (
            f"{tasks} task{'s' if tasks != 1 else ''}: even perfect separation gives p = {least_p:.4g}, above"
            f" alpha {alpha:g}; at least {needed} tasks are needed"
        )
        nothing = Undefined(why)
        return DetectableEffect(tasks, seeds, alpha, power, discordance, icc, pairs, nothing, nothing, why)
    delta = _invert(lambda d: mcnemar_power((discordance + d) / 2, (discordance - d) / 2, pairs, alpha=alpha),
                    power, discordance)  # fmt: skip
    one_way = _invert(lambda d: mcnemar_power(d, 0.0, pairs, alpha=alpha), power, 1.0)
    return DetectableEffect(tasks, seeds, alpha, power, discordance, icc, pairs, delta, one_way)


def _invert(power_at: Callable[[float], float], target: float, highest: float) -> float | Undefined:
    best = power_at(highest)
    if best < target:
        return Undefined(f"a difference of {highest:g}, all of it one way, is seen with power {best:.3f} only")
    low, high = 0.0, highest
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if power_at(middle) >= target else (middle, high)
    return high
