"""Tests of one paired 2x2 table, and their forms for clustered pairs.

Every test here is of marginal homogeneity: does the event happen as often in the baseline as in the
treatment? Concordant pairs carry nothing about it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recurve_eval.stats.results import PairedTable, ShapeError, Test, Undefined

NO_DISCORDANT = "no pair is discordant, so there is nothing to test"


def mcnemar_exact(table: PairedTable) -> Test:
    """Exact conditional (binomial) McNemar test; p is 1 where no pair is discordant.

    Source: Q. McNemar, Psychometrika 12 (1947) 153-157; computed by ``scipy.stats.binomtest``.
    """
    from scipy.stats import binomtest

    if table.discordant == 0:
        return Test("exact McNemar", 1.0, note=NO_DISCORDANT)
    p = binomtest(table.first_only, table.discordant, 0.5).pvalue
    return Test("exact McNemar", min(1.0, float(p)), float(min(table.first_only, table.second_only)))


def mcnemar_midp(table: PairedTable) -> Test:
    """Mid-p McNemar test: the exact p less the probability of the observed split.

    Source: Fagerland, Lydersen and Laake, BMC Medical Research Methodology 13 (2013) 91, eq. 3.
    Their worked example [[1, 1], [7, 12]] gives .0391 against an exact .0703.
    """
    from scipy.stats import binom

    n, low = table.discordant, min(table.first_only, table.second_only)
    if n == 0:
        return Test("mid-p McNemar", 1.0, note=NO_DISCORDANT)
    if table.first_only == table.second_only:
        p = 1.0 - float(binom.pmf(low, n, 0.5))
    else:
        p = 2.0 * float(binom.cdf(low, n, 0.5)) - float(binom.pmf(low, n, 0.5))
    return Test("mid-p McNemar", p, float(low))


def mcnemar_asymptotic(table: PairedTable, *, correction: bool = False) -> Test | Undefined:
    """Chi-square McNemar test on one degree of freedom, by ``statsmodels``.

    Parameters
    ----------
    correction : bool
        Subtract Edwards' continuity correction of 1 from the absolute difference.
    """
    from statsmodels.stats.contingency_tables import mcnemar

    if table.discordant == 0:
        return Undefined(NO_DISCORDANT)
    cells = [[table.both, table.first_only], [table.second_only, table.neither]]
    found = mcnemar(cells, exact=False, correction=correction)
    name = "McNemar chi-square" + (", continuity-corrected" if correction else "")
    return Test(name, float(found.pvalue), float(found.statistic), 1)


def mcnemar_clustered(
    first_only: Sequence[int], second_only: Sequence[int], sizes: Sequence[int], *, variant: str = "obuchowski"
) -> Test | Undefined:
    """McNemar's test for pairs in clusters, such as the seeds of one task.

    Parameters
    ----------
    first_only, second_only, sizes : sequences of int, shape (clusters,)
        Discordant pairs of either kind, and all pairs, per cluster.
    variant : str
        ``obuchowski`` (pooled, with the K/(K-1) factor), ``yang`` (the same without the factor) or
        ``durkalski`` (each cluster weighs the same, for cluster sizes that may carry information).

    Returns
    -------
    Test or Undefined
        Chi-square on one degree of freedom; undefined where every cluster's difference is zero or,
        for ``obuchowski``, there is one cluster.

    Notes
    -----
    With ``d = first_only - second_only`` per cluster and K clusters: Obuchowski, Statistics in Medicine
    17 (1998) 1495-1507, in the form of Yang, Sun and Hardin, Biometrical Journal 52 (2010) 638-652,
    ``(K-1)/K * sum(d)^2 / sum(d^2)``; Durkalski et al., Statistics in Medicine 22 (2003) 2417-2428,
    ``sum(d/n)^2 / sum((d/n)^2)``. All are large-sample in the number of clusters.
    """
    b, c, n = (np.asarray(x, dtype=float) for x in (first_only, second_only, sizes))
    if not b.shape == c.shape == n.shape or np.any(n <= 0) or np.any(b + c > n):
        raise ShapeError("clusters need equal-length counts, with at least one pair each and no more discordant pairs")
    k, d = len(n), b - c
    if variant == "durkalski":
        d = d / n
    elif variant not in ("obuchowski", "yang"):
        raise ValueError(f"unknown variant '{variant}'; known: durkalski, obuchowski, yang")
    if not np.any(d):
        return Undefined("every cluster's difference is zero, so there is nothing to test")
    if variant == "obuchowski" and k < 2:
        return Undefined("one cluster has no variance between clusters")
    factor = (k - 1) / k if variant == "obuchowski" else 1.0
    return _chi_square(f"clustered McNemar ({variant})", factor * float(d.sum() ** 2 / (d**2).sum()))


def _chi_square(method: str, statistic: float) -> Test:
    from scipy.special import chdtrc

    return Test(method, float(chdtrc(1, statistic)), statistic, 1)
