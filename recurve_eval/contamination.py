"""Two arms of one plan may differ in their gate and in nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recurve_eval import config as cfg
from recurve_eval.axes import Point, beside_arms
from recurve_eval.errors import Refused
from recurve_eval.plan import Condition

DECLARED = ("arm", "gate", "controller")
_OF_THE_GATE = ("gate", "controller", "code")  # pins that follow from the declared fields


def refuse_contamination(conditions: Sequence[Condition], points: Sequence[Point]) -> None:
    """Compare what the cells of each pair of arms are given: task, workspace, prompt, environment, limits, grader.

    Arms are held against each other at each point of the axes that were asked for, whatever they make of their labels.
    Raises Refused naming the first field that differs without being declared.
    """
    first: dict[Any, Condition] = {}
    for condition, point in zip(conditions, points, strict=True):
        other = first.setdefault(beside_arms(point), condition)
        if other is not condition:
            for field, a, b in undeclared(other, condition):
                raise Refused(
                    f"arms {other.labels.arm} and {condition.labels.arm} differ in {field} ({a!r} against {b!r}), "
                    "which is no part of a gate, so a contrast between them would not be the gate's: declare it as an "
                    f"axis, or take it out of conf/arm. Arms may differ in: {', '.join(DECLARED)}"
                )


def undeclared(one: Condition, other: Condition) -> Iterator[tuple[str, Any, Any]]:
    """Fields outside the gate in which two conditions differ, with both values."""
    for name, a, b in (("", one.counted, other.counted), ("pins.", one.pins, other.pins)):
        left, right = _given(a), _given(b)
        for key in sorted(left.keys() | right.keys()):
            if left.get(key) != right.get(key):
                yield name + key, left.get(key), right.get(key)
    if one.task_ids != other.task_ids:
        yield "task.select", one.task_ids[:5], other.task_ids[:5]


def _given(tree: Mapping[str, Any]) -> dict[str, Any]:
    return dict(cfg.leaves({k: v for k, v in tree.items() if k not in (*DECLARED, *_OF_THE_GATE)}))
