"""The pinned matrix of an interception: every item before every layer."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from recurve_eval.domain import INTERCEPTION, JSON, Cell, OracleEnv, digest
from recurve_eval.interception.items import Claims, Item, Source
from recurve_eval.interception.layers import Layer, Layers
from recurve_eval.plan import Condition, Plan
from recurve_eval.ports import Agent, Benchmark, OracleBackend, Sandbox


class ItemPlan(Plan):
    """One condition for each layer; one cell for each item before it.

    A cell's ``seed`` counts the items of one task and author, its ``agent`` is the source, its ``arm`` the layer and
    its ``model`` the item's author (the source where there is none).
    """

    def __init__(
        self, conditions: Sequence[Condition], study: Mapping[str, Any], analysis: Mapping[str, Any],
        items: Sequence[Item],
    ) -> None:  # fmt: skip
        super().__init__(conditions, study, analysis)
        self.items = tuple(items)

    @cached_property
    def hash(self) -> str:
        """Covers every item and everything that can change what is decided of it."""
        listed = [[i.id, i.task_id, i.role, i.kind, i.author, i.attempt, i.truth] for i in self.items]
        layers = [[c.hash, c.labels.arm] for c in self.conditions]
        return digest({"interception": 1, "layers": layers, "items": digest(listed), "alpha": self.analysis["alpha"]})

    @cached_property
    def cell_ids(self) -> tuple[str, ...]:
        return tuple(cell.cell_id for cell in self.cells)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for item in self.items for cell in self.of_item[item.id])

    @cached_property
    def of_item(self) -> dict[str, tuple[Cell, ...]]:
        """The cells of each item by its id, one a layer, in the layers' order."""
        begun = [hashlib.sha256(f"{c.hash}\0{c.labels.arm}\0".encode()) for c in self.conditions]
        counted: dict[tuple[str, str], int] = {}
        out: dict[str, tuple[Cell, ...]] = {}
        for number, item in enumerate(self.items):
            key = (item.task_id, item.author)
            ordinal = counted[key] = counted.get(key, -1) + 1
            cells = []
            for c, sha in zip(self.conditions, begun, strict=True):
                own = sha.copy()
                own.update(item.id.encode())
                at = c.labels._replace(task_id=item.task_id, seed=ordinal, model=item.author or c.labels.agent)
                order = number * len(self.conditions) + c.index
                cells.append(Cell(own.hexdigest()[:16], order, c.index, at))
            out[item.id] = tuple(cells)
        return out

    def cells_but(self, done: Container[str]) -> Iterator[Cell]:
        return (cell for cell in self.cells if cell.cell_id not in done)

    def __len__(self) -> int:
        return len(self.items) * len(self.conditions)

    def document(self, provenance: Mapping[str, JSON]) -> dict[str, JSON]:
        found = super().document(provenance)
        return {**found, "kind": INTERCEPTION, "items": len(self.items)}


@dataclass(frozen=True)
class Interception:
    """A plan with its parts, ready to run."""

    plan: ItemPlan
    config: Mapping[str, Any]
    benchmark: Benchmark
    agent: Agent
    sandbox: Sandbox
    oracle: OracleBackend
    env: OracleEnv
    source: Source
    claims: Claims
    ladder: Layers
    layers: tuple[Layer, ...]
    lock: Mapping[str, JSON]

    @property
    def run_dir(self) -> Path:
        return self.plan.directory(Path(self.config["run"]["outputs"]))
