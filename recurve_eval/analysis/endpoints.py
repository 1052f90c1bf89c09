"""A paired binary outcome compared between two arms: counts, test, difference, bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recurve_eval.analysis.metrics import Bounds
from recurve_eval.analysis.options import AnalysisOptions
from recurve_eval.analysis.pairing import Pair, Pairing
from recurve_eval.analysis.records import Record
from recurve_eval.stats import (
    Estimate,
    PairedTable,
    Test,
    Undefined,
    expanded_percentile,
    mcnemar_exact,
    mcnemar_midp,
    newcombe_paired,
    sign_flip,
    tango_paired,
)  # fmt: skip

Floats = NDArray[np.float64]
ENDPOINTS: dict[str, Callable[[Record], bool]] = {
    "ship_bad": lambda r: r.ship_bad,
    "ship_good": lambda r: r.ship_good,
    "oracle_pass": lambda r: r.good,
}
ONE_TASK = "one task supports no effect size: nothing varies between tasks"
NO_TASK = "no task has a verdict in both arms"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One outcome, treatment against baseline.

    Attributes
    ----------
    table : PairedTable
        All scored pairs, seeds included: for reading; with several seeds no test is made of it.
    baseline_rate, treatment_rate : float or Undefined
        Means over tasks of the mean over seeds, matched tasks only.
    effect : Estimate
        Treatment minus baseline: Newcombe's interval with one seed a task, task bootstrap with more.
    test : Test or Undefined
        Exact McNemar with one seed a task, sign flips over task means with more.
    alternatives : mapping
        The mid-p test and Tango's interval (one seed a task only), for comparison; never the verdict.
    bounds : Bounds
        The effect if the unscored cells had turned out best, and worst, for the treatment.
    tasks_lower, tasks_higher : int
        Tasks on which the event is rarer, and more frequent, in the treatment.
    """

    table: PairedTable
    baseline_rate: float | Undefined
    treatment_rate: float | Undefined
    effect: Estimate
    test: Test | Undefined
    alternatives: dict[str, Test | Estimate]
    bounds: Bounds
    tasks_lower: int
    tasks_higher: int


def endpoint(
    pairing: Pairing, event: Callable[[Record], bool], replicates: Floats, options: AnalysisOptions
) -> Endpoint:
    """Compare an event between the arms of a pairing.

    Parameters
    ----------
    pairing : Pairing
        With unscored cells, if any: they enter the bounds alone.
    replicates : array of shape (resamples,)
        Bootstrap replicates of the effect; used with several seeds a task.
    """
    scored = pairing.scored
    table, means = scored.seed_table(event), scored.task_means(event)
    effect, test, alternatives = _compare(scored, event, means, replicates, options)
    first, second = _rates(scored, event)
    return Endpoint(
        table, first, second, effect, test, alternatives, _bounds(pairing, event),
        int((means < 0).sum()), int((means > 0).sum()),
    )  # fmt: skip


def _compare(
    scored: Pairing, event: Callable[[Record], bool], means: Floats, replicates: Floats, options: AnalysisOptions
) -> tuple[Estimate, Test | Undefined, dict[str, Test | Estimate]]:
    tasks = len(means)
    if tasks < 2:
        reason = Undefined(ONE_TASK if tasks else NO_TASK)
        return Estimate(reason, reason, tasks), reason, {}
    if scored.single_seed:
        table = scored.table(event)
        reverse = table.swapped()
        others: dict[str, Test | Estimate] = {
            "mid_p": mcnemar_midp(table),
            "tango": tango_paired(reverse, options.confidence),
        }
        return newcombe_paired(reverse, options.confidence), mcnemar_exact(table), others
    interval = expanded_percentile(replicates, tasks, options.confidence)
    test = sign_flip(means.tolist(), resamples=options.resamples, seed=options.seed)
    return Estimate(float(means.mean()), interval, tasks), test, {}


def _rates(scored: Pairing, event: Callable[[Record], bool]) -> tuple[float | Undefined, float | Undefined]:
    if not scored.pairs:
        return Undefined(NO_TASK), Undefined(NO_TASK)
    sums = scored.task_sums([lambda p: event(p.baseline), lambda p: event(p.treatment), lambda p: 1.0])
    return float((sums[:, 0] / sums[:, 2]).mean()), float((sums[:, 1] / sums[:, 2]).mean())


def _bounds(pairing: Pairing, event: Callable[[Record], bool]) -> Bounds:
    unknown = sum(not p.scored for p in pairing.pairs)
    if not pairing.pairs:
        return Bounds(Undefined("there are no matched cells"), Undefined("there are no matched cells"), 0)

    def filled(treatment: float, baseline: float) -> float:
        def change(p: Pair) -> float:
            second = float(event(p.treatment)) if p.treatment.scored else treatment
            first = float(event(p.baseline)) if p.baseline.scored else baseline
            return second - first

        sums = pairing.task_sums([change, lambda p: 1.0])
        return float((sums[:, 0] / sums[:, 1]).mean())

    return Bounds(filled(0.0, 1.0), filled(1.0, 0.0), unknown)
