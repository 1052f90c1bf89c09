"""Several arms at once, and several contrasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from recurve_eval.stats.results import ShapeError, Test, Undefined


def cochran_q(events: Sequence[Sequence[int]]) -> Test | Undefined:
    """Cochran's Q: does a binary event happen as often in each of several matched arms?

    Parameters
    ----------
    events : array-like of 0 and 1, shape (tasks, arms)
        One observation per task and arm.

    Returns
    -------
    Test or Undefined
        Chi-square on ``arms - 1`` degrees of freedom, by ``statsmodels``; undefined where every task
        has the same outcome in all arms.

    Raises
    ------
    ShapeError
        Fewer than two arms, no task, or values other than 0 and 1.
    """
    from statsmodels.stats.contingency_tables import cochrans_q

    x = np.asarray(events)
    if x.ndim != 2 or x.shape[0] == 0 or x.shape[1] < 2 or not np.isin(x, (0, 1)).all():
        raise ShapeError("Cochran's Q needs a (tasks, arms) table of 0 and 1 with at least two arms")
    if np.all(x == x[:, :1]):
        return Undefined("every task has the same outcome in all arms, so there is nothing to test")
    found = cochrans_q(x)
    return Test("Cochran Q", float(found.pvalue), float(found.statistic), int(found.df))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjusted p-values, by ``statsmodels``; keys and their order are kept.

    Source: S. Holm, Scandinavian Journal of Statistics 6 (1979) 65-70. Holds the family-wise error
    under any dependence.
    """
    from statsmodels.stats.multitest import multipletests

    if not p_values:
        return {}
    if any(not 0 <= p <= 1 for p in p_values.values()):
        raise ShapeError("a p-value lies between 0 and 1")
    adjusted = multipletests(list(p_values.values()), method="holm")[1]
    return {name: float(p) for name, p in zip(p_values, adjusted, strict=True)}
