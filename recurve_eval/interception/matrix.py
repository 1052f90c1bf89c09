"""From decisions to numbers: what each layer catches, what it blocks wrongly, what it could not judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from recurve_eval.interception.items import DEFECT, DISPUTED, EQUIVALENT, FINE, UNSCORED
from recurve_eval.interception.rows import FAILED, UNABLE, Decision
from recurve_eval.stats import Rate, wilson_clustered

LISTED = 50
Table = Mapping[str, Sequence[Decision]]  # layer to its decisions


def by_layer(decisions: Iterable[Decision]) -> dict[str, list[Decision]]:
    """Decisions by layer, layers in their order."""
    found: dict[str, list[Decision]] = {}
    for d in decisions:
        found.setdefault(d.layer, []).append(d)
    return found


def rate(decisions: Iterable[Decision], event: Callable[[Decision], bool], confidence: float) -> Rate:
    """The share of decisions with an event, its interval taking the task as the unit (Wilson, design effect)."""
    sizes: Counter[str] = Counter()
    events: Counter[str] = Counter()
    for d in decisions:
        sizes[d.task_id] += 1
        events[d.task_id] += event(d)
    return wilson_clustered([events[t] for t in sizes], list(sizes.values()), confidence)


def matrix(table: Table, confidence: float, cumulative: bool) -> list[dict[str, Any]]:
    """One entry a layer: TPR, FPR, marginal TPR, what it blocks by itself, what it could not judge."""
    out: list[dict[str, Any]] = []
    below: set[str] = set()
    for layer, decided in table.items():
        scored = [d for d in decided if d.standing != UNSCORED]
        defects = [d for d in scored if d.standing == DEFECT]
        good = [d for d in scored if d.standing == FINE]
        same = [d for d in scored if d.standing == EQUIVALENT]
        stopped = [d for d in scored if d.stopped]
        fresh = {d.item for d in stopped} - below
        out.append({
            "layer": layer,
            "tpr": rate(defects, lambda d: d.stopped, confidence),
            "fpr": rate(good, lambda d: d.stopped, confidence),
            "marginal_tpr": rate(defects, _among(fresh), confidence)
            if cumulative else None,
            "marginal_fpr": rate(good, _among(fresh), confidence)
            if cumulative else None,
            "precision": rate(
                [d for d in stopped if d.standing in (DEFECT, FINE)], lambda d: d.standing == DEFECT, confidence
            ),
            "own_tpr": rate(_judged(defects), lambda d: d.own == "blocked", confidence),
            "own_fpr": rate(_judged(good), lambda d: d.own == "blocked", confidence),
            "equivalent_blocked": rate(same, lambda d: d.stopped, confidence),
            "broken": sum(d.outcome == "BROKEN" for d in scored),
            "unable": sum(d.own == UNABLE for d in scored),
            "unable_tasks": len({d.task_id for d in scored if d.own == UNABLE}),
            "unscored": len(decided) - len(scored),
        })  # fmt: skip
        below |= {d.item for d in stopped} if cumulative else set()
    return out


def _among(items: set[str]) -> Callable[[Decision], bool]:
    return lambda d: d.item in items


def _judged(decisions: Iterable[Decision]) -> list[Decision]:
    return [d for d in decisions if d.own not in (UNABLE, FAILED)]


def by_kind(table: Table, standing: str, confidence: float) -> list[dict[str, Any]]:
    """For each kind of defect (or of known-good work), the share that each layer stops."""
    kinds = sorted({d.kind for decided in table.values() for d in decided if d.standing == standing})
    out = []
    for kind in kinds:
        stopped = {}
        for layer, decided in table.items():
            mine = [d for d in decided if d.kind == kind and d.standing == standing]
            stopped[layer] = rate(mine, lambda d: d.stopped, confidence)
        out.append({"kind": kind, "stopped": stopped})
    return out


def census(table: Table) -> dict[str, Any]:
    """How many items there are of each standing, and the lists that a person should look at."""
    first = next(iter(table.values()), [])
    counts = Counter(d.standing for d in first)
    return {
        "items": len(first),
        "tasks": len({d.task_id for d in first}),
        "standing": {s: counts[s] for s in (DEFECT, FINE, EQUIVALENT, DISPUTED, UNSCORED)},
        "disputed": [f"{d.task_id}: {d.kind} is graded {d.verdict}" for d in first if d.standing == DISPUTED],
        "unscored": sorted({f"{d.task_id}: {d.why}" for ds in table.values() for d in ds if d.standing == UNSCORED}),
    }


def unable(table: Table) -> dict[str, dict[str, int]]:
    """Why a layer could not judge: layer to reason (its first line, without the task's own name) to tasks."""
    out: dict[str, dict[str, int]] = {}
    for layer, decided in table.items():
        why: dict[str, set[str]] = {}
        for d in decided:
            if d.own == UNABLE:
                why.setdefault(_reason(d), set()).add(d.task_id)
        if why:
            out[layer] = {reason: len(tasks) for reason, tasks in sorted(why.items())}
    return out


def _reason(d: Decision) -> str:
    first = (d.why.splitlines() or [""])[0]
    return first.replace(f"task {d.task_id}", "the task").split(" for the gate component")[0]


def timings(table: Table) -> dict[str, Any]:
    """Seconds a decision of each layer, and of a grading: median, 90th percentile, mean, number."""
    out = {layer: _spread([d.wall_s for d in decided if d.own != UNABLE]) for layer, decided in table.items()}
    gradings = [d.oracle_wall_s for d in next(iter(table.values()), []) if d.standing != UNSCORED]
    return {"decision_s": out, "grading_s": _spread(gradings)}


def _spread(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"n": 0}
    ranked = sorted(values)
    p90 = ranked[min(len(ranked) - 1, int(0.9 * len(ranked)))]
    return {"n": len(ranked), "median": median(ranked), "p90": p90, "mean": sum(ranked) / len(ranked)}
