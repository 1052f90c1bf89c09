"""Do two judges miss the same defects? Layers of a gate, recorded reviewers, and models that attempt the same tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.interception.items import DEFECT, RECORDED, UNSCORED
from recurve_eval.interception.rows import PASSED, Decision
from recurve_eval.recordings import json_lines, read_file, text
from recurve_eval.stats import MissCorrelation, PairedTable, miss_correlation

NONE = "none"  # the outcome of a gate that has no part to judge by
ACCEPTS, REJECTS = frozenset({"pass", "accept", "approve", "good"}), frozenset({"fail", "reject", "bad"})


@dataclass(frozen=True, slots=True)
class Review:
    """One reviewer's word on one item. ``bad`` is the truth, ``accepts`` the verdict."""

    item: str
    task: str
    reviewer: str
    model: str
    accepts: bool
    bad: bool


def read_reviews(paths: Sequence[str]) -> list[Review]:
    """Reviews on record: JSONL with item, reviewer, model, verdict and truth; ``task`` groups items where it is given.

    Verdict and truth are ``pass`` or ``fail`` (or accept, approve, good; reject, bad). Raises ConfigError naming the
    line, also where one reviewer judges an item twice or two lines disagree on an item's truth or task.
    """
    found: dict[tuple[str, str], Review] = {}
    truth: dict[str, bool] = {}
    tasks: dict[str, str] = {}
    for path in paths:
        for where, row in json_lines(path, read_file(path)):
            item, reviewer, model = (text(row, name, where) for name in ("item", "reviewer", "model"))
            task = text(row, "task", where) if "task" in row else item
            if tasks.setdefault(item, task) != task:
                raise ConfigError(f"{where}: item '{item}' is of another task than in an earlier line")
            bad = not _word(row, "truth", where)
            if truth.setdefault(item, bad) != bad:
                raise ConfigError(f"{where}: item '{item}' has another truth than in an earlier line")
            if (item, reviewer) in found:
                raise ConfigError(f"{where}: reviewer '{reviewer}' judges item '{item}' twice")
            found[item, reviewer] = Review(item, task, reviewer, model, _word(row, "verdict", where), bad)
    return list(found.values())


def _word(row: dict[str, Any], name: str, where: str) -> bool:
    word = text(row, name, where).lower()
    if word not in ACCEPTS | REJECTS:
        raise UnknownName(name, word, ACCEPTS | REJECTS, where)
    return word in ACCEPTS


def of_reviews(reviews: Sequence[Review], seed: int, resamples: int) -> list[dict[str, Any]]:
    """Every pair of reviewers over the bad items that both have judged."""
    said: dict[str, dict[str, Review]] = {}
    for r in reviews:
        if r.bad:
            said.setdefault(r.reviewer, {})[r.item] = r
    models: dict[str, set[str]] = {}
    for r in reviews:
        models.setdefault(r.reviewer, set()).add(r.model)
    out = []
    for one, two in combinations(sorted(models), 2):
        shared = sorted(said.get(one, {}).keys() & said.get(two, {}).keys())
        pairs = [(said[one][i].task, said[one][i].accepts, said[two][i].accepts) for i in shared]
        for actor, adversary, flip in ((one, two, False), (two, one, True)):
            found = _correlated(((t, b, a) if flip else (t, a, b) for t, a, b in pairs), seed, resamples)
            out.append(_entry(actor, adversary, found, models[actor] == models[adversary]))
    return out


def of_layers(table: Mapping[str, Sequence[Decision]], entangled: Callable[[str, str], bool], seed: int,
              resamples: int) -> list[dict[str, Any]]:  # fmt: skip
    """Every pair of layers that have no part in common, over the defects that both could judge."""
    own = {layer: {d.item: d for d in ds if d.standing == DEFECT and d.own in (PASSED, "blocked") and d.outcome != NONE}
           for layer, ds in table.items()}  # fmt: skip
    out = []
    for one, two in combinations(table, 2):
        if entangled(one, two):
            continue
        shared = [i for i in own[one] if i in own[two]]
        pairs = [(own[one][i].task_id, own[one][i].own == PASSED, own[two][i].own == PASSED) for i in shared]
        out.append(_entry(one, two, _correlated(pairs, seed, resamples), None))
    return out


def of_models(decisions: Iterable[Decision], seed: int, resamples: int) -> list[dict[str, Any]]:
    """Every pair of models over the tasks that both attempted (their first attempts): do they fail the same ones?"""
    failed: dict[str, dict[str, bool]] = {}
    for d in sorted(decisions, key=lambda d: d.attempt):
        if d.role == RECORDED and d.standing != UNSCORED:
            failed.setdefault(d.author, {}).setdefault(d.task_id, d.standing == DEFECT)
    out = []
    for one, two in combinations(sorted(failed), 2):
        shared = [t for t in failed[one] if t in failed[two]]
        pairs = [(t, failed[one][t], failed[two][t]) for t in shared]
        out.append(_entry(one, two, _correlated(pairs, seed, resamples), False))
    return out


def _correlated(pairs: Iterable[tuple[str, bool, bool]], seed: int, resamples: int) -> MissCorrelation:
    counts: dict[str, list[int]] = {}
    for task, actor, adversary in pairs:
        cell = counts.setdefault(task, [0, 0, 0, 0])
        cell[(0 if actor else 2) + (0 if adversary else 1)] += 1
    tables = [PairedTable(c[0], c[1], c[2], c[3]) for c in counts.values()]
    return miss_correlation(tables, seed=seed, resamples=resamples)


def _entry(actor: str, adversary: str, found: MissCorrelation, same: bool | None) -> dict[str, Any]:
    return {"actor": actor, "adversary": adversary, "same_model": same, "found": found}


def by_authorship(decided: Sequence[Decision]) -> dict[str, list[Decision]]:
    """Decisions on recorded work by whether the claims were stated by the work's own model or by another."""
    out: dict[str, list[Decision]] = {}
    for d in decided:
        if d.role == RECORDED and d.author and d.claims_by:
            out.setdefault("same model" if d.author == d.claims_by else "another model", []).append(d)
    return out
