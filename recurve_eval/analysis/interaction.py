"""Questions over more than two groups: several arms at once, and one gate under several models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from recurve_eval.analysis.contrast import Contrast
from recurve_eval.analysis.options import AnalysisOptions
from recurve_eval.analysis.pairing import index_cells
from recurve_eval.analysis.records import Record, Stratum, natural
from recurve_eval.stats import (
    Estimate,
    Test,
    Undefined,
    cochran_q,
    expanded_percentile,
    resampled_sums,
    sign_flip,
)
from recurve_eval.stats.resample import divided

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Omnibus:
    """Cochran's Q for P(ship bad) over all arms of a stratum, on tasks with a verdict in every arm."""

    stratum: Stratum
    arms: tuple[str, ...]
    tasks: int
    test: Test | Undefined


def omnibus(stratum: Stratum, records: Sequence[Record]) -> Omnibus:
    """Do the arms of a stratum differ at all?"""
    arms = tuple(sorted({r.arm for r in records}, key=natural))
    cells = index_cells(records)
    keys = sorted({r.key for r in records})
    complete = [k for k in keys if all((a, k) in cells and cells[a, k].scored for a in arms)]
    tasks = len({k.task_id for k in complete})
    if len(arms) < 3:
        return Omnibus(stratum, arms, tasks, Undefined("Cochran's Q needs three arms; two are a paired contrast"))
    if len(complete) > tasks:
        return Omnibus(stratum, arms, tasks, Undefined("several seeds a task are not independent observations"))
    if tasks < 2:
        return Omnibus(stratum, arms, tasks, Undefined("fewer than two tasks have a verdict in every arm"))
    events = [[int(cells[a, k].ship_bad) for a in arms] for k in complete]
    return Omnibus(stratum, arms, tasks, cochran_q(events))


@dataclass(frozen=True, slots=True)
class Interaction:
    """Does the gate change P(ship bad) more under one model than under another?

    ``effect`` is the change under ``models[1]`` less the change under ``models[0]``, on tasks that both have,
    with a task-bootstrap interval; ``test`` flips signs of the tasks' differences of differences.
    """

    benchmark: str
    agent: str
    budget: str
    baseline: str
    treatment: str
    models: tuple[str, str]
    tasks: int
    effect: Estimate
    test: Test | Undefined


def interactions(contrasts: Sequence[Contrast], options: AnalysisOptions) -> list[Interaction]:
    """Interactions of the planned contrasts over every two models of one benchmark, agent and budget."""
    groups: dict[tuple[str, ...], list[Contrast]] = {}
    for c in contrasts:
        if c.role in ("primary", "declared"):
            s = c.stratum
            groups.setdefault((s.benchmark, s.agent, s.budget, c.baseline, c.treatment), []).append(c)
    couples = [(a, b) for group in groups.values() for a, b in combinations(group, 2)]
    return [_interaction(a, b, sums, options) for (a, b), sums in zip(couples, _draws(couples, options), strict=True)]


def _draws(couples: Sequence[tuple[Contrast, Contrast]], options: AnalysisOptions) -> list[Floats]:
    """Bootstrap sums (difference, count) of each couple, all from the same draws of tasks."""
    differences = [_differences(a, b) for a, b in couples]
    tasks = sorted({task for d in differences for task in d})
    if not tasks:
        return [np.full((1, 2), np.nan)] * len(couples)
    columns = [[x for d in differences for x in ((d[t], 1.0) if t in d else (0.0, 0.0))] for t in tasks]
    sums = resampled_sums(columns, resamples=options.resamples, seed=options.seed)
    return np.split(sums, len(couples), axis=1)


def _differences(a: Contrast, b: Contrast) -> dict[str, float]:
    return {task: b.per_task[task] - a.per_task[task] for task in sorted(a.per_task.keys() & b.per_task.keys())}


def _interaction(a: Contrast, b: Contrast, sums: Floats, options: AnalysisOptions) -> Interaction:
    d = list(_differences(a, b).values())
    if len(d) < 2:
        nothing = Undefined("fewer than two tasks have verdicts under both models")
        return Interaction(*_where(a, b), len(d), Estimate(nothing, nothing, len(d)), nothing)
    interval = expanded_percentile(divided(sums[:, 0], sums[:, 1]), len(d), options.confidence)
    test = sign_flip(d, resamples=options.resamples, seed=options.seed)
    return Interaction(*_where(a, b), len(d), Estimate(float(np.mean(d)), interval, len(d)), test)


def _where(a: Contrast, b: Contrast) -> tuple[str, str, str, str, str, tuple[str, str]]:
    s = a.stratum
    return s.benchmark, s.agent, s.budget, a.baseline, a.treatment, (s.model, b.stratum.model)
