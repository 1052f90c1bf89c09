"""One proportion: Wilson's interval, its clustered form, and the correction for an imperfect oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recurve_eval.stats.results import Interval, Rate, ShapeError, Undefined

NOTHING = "no observation is in the denominator"


def normal_quantile(confidence: float) -> float:
    """The two-sided normal quantile, 1.959964 for 0.95."""
    from scipy.special import ndtri

    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies strictly between 0 and 1; got {confidence}")
    return float(ndtri(0.5 + confidence / 2))


def score_limits(count: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's limits for ``count`` of ``n``; both may be fractional (effective sample sizes).

    Source: E. B. Wilson, JASA 22 (1927) 209-212. ``n`` must be positive.
    """
    z = normal_quantile(confidence)
    p = count / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if count <= 0 else (centre - half) / scale
    high = 1.0 if count >= n else (centre + half) / scale
    return max(0.0, low), min(1.0, high)


def wilson(count: int, n: int, confidence: float = 0.95) -> Rate:
    """A proportion of independent observations with Wilson's score interval.

    Parameters
    ----------
    count, n : int
        Events and observations, ``0 <= count <= n``.
    confidence : float
        In (0, 1).

    Returns
    -------
    Rate
        Undefined value and interval where ``n`` is 0.

    Raises
    ------
    ShapeError
        If ``count`` is not in ``0..n``.
    """
    if not 0 <= count <= n:
        raise ShapeError(f"{count} events of {n} observations is no proportion")
    if n == 0:
        return Rate(0, 0, 0, Undefined(NOTHING), Undefined(NOTHING))
    low, high = score_limits(count, n, confidence)
    return Rate(count, n, n, count / n, Interval(low, high, confidence, "Wilson"))


def design_effect(events: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
    """Variance of a clustered proportion over that of a simple random sample, at least 1.

    Parameters
    ----------
    events, sizes : int arrays of shape (clusters,)
        Events and observations per cluster, ``sizes > 0``.

    Notes
    -----
    Rao and Scott, Biometrics 48 (1992) 577-585. Where the proportion is 0 or 1 no variance can be seen,
    and where there is one cluster none can be estimated: both take the worst case, the mean cluster size.
    """
    n, k = int(sizes.sum()), len(sizes)
    p = float(events.sum()) / n
    if k < 2 or p in (0.0, 1.0):
        return n / k
    residual = events - p * sizes
    clustered = k / (k - 1) * float((residual**2).sum()) / n**2
    return max(1.0, clustered / (p * (1 - p) / n))


def wilson_clustered(events: Sequence[int], sizes: Sequence[int], confidence: float = 0.95) -> Rate:
    """A proportion whose observations come in clusters (several seeds of one task).

    Wilson's interval at the effective sample size ``n / deff``, with Student's quantile of
    ``clusters - 1`` degrees of freedom in place of the normal one where clusters hold more than one
    observation. With one observation per cluster this is Wilson's interval, exactly.

    Parameters
    ----------
    events, sizes : sequences of int, shape (clusters,)
        Clusters of size 0 are ignored.
    """
    kept = [(e, m) for e, m in zip(events, sizes, strict=True) if m > 0]
    count, n, k = sum(e for e, _ in kept), sum(m for _, m in kept), len(kept)
    if n == k:
        return wilson(count, n, confidence)
    if not 0 <= count <= n:
        raise ShapeError(f"{count} events of {n} observations is no proportion")
    deff = design_effect(np.array([e for e, _ in kept]), np.array([m for _, m in kept]))
    effective = n / deff
    if k > 1:
        effective *= (normal_quantile(confidence) / _student_quantile(confidence, k - 1)) ** 2
    low, high = score_limits(count / n * effective, effective, confidence)
    method = f"Wilson at effective n {effective:.1f} (design effect {n / effective:.2f}, {k} tasks)"
    return Rate(count, n, k, count / n, Interval(low, high, confidence, method))


def _student_quantile(confidence: float, df: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + confidence / 2))


def corrected_rate(observed: float, fails_bad: float, passes_good: float) -> float | Undefined:
    """The true rate of bad work behind an observed one, given how the oracle errs.

    Parameters
    ----------
    observed : float
        Share that the oracle failed, in [0, 1].
    fails_bad : float
        P(oracle fails | bad), from known-bad solutions.
    passes_good : float
        P(oracle passes | good), from canonical solutions.

    Returns
    -------
    float or Undefined
        Clipped to [0, 1]; undefined where the oracle tells good from bad no better than chance.

    Notes
    -----
    Rogan and Gladen, American Journal of Epidemiology 107 (1978) 71-76.
    """
    youden = fails_bad + passes_good - 1
    if youden <= 0:
        return Undefined("the oracle fails bad work no more often than good work, so its verdicts carry nothing")
    return min(1.0, max(0.0, (observed + passes_good - 1) / youden))
