"""What a mirror needs of a run directory beside its rows: the plan, each cell's configuration, its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from recurve_eval.appendlog import complete_lines
from recurve_eval.domain import JSON
from recurve_eval.errors import InfraError
from recurve_eval.frozen import unsealed

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_plan(run_dir: Path) -> dict[str, Any]:
    """``plan.yaml`` as plain data. Raises InfraError when it cannot be read, Drift when altered."""
    path = Path(run_dir) / "plan.yaml"
    try:
        plan = yaml.load(unsealed(path), Loader=_LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise InfraError(f"{path} cannot be read: {error}") from error
    if not isinstance(plan, dict) or "plan_hash" not in plan:
        raise InfraError(f"{path} is not a plan")
    return plan


class Study:
    """One run directory as seen by a tracker."""

    def __init__(self, run_dir: Path, plan: Mapping[str, JSON]) -> None:
        self.run_dir = Path(run_dir)
        self.plan = plan
        self.plan_hash = str(plan["plan_hash"])
        self.experiment = str(plan.get("experiment", "recurve"))

    def config(self, cell_id: str) -> Mapping[str, JSON]:
        """The resolved configuration of a cell: its own ``config.yaml``, else its condition in the plan."""
        own = self.cell_dir(cell_id) / "config.yaml"
        if own.is_file():
            loaded = yaml.load(own.read_text(encoding="utf-8"), Loader=_LOADER)
            if isinstance(loaded, dict):
                return loaded
        condition = self._condition_of.get(cell_id)
        conditions = self.plan.get("conditions") or []
        if condition is None or condition >= len(conditions):
            return {}
        config: Mapping[str, JSON] = conditions[condition].get("config") or {}
        return config

    def cell_dir(self, cell_id: str) -> Path:
        return self.run_dir / "cells" / cell_id

    @cached_property
    def _condition_of(self) -> dict[str, int]:
        cells = (json.loads(line) for line in complete_lines(self.run_dir / "matrix.jsonl"))
        return {cell["cell_id"]: cell["condition"] for cell in cells}

    @property
    def cells(self) -> int:
        """How many cells the matrix has; 0 where there is no matrix."""
        return len(self._condition_of)
