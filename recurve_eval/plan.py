"""Expand, order, pin, hash and price the matrix. Nothing here starts a cell or spends a cent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from recurve_eval.domain import JSON, Cell, Coordinates, Rates, digest
from recurve_eval.errors import ConfigError, Drift, UnknownName
from recurve_eval.frozen import sealed, unsealed
from recurve_eval.locks import lock_moved
from recurve_eval.prices import Line, rates_of

PLAN_SCHEMA = 1


@dataclass(frozen=True)
class Condition:
    """One point on every axis but the task; its cells share one composed configuration.

    Attributes
    ----------
    config : mapping
        The validated configuration, complete.
    counted : mapping
        The part of it that can change a verdict.
    pins : mapping
        What the adapters resolved at plan time and the code that will run.
    labels : Coordinates
        The labels of its cells, with an empty task id.
    excluded : mapping
        Tasks that the benchmark's exclusion table leaves out, with the reason of each.
    prices : sequence of Line
        The price list's lines that hold on the day of the plan.
    """

    index: int
    config: Mapping[str, Any]
    counted: Mapping[str, Any]
    pins: Mapping[str, JSON]
    labels: Coordinates
    task_ids: tuple[str, ...]
    paid: bool
    simulated: bool
    excluded: Mapping[str, str] = field(default_factory=dict)
    prices: Sequence[Line] = ()

    @property
    def ceiling_usd(self) -> float | None:
        """The most that one of its cells may cost, in US dollars; None where nothing bounds it."""
        if not self.paid:
            return 0.0
        budget = self.config["budget"]
        return None if budget["usd"] is None else float(budget["usd"]) + float(budget["call_usd"])

    def rates(self, model: str) -> Rates | None:
        """What a model's tokens cost by the price list as pinned, or None."""
        return rates_of(self.prices, model)

    @cached_property
    def hash(self) -> str:
        """What a cell's verdict depends on besides its task."""
        return digest({"config": self.counted, "pins": self.pins})


@dataclass(frozen=True)
class Price:
    """The most that a plan may cost. ``ceiling_usd`` is None where it cannot be known."""

    paid_cells: int
    ceiling_usd: float | None
    why_unknown: str = ""


