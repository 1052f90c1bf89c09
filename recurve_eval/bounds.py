"""What a task itself demands of a cell: its own time limits, and a parent workspace that nothing changes."""

from __future__ import annotations

import json
from dataclasses import replace

from recurve_eval.domain import Budget, Task, Turn, TurnStatus
from recurve_eval.errors import ConfigError, InfraError
from recurve_eval.ports import Benchmark, Parented

_ENDED_BY_US = (TurnStatus.TIMED_OUT, TurnStatus.CANCELLED)


def within(budget: Budget, task: Task) -> Budget:
    """The budget, with no more seconds than the task allows its agent."""
    return budget if task.wall_s is None else replace(budget, wall_s=min(budget.wall_s, task.wall_s))


def hold_to_end(task: Task, turn: Turn, allowed_s: float) -> None:
    """Raises InfraError where an agent whose time (``allowed_s`` seconds) was over took too long to be gone."""
    if task.cancel_s is None or turn.status not in _ENDED_BY_US:
        return
    late = turn.wall_s - allowed_s
    if late > task.cancel_s:
        raise InfraError(
            f"task {task.id}: the agent was gone {late:.1f} s after its end, and may take {task.cancel_s:g}"
        )


def parent_of(benchmark: Benchmark) -> str | None:
    """The hash of the benchmark's parent workspace, where it has one. Raises InfraError where that is gone."""
    if not isinstance(benchmark, Parented):
        return None
    try:
        return benchmark.parent_hash()
    except (ConfigError, OSError) as error:
        raise InfraError(f"the parent workspace cannot be read: {error}") from error


def parent_proof(before: str, after: str | None) -> str:
    """The two hashes as JSON, for the cell's evidence."""
    return json.dumps({"before": before, "after": after, "unchanged": before == after}) + "\n"
