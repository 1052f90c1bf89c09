"""How detection grows with the number of checks, of traps and of fuzz mutants, from decisions already made.

Each is an expectation over every choice that could have been made (hypergeometric), not a draw.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import Any

from recurve_eval.interception.items import DEFECT, EQUIVALENT, FINE
from recurve_eval.interception.rows import PASSED, UNABLE, Decision
from recurve_eval.stats import Estimate, cluster_bootstrap
from recurve_eval.stats.resample import ratio

STEPS = (1, 2, 3, 4, 6, 8, 12, 16)
THRESHOLD = 0.25
_LINE = re.compile(r"(?:RED|GREEN) checks (\d+) failed((?: \d+)*)")


def curves(decided: Sequence[Decision], seed: int, resamples: int) -> dict[str, Any]:
    """The curves of one layer that judges by claims; a curve without any datum is left out."""
    judged = [d for d in decided if d.own not in (UNABLE, "failed")]
    found = {
        "checks": _by_checks(judged, seed, resamples),
        "traps": _by_traps(judged, seed, resamples),
        "fuzz": _by_fuzz(judged, seed, resamples),
    }
    return {name: curve for name, curve in found.items() if curve}


def _by_checks(judged: Sequence[Decision], seed: int, resamples: int) -> list[dict[str, Any]]:
    """Share of defects stopped, and of good work blocked, by a random k of an author's checks."""
    sizes = {d.item: size for d in judged if (size := _failed(d)) is not None}
    if not sizes:
        return []
    out = []
    for k in STEPS:
        if k > max(n for n, _ in sizes.values()):
            break
        point = {"k": k}
        for name, standing in (("tpr", DEFECT), ("fpr", FINE)):
            chances: dict[str, list[float]] = {}
            for d in judged:
                if d.standing == standing:
                    n, f = sizes.get(d.item, (1, 1 if d.own != PASSED else 0))
                    chances.setdefault(d.task_id, []).append(1 - _none_of(n, f, min(k, n)))
            point[name] = _mean(chances, seed, resamples)  # type: ignore[assignment]
        out.append(point)
    return out


def _failed(d: Decision) -> tuple[int, int] | None:
    """How many checks an item was put to and how many it failed; None where the probe does not say."""
    runs = (d.facts.get("claims") or {}).get("runs") or []
    said = _LINE.match(runs[0][3]) if runs else None
    return (int(said[1]), len(said[2].split())) if said else None


def _none_of(n: int, f: int, k: int) -> float:
    """The chance that ``k`` of ``n`` things hold none of ``f`` special ones."""
    return comb(n - f, k) / comb(n, k)


def _by_traps(judged: Sequence[Decision], seed: int, resamples: int) -> list[dict[str, Any]]:
    """Claims are admitted when they reject t defects drawn as traps; what those stop of the other defects."""
    counts = _counts(judged, (DEFECT,))
    out = []
    for t in (0, *STEPS):
        rows, admitted = [], []
        for n, caught in counts.values():
            if n <= t:
                continue
            chance = comb(caught, t) / comb(n, t)
            rows.append([chance * (caught - t) / (n - t), chance])
            admitted.append([chance, 1.0])
        if rows and sum(r[1] for r in rows) > 0:
            out.append({
                "k": t, "tpr": cluster_bootstrap(rows, ratio(0, 1), seed=seed, resamples=resamples),
                "admitted": cluster_bootstrap(admitted, ratio(0, 1), seed=seed, resamples=resamples),
            })  # fmt: skip
    return out


def _by_fuzz(judged: Sequence[Decision], seed: int, resamples: int) -> list[dict[str, Any]]:
    """The chance that m mutants of right work find out claims that let more than a quarter of its defects through."""
    seeded = [d for d in judged if d.role == "seeded"]
    everything, real = _counts(seeded, (DEFECT, EQUIVALENT)), _counts(seeded, (DEFECT,))
    weak = {t for t, (n, caught) in real.items() if n - caught > THRESHOLD * n}
    out = []
    for m in STEPS:
        point: dict[str, Any] = {"k": m}
        for name, tasks in (("tpr", weak), ("fpr", set(real) - weak)):
            chances = {
                t: [_refused(n, n - caught, m)] for t in sorted(tasks) for n, caught in [everything[t]] if n >= m
            }
            point[name] = _mean(chances, seed, resamples)
        if point["tpr"] is not None or point["fpr"] is not None:
            out.append(point)
    return out


def _refused(n: int, survivors: int, m: int) -> float:
    """The chance that of ``m`` mutants drawn from ``n`` more than the threshold's share are let through."""
    chance = 0.0
    for s in range(min(m, survivors) + 1):
        if s > THRESHOLD * m and m - s <= n - survivors:
            chance += comb(survivors, s) * comb(n - survivors, m - s) / comb(n, m)
    return chance


def _counts(judged: Iterable[Decision], standings: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Items of these standings by task: how many there are, and how many the layer refuses."""
    out: dict[str, tuple[int, int]] = {}
    for d in judged:
        if d.standing in standings:
            n, caught = out.get(d.task_id, (0, 0))
            out[d.task_id] = n + 1, caught + (d.own != PASSED)
    return out


def _mean(chances: Mapping[str, Sequence[float]], seed: int, resamples: int) -> Estimate | None:
    if not chances:
        return None
    rows = [[sum(values), float(len(values))] for values in chances.values()]
    return cluster_bootstrap(rows, ratio(0, 1), seed=seed, resamples=resamples)
