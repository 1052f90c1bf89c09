"""Comparing two conditional rates whose denominators differ: predictive values, and the FDR of two arms.

McNemar's test does not apply to delta FDR: a task enters an arm's denominator only where that arm
declared it done.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recurve_eval.stats.mcnemar import _chi_square
from recurve_eval.stats.results import ShapeError, Test, Undefined

Floats = NDArray[np.float64]
_CHUNK = 2_000_000  # swap indicators held in memory at once
NO_VARIANCE = "the observed rates leave no variance to test against"


def weighted_generalised_score(
    diseased: Sequence[int], healthy: Sequence[int], *, negative: bool = False
) -> Test | Undefined:
    """Kosinski's weighted generalised score test of two positive predictive values on the same subjects.

    Parameters
    ----------
    diseased, healthy : sequences of int, shape (4,)
        Counts by (first test, second test) result: ``++, +-, -+, --``.
    negative : bool
        Compare negative predictive values instead.

    Returns
    -------
    Test or Undefined
        Chi-square on one degree of freedom; undefined where a test is never positive (negative) or
        there is no variance.

    Notes
    -----
    A. S. Kosinski, Statistics in Medicine 32 (2013) 964-977. Diseased 319, 78, 22, 32 and healthy 31, 53,
    22, 155 give PPVs .82536383 and .86548223, T = 5.46588745, p = .01939120.
    """
    if len(diseased) != 4 or len(healthy) != 4 or min(*diseased, *healthy) < 0:
        raise ShapeError("predictive values need four non-negative counts each: ++, +-, -+, --")
    hit, miss = (healthy[::-1], diseased[::-1]) if negative else (diseased, healthy)
    both, first, second = (hit[i] + miss[i] for i in range(3))
    n1, n2 = both + first, both + second
    if n1 == 0 or n2 == 0:
        return Undefined("a test never gives the result whose predictive value is compared")
    pooled = (2 * hit[0] + hit[1] + hit[2]) / (n1 + n2)
    shared = (hit[0] * (1 - pooled) ** 2 + miss[0] * pooled**2) / (n1 + n2)
    variance = (pooled * (1 - pooled) - 2 * shared) * (1 / n1 + 1 / n2)
    if variance <= 1e-15:
        return Undefined(NO_VARIANCE)
    gap = (hit[0] + hit[1]) / n1 - (hit[0] + hit[2]) / n2
    return _chi_square("weighted generalised score (Kosinski 2013)", gap**2 / variance)


def _four_columns(n1: ArrayLike, bad1: ArrayLike, n2: ArrayLike, bad2: ArrayLike) -> tuple[Floats, ...]:
    columns = tuple(np.asarray(x, dtype=float) for x in (n1, bad1, n2, bad2))
    if len({c.shape for c in columns}) != 1 or columns[0].ndim != 1:
        raise ShapeError("the four per-task counts need one shape, (tasks,)")
    if np.any(columns[1] > columns[0]) or np.any(columns[3] > columns[2]) or min(c.min(initial=0) for c in columns) < 0:
        raise ShapeError("a task cannot have more bad work than declared work")
    return columns


def fdr_score(n1: ArrayLike, bad1: ArrayLike, n2: ArrayLike, bad2: ArrayLike) -> Test | Undefined:
    """Generalised score test of equal FDR in two end-to-end arms on the same tasks.

    Unlike two diagnostic tests of one subject, two arms each make their own work: a task may be bad in one
    and good in the other. The score keeps Kosinski's pooled-weight form, with the covariance summed over
    whole tasks, so that several seeds of a task count as one cluster.

    Parameters
    ----------
    n1, bad1, n2, bad2 : int arrays of shape (tasks,)
        Declared (and scored) work and bad declared work per task, baseline then treatment.

    Returns
    -------
    Test or Undefined
        Chi-square on one degree of freedom; undefined where an arm declared nothing. Large-sample:
        reports use :func:`fdr_permutation`, which holds its size at every n; see the coverage table.
    """
    n1, bad1, n2, bad2 = _four_columns(n1, bad1, n2, bad2)
    total1, total2 = float(n1.sum()), float(n2.sum())
    if total1 == 0 or total2 == 0:
        return Undefined("an arm declared nothing, so its FDR is undefined")
    pooled = float((bad1 + bad2).sum()) / (total1 + total2)
    r1, r2 = bad1 - pooled * n1, bad2 - pooled * n2
    if np.all(n1 <= 1) and np.all(n2 <= 1):
        variance = pooled * (1 - pooled) * (1 / total1 + 1 / total2) - 2 * float(r1 @ r2) / (total1 * total2)
    else:
        k = int(((n1 > 0) | (n2 > 0)).sum())
        variance = float(((r1 / total1 - r2 / total2) ** 2).sum()) * (k / (k - 1) if k > 1 else math.inf)
    if not 1e-15 < variance < math.inf:
        return Undefined(NO_VARIANCE)
    gap = float(bad1.sum()) / total1 - float(bad2.sum()) / total2
    return _chi_square("generalised score for FDR", gap**2 / variance)


def fdr_permutation(
    n1: ArrayLike, bad1: ArrayLike, n2: ArrayLike, bad2: ArrayLike, *, resamples: int = 10_000, seed: int = 0
) -> Test | Undefined:
    """Permutation test of equal FDR: the two arms of a task change places, all its seeds together.

    The statistic is the absolute score z, with its task-robust variance recomputed in each permutation.
    Exact where the arms are exchangeable within a task, so it holds its size at any number of tasks;
    studentised, so that it stays near it where only the FDRs are equal (Chung and Romano, Annals of
    Statistics 41 (2013) 484-507).

    Parameters
    ----------
    n1, bad1, n2, bad2 : int arrays of shape (tasks,)
        As in :func:`fdr_score`.
    resamples, seed : int
        Random swaps; the p-value is ``(1 + as extreme) / (1 + resamples)``, or exact over all
        ``2**d`` swaps of the d tasks that differ where these are no more than ``resamples``.
    """
    n1, bad1, n2, bad2 = _four_columns(n1, bad1, n2, bad2)
    if n1.sum() == 0 or n2.sum() == 0:
        return Undefined("an arm declared nothing, so its FDR is undefined")
    pooled = float((bad1 + bad2).sum() / (n1 + n2).sum())
    if pooled in (0.0, 1.0):
        return Undefined("all declared work has the same verdict, so there is nothing to test")
    null = _SwapNull(n1, bad1 - pooled * n1, n2, bad2 - pooled * n2)
    observed = float(null.z(np.zeros((1, null.differing)))[0])
    exact = null.differing < 31 and 2**null.differing <= resamples
    total = 2**null.differing if exact else resamples
    blocks = _all_swaps(null.differing) if exact else _random_swaps(null.differing, resamples, seed)
    hits = sum(int((null.z(block) >= observed - 1e-9).sum()) for block in blocks)
    name = "task-swap permutation for FDR" + (", exact" if exact else f", {resamples} swaps")
    return Test(name, hits / total if exact else (1 + hits) / (1 + total), observed)


def _all_swaps(tasks: int) -> Iterator[Floats]:
    codes = np.arange(2**tasks)[:, None] >> np.arange(tasks)[None, :]
    yield (codes & 1).astype(float)


def _random_swaps(tasks: int, resamples: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // tasks)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        yield rng.integers(0, 2, size=(size, tasks), dtype=np.int8).astype(float)


class _SwapNull:
    """The score z of an FDR difference under swaps; every ingredient of it is linear in their indicators.

    Tasks whose two arms look the same are left out of the swaps: exchanging them changes nothing.
    """

    def __init__(self, n1: Floats, r1: Floats, n2: Floats, r2: Floats) -> None:
        moves = np.column_stack([n2 - n1, r2 - r1, r2**2 - r1**2])
        self._moves = moves[(n1 != n2) | (r1 != r2)]
        self.differing = len(self._moves)
        self._start = np.array([n1.sum(), r1.sum(), (r1**2).sum()])
        self._other = np.array([n2.sum(), (r2**2).sum()])
        self._cross = float(r1 @ r2)

    def z(self, swaps: Floats) -> Floats:
        """Absolute z of each swap, shape (k,) from indicators of shape (k, differing)."""
        moved = swaps @ self._moves
        total1, residual, squares1 = (self._start + moved).T
        total2, squares2 = self._other[0] - moved[:, 0], self._other[1] - moved[:, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = residual * (1 / total1 + 1 / total2)
            variance = squares1 / total1**2 + squares2 / total2**2 - 2 * self._cross / (total1 * total2)
            z = np.abs(gap) / np.sqrt(variance)
        # A swap that leaves an arm empty, or no variance against a gap, is the most extreme there is.
        certain = (total1 <= 0) | (total2 <= 0) | ((variance <= 1e-14) & (np.abs(gap) > 1e-12))
        return np.where(certain, np.inf, np.where(variance <= 1e-14, 0.0, z))
