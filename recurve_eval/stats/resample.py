"""Tests and intervals that take the task as the unit: sign flips and the task-cluster bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recurve_eval.stats.results import Estimate, Interval, ShapeError, Test, Undefined

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]

_WORK = 50_000_000  # additions that an exact sign-flip may take before sampling is used instead
_CHUNK = 2_000_000  # resampled task indices held in memory at once


def sign_flip(differences: Sequence[float], *, resamples: int = 10_000, seed: int = 0) -> Test | Undefined:
    """Sign-flip permutation test that task mean differences are symmetric about zero, two-sided.

    Exact: the whole null distribution is built by convolution wherever the differences are multiples of
    a common fraction, as means of binary outcomes are. The smallest p with n tasks is ``2**(1 - n)``,
    whatever the number of seeds: four tasks of three seeds, all won, give 2/16.

    Parameters
    ----------
    differences : sequence of float, shape (tasks,)
        Treatment minus baseline, each the mean over the task's seeds.
    resamples, seed : int
        Used only where no exact computation is feasible; then ``(1 + as extreme) / (1 + resamples)``.

    Returns
    -------
    Test or Undefined
        ``statistic`` is the mean difference; undefined without tasks.

    Notes
    -----
    R. A. Fisher, The Design of Experiments (1935), section 21. With one seed a task this is exact McNemar.
    """
    d = np.asarray(differences, dtype=float)
    if d.ndim != 1:
        raise ShapeError("sign flips take one mean difference per task, shape (tasks,)")
    if d.size == 0:
        return Undefined("there are no matched tasks")
    whole = _as_integers(d[d != 0])
    if whole is not None:
        return Test("sign-flip over task means, exact", _exact_flip(whole), float(d.mean()))
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), size=(resamples, d.size))
    hits = int((np.abs(signs @ d) >= abs(d.sum()) - 1e-9).sum())
    return Test(f"sign-flip over task means, {resamples} flips", (1 + hits) / (1 + resamples), float(d.mean()))


def _as_integers(d: Floats) -> list[int] | None:
    fractions = [Fraction(float(x)).limit_denominator(1000) for x in d]
    if any(abs(float(f) - x) > 1e-12 for f, x in zip(fractions, d, strict=True)):
        return None
    scale = math.lcm(*(f.denominator for f in fractions)) if fractions else 1
    whole = [int(f * scale) for f in fractions]
    return whole if len(whole) * sum(map(abs, whole)) <= _WORK else None


def _exact_flip(d: list[int]) -> float:
    reach = sum(map(abs, d))
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for step in map(abs, d):
        after = np.zeros_like(chance)
        after[step:] += chance[: len(chance) - step] / 2
        after[: len(chance) - step] += chance[step:] / 2
        chance = after
    observed = abs(sum(d))
    sums = np.abs(np.arange(-reach, reach + 1))
    return float(min(1.0, chance[sums >= observed].sum()))


def resampled_sums(columns: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> Floats:
    """Column sums of tasks drawn with replacement.

    Parameters
    ----------
    columns : array of shape (tasks, columns)
        Per-task sums (events, sizes, tokens) of every arm; one draw resamples all columns together, which
        keeps the pairing.
    resamples, seed : int

    Returns
    -------
    array of shape (resamples, columns)

    Notes
    -----
    Work is ``resamples * tasks * columns``; 10,000 resamples of 1,000 tasks and 11 arms take about a second.
    """
    x = np.asarray(columns, dtype=float)
    if x.ndim != 2 or x.shape[0] == 0:
        raise ShapeError("the bootstrap takes a (tasks, columns) table with at least one task")
    tasks, rng = x.shape[0], np.random.default_rng(seed)
    out = np.empty((resamples, x.shape[1]))
    step = max(1, _CHUNK // tasks)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = rng.integers(0, tasks, size=(size, tasks)) + np.arange(size)[:, None] * tasks
        times = np.bincount(drawn.ravel(), minlength=size * tasks).reshape(size, tasks)
        out[start : start + size] = times.astype(float) @ x
    return out


def expanded_percentile(replicates: ArrayLike, tasks: int, confidence: float = 0.95) -> Interval | Undefined:
    """Percentile interval, its tail widened for few tasks.

    The nominal tail is replaced by ``Phi(-sqrt(n / (n - 1)) * t)``, ``t`` being Student's quantile on
    n - 1 degrees of freedom: T. Hesterberg, The American Statistician 69 (2015) 371-386, section 5.

    Parameters
    ----------
    replicates : array of shape (resamples,)
        Bootstrap replicates; NaN where a replicate is undefined.
    tasks : int

    Returns
    -------
    Interval or Undefined
        Undefined with fewer than two tasks, where replicates do not vary, or where more than one in a
        hundred is itself undefined.
    """
    from scipy.special import ndtr, stdtrit

    if tasks < 2:
        return Undefined("one task supports no interval: nothing varies between tasks")
    values = np.asarray(replicates, dtype=float)
    known = values[np.isfinite(values)]
    lost = len(values) - len(known)
    if lost > 0.01 * len(values):
        return Undefined(f"{lost} of {len(values)} bootstrap replicates are themselves undefined")
    if np.ptp(known) <= 1e-12 * max(1.0, float(np.abs(known).max())):
        return Undefined("all tasks agree, so the bootstrap sees no variation and would claim certainty")
    t = stdtrit(tasks - 1, 0.5 + confidence / 2)
    tail = float(ndtr(-math.sqrt(tasks / (tasks - 1)) * t))
    low, high = np.quantile(known, [tail, 1 - tail])
    return Interval(float(low), float(high), confidence, f"task bootstrap, {len(values)} resamples")


def cluster_bootstrap(
    columns: ArrayLike, statistic: Statistic, *, resamples: int = 10_000, seed: int = 0, confidence: float = 0.95
) -> Estimate:
    """A statistic of column sums with its task-cluster bootstrap interval.

    Parameters
    ----------
    columns : array of shape (tasks, columns)
    statistic : callable
        Maps sums of shape (k, columns) to values of shape (k,), NaN where undefined.
    resamples, seed : int
    confidence : float
    """
    x = np.asarray(columns, dtype=float)
    if x.ndim != 2 or x.shape[0] == 0:
        return Estimate(Undefined("there are no matched tasks"), Undefined("there are no matched tasks"), 0)
    value = float(statistic(x.sum(axis=0, keepdims=True))[0])
    if not math.isfinite(value):
        reason = Undefined("its denominator is zero")
        return Estimate(reason, reason, x.shape[0])
    if x.shape[0] < 2:
        return Estimate(value, expanded_percentile([value], 1, confidence), 1)
    replicates = statistic(resampled_sums(x, resamples=resamples, seed=seed))
    return Estimate(value, expanded_percentile(replicates, x.shape[0], confidence), x.shape[0])


def ratio(numerator: int, denominator: int) -> Statistic:
    """The statistic ``column[numerator] / column[denominator]``, undefined where that is zero."""

    def of(sums: Floats) -> Floats:
        return divided(sums[:, numerator], sums[:, denominator])

    return of


def divided(a: Floats, b: Floats) -> Floats:
    """``a / b``, NaN where ``b`` is zero."""
    return np.asarray(np.divide(a, b, out=np.full(np.shape(a), np.nan), where=b != 0), dtype=float)