class Plan:
    """A pinned matrix: conditions, tasks, order, hash."""

    def __init__(self, conditions: Sequence[Condition], study: Mapping[str, Any], analysis: Mapping[str, Any]) -> None:
        if not conditions:
            raise ConfigError("the plan has no conditions")
        self.conditions = tuple(conditions)
        self.study = dict(study)
        self.analysis = dict(analysis)
        _refuse_collisions(self.conditions)

    @property
    def experiment(self) -> str:
        return str(self.study["name"])

    @cached_property
    def hash(self) -> str:
        """Covers exactly what can change a verdict or the question asked of the verdicts."""
        return digest(
            {
                "schema": PLAN_SCHEMA,
                "conditions": [c.hash for c in self.conditions],
                "tasks": [digest(list(c.task_ids)) for c in self.conditions],
                "question": [self.study[k] for k in ("primary", "contrasts", "noise_floor")],
                "alpha": self.analysis["alpha"],
            }
        )

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell in its pinned order."""
        return tuple(self.cells_but(()))

    @cached_property
    def cell_ids(self) -> tuple[str, ...]:
        """The id of every cell in its pinned order."""
        begun = {c.index: hashlib.sha256(f"{c.hash}\0".encode()) for c in self.conditions}
        ids = []
        for condition, task in self._ordered:
            sha = begun[condition.index].copy()
            sha.update(task.encode())
            ids.append(sha.hexdigest()[:16])
        return tuple(ids)

    def cells_but(self, done: Container[str]) -> Iterator[Cell]:
        """The cells whose id is not in ``done``, in their pinned order."""
        for order, (cell_id, (condition, task)) in enumerate(zip(self.cell_ids, self._ordered, strict=True)):
            if cell_id not in done:
                yield Cell(cell_id, order, condition.index, condition.labels._replace(task_id=task))

    def __len__(self) -> int:
        """How many cells it has."""
        return sum(len(c.task_ids) for c in self.conditions)

    @cached_property
    def _ordered(self) -> list[tuple[Condition, str]]:
        """The arms of one task, seed and model are neighbours, and which arm goes first rotates.

        Neighbours, so that a provider's drift over hours does not separate the arms; rotation, so that
        no arm is always the first or the last of its group.
        """
        groups: dict[tuple[Any, ...], list[Condition]] = {}
        for c in self.conditions:
            at = c.labels
            groups.setdefault((at.benchmark, at.seed, at.agent, at.model, at.budget), []).append(c)
        by_benchmark: dict[str, list[list[Condition]]] = {}
        for key, group in groups.items():
            by_benchmark.setdefault(key[0], []).append(group)
        out: list[tuple[Condition, str]] = []
        for benchmark in sorted(by_benchmark, key=lambda b: min(g[0].index for g in by_benchmark[b])):
            tasks = dict.fromkeys(t for group in by_benchmark[benchmark] for c in group for t in c.task_ids)
            chosen = {c.index: frozenset(c.task_ids) for group in by_benchmark[benchmark] for c in group}
            for turn, task in enumerate(tasks):
                for offset, group in enumerate(by_benchmark[benchmark]):
                    start = (turn + offset) % len(group)
                    out += [(c, task) for c in group[start:] + group[:start] if task in chosen[c.index]]
        return out

    @cached_property
    def price(self) -> Price:
        total, paid = 0.0, 0
        for c in self.conditions:
            if not c.paid:
                continue
            paid += len(c.task_ids)
            usd = c.ceiling_usd
            if usd is None:
                why = f"agent '{c.labels.agent}' is paid and budget '{c.labels.budget}' has no usd: set budget.usd"
                return Price(sum(len(x.task_ids) for x in self.conditions if x.paid), None, why)
            total += usd * len(c.task_ids)
        return Price(paid, round(total, 6))

    # -- files ------------------------------------------------------------------------------------

    def directory(self, outputs: Path) -> Path:
        return outputs / self.experiment / self.hash[:16]

    def matrix_lines(self) -> Iterator[str]:
        for cell in self.cells:
            row = {"cell_id": cell.cell_id, "order": cell.order, "condition": cell.condition, **cell.at._asdict()}
            yield json.dumps(row, separators=(",", ":")) + "\n"

    def document(self, provenance: Mapping[str, JSON]) -> dict[str, JSON]:
        """plan.yaml: frozen intent and resolved pins."""
        return {
            "schema": PLAN_SCHEMA,
            "plan_hash": self.hash,
            "experiment": self.experiment,
            "study": self.study,
            "analysis": self.analysis,
            "cells": len(self),
            "price": asdict(self.price),
            "provenance": dict(provenance),
            "conditions": [
                {
                    "index": c.index,
                    "labels": {k: v for k, v in c.labels._asdict().items() if k != "task_id"},
                    "config_hash": c.hash,
                    "paid": c.paid,
                    "simulated": c.simulated,
                    "tasks": len(c.task_ids),
                    "excluded": dict(c.excluded),
                    "pins": c.pins,
                    "config": c.config,
                }
                for c in self.conditions
            ],
        }


def freeze(plan: Plan, run_dir: Path, provenance: Mapping[str, JSON], lock: Mapping[str, JSON]) -> bool:
    """Write plan.yaml, matrix.jsonl and oracle.lock.json; True when they were new.

    An existing directory must hold this very plan. Raises Drift where its files were altered.
    """
    plan_file, matrix, lock_file = (run_dir / n for n in ("plan.yaml", "matrix.jsonl", "oracle.lock.json"))
    if plan_file.exists():
        _verify_frozen(plan, plan_file, matrix, lock_file, lock)
        return False
    run_dir.mkdir(parents=True, exist_ok=True)
    body = "".join(plan.matrix_lines())
    _write(matrix, body)
    _write(lock_file, json.dumps(lock, indent=1, sort_keys=True) + "\n")
    document = plan.document(provenance) | {"matrix_sha256": _sha(body.encode())}
    _write(plan_file, sealed(readable_yaml(document)))
    return True


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes shared parts out each time: a person reads this file."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def readable_yaml(value: JSON) -> str:
    """Plain data as YAML in its own order, without anchors."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def _verify_frozen(plan: Plan, plan_file: Path, matrix: Path, lock_file: Path, lock: Mapping[str, JSON]) -> None:
    head = unsealed(plan_file)
    if f"plan_hash: {plan.hash}\n" not in head:
        raise Drift(
            f"{plan_file} is not the plan that this command gives: it was edited; restore or remove {plan_file.parent}"
        )
    try:
        found = _sha(matrix.read_bytes())
        locked = json.loads(lock_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Drift(f"{plan_file.parent} is incomplete ({error}): restore its files or remove the directory") from None
    if f"matrix_sha256: {found}\n" not in head:
        raise Drift(f"{matrix} is not the matrix that was frozen: restore it or remove {matrix.parent}")
    moved = lock_moved(locked, lock)
    if moved:
        raise Drift(f"{lock_file}: {moved}: restore it or remove {matrix.parent}")


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _refuse_collisions(conditions: Sequence[Condition]) -> None:
    seen: dict[Coordinates, Condition] = {}
    for c in conditions:
        twin = seen.setdefault(c.labels, c)
        if twin is not c:
            same = "the same configuration twice" if twin.hash == c.hash else "two configurations under one name"
            at = ", ".join(f"{k}={v}" for k, v in c.labels._asdict().items() if k != "task_id")
            raise ConfigError(f"the matrix holds {same}: {at}. Give each option of an axis its own name")


# -- task selection -------------------------------------------------------------------------------


def select_tasks(known: Sequence[str], select: Any, excluded: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The benchmark's tasks that a study uses, in the benchmark's order.

    Parameters
    ----------
    known : sequence of str
        Every task id of the benchmark.
    select : "all", str, list of str, or {"n": int, "seed": int}
        A sample ranks tasks by a hash of seed and id, so adding tasks to the benchmark disturbs a
        sample as little as possible, and a larger ``n`` extends a smaller one.
    excluded : mapping, optional
        Tasks that are left out whatever was selected, with the reason of each; a sample is drawn from the rest.

    Raises ConfigError where nothing is left.
    """
    twice = sorted({t for t in known if known.count(t) > 1}) if len(set(known)) < len(known) else []
    if twice:
        raise ConfigError(f"the benchmark lists task ids twice: {', '.join(twice[:5])}")
    out = excluded or {}
    chosen = _chosen(known, [t for t in known if t not in out], select)
    left = tuple(t for t in chosen if t not in out)
    if not left:
        why = "; ".join(f"{t} ({out[t]})" for t in chosen[:3])
        raise ConfigError(f"every selected task is excluded: {why}" if chosen else "the benchmark has no tasks")
    return left


def _chosen(known: Sequence[str], eligible: Sequence[str], select: Any) -> tuple[str, ...]:
    if select == "all" or select is None:
        return tuple(known)
    if isinstance(select, Mapping):
        return _sample(eligible, select)
    wanted = [str(s) for s in select] if isinstance(select, (list, tuple)) else [str(select)]
    if not wanted:
        raise ConfigError("task.select is an empty list; use 'all', ids, or {n: 50, seed: 7}")
    lookup = set(known)
    for name in wanted:
        if name not in lookup:
            raise UnknownName("task", name, known if len(known) <= 40 else _nearest(name, known), "task.select")
    chosen = set(wanted)
    return tuple(t for t in known if t in chosen)


def _sample(known: Sequence[str], select: Mapping[Any, Any]) -> tuple[str, ...]:
    extra = set(select) - {"n", "seed"}
    if extra or "n" not in select:
        raise ConfigError(f"task.select takes {{n: COUNT, seed: SEED}}; got {dict(select)}")
    n, seed = select["n"], select.get("seed", 0)
    if not isinstance(n, int) or isinstance(n, bool) or not 0 < n <= len(known):
        raise ConfigError(f"task.select.n must be between 1 and the benchmark's {len(known)} tasks; got {n}")
    ranked = sorted(known, key=lambda t: hashlib.sha256(f"{seed}\0{t}".encode()).digest())
    chosen = set(ranked[:n])
    return tuple(t for t in known if t in chosen)


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, known, n=8, cutoff=0.0)
