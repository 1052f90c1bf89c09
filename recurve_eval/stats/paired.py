"""Intervals for the difference of two paired proportions, treatment minus baseline by default."""

from __future__ import annotations

import math
from collections.abc import Callable

from recurve_eval.stats.proportions import normal_quantile, score_limits
from recurve_eval.stats.results import Estimate, Interval, PairedTable, Undefined

NO_PAIRS = "there are no pairs"


def newcombe_paired(table: PairedTable, confidence: float = 0.95) -> Estimate:
    """Newcombe's square-and-add interval (his method 10) for baseline minus treatment.

    Parameters
    ----------
    table : PairedTable
    confidence : float
        In (0, 1).

    Returns
    -------
    Estimate
        ``(first - second) / n`` in [-1, 1]; undefined without pairs.

    Notes
    -----
    R. G. Newcombe, Statistics in Medicine 17 (1998) 2635-2650: Wilson limits of each margin, joined with
    a phi whose numerator is reduced by n/2 where positive (not below 0). [[59, 6], [16, 80]] gives
    (-.1186, -.0046).
    """
    n = table.n
    if n == 0:
        return Estimate(Undefined(NO_PAIRS), Undefined(NO_PAIRS), 0)
    p1, p2 = table.first / n, table.second / n
    (l1, u1), (l2, u2) = score_limits(table.first, n, confidence), score_limits(table.second, n, confidence)
    phi = _corrected_phi(table)
    down = _joined(p1 - l1, u2 - p2, phi)
    up = _joined(u1 - p1, p2 - l2, phi)
    d = p1 - p2
    return Estimate(d, Interval(max(-1.0, d - down), min(1.0, d + up), confidence, "Newcombe method 10"), n)


def _joined(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(0.0, first**2 - 2 * phi * first * second + second**2))


def _corrected_phi(t: PairedTable) -> float:
    margins = t.first * (t.n - t.first) * t.second * (t.n - t.second)
    if margins == 0:
        return 0.0
    cross = float(t.both * t.neither - t.first_only * t.second_only)
    if cross > 0:
        cross = max(0.0, cross - t.n / 2)
    return cross / math.sqrt(margins)


def tango_paired(table: PairedTable, confidence: float = 0.95) -> Estimate:
    """Tango's score interval for baseline minus treatment.

    Same parameters and result as :func:`newcombe_paired`. The limits are where the score statistic
    with the nuisance parameter at its restricted maximum-likelihood estimate equals the normal quantile.

    Notes
    -----
    T. Tango, Statistics in Medicine 17 (1998) 891-908. [[59, 6], [16, 80]] gives (-.1240, -.0054).
    """
    n = table.n
    if n == 0:
        return Estimate(Undefined(NO_PAIRS), Undefined(NO_PAIRS), 0)
    z = normal_quantile(confidence)
    d = (table.first_only - table.second_only) / n
    low = _crossing(lambda delta: _tango_score(table, delta) - z, -1.0, d)
    high = _crossing(lambda delta: _tango_score(table, delta) + z, d, 1.0)
    return Estimate(d, Interval(low, high, confidence, "Tango score"), n)


def _tango_score(t: PairedTable, delta: float) -> float:
    b, c, n = t.first_only, t.second_only, t.n
    linear = -b - c + (2 * n - b + c) * delta
    q21 = (math.sqrt(max(0.0, linear**2 + 8 * n * c * delta * (1 - delta))) - linear) / (4 * n)
    variance = n * (2 * q21 + delta * (1 - delta))
    gap = b - c - n * delta
    if variance <= 1e-14:
        return 0.0 if abs(gap) < 1e-12 else math.copysign(math.inf, gap)
    return gap / math.sqrt(variance)


def _crossing(f: Callable[[float], float], low: float, high: float) -> float:
    """Bisection for a decreasing function; an end that never crosses is the limit itself."""
    if f(low) <= 0:
        return low
    if f(high) >= 0:
        return high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    return (low + high) / 2
