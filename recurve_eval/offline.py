"""The network that a task asks for, given by the sandbox where it has one to play and the study asked for none."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from typing import Any, cast

from recurve_eval.domain import Task
from recurve_eval.ports import Sandbox

NONE = "none"


def as_asked(sandbox: Sandbox, task: Task | None) -> Sandbox:
    """The sandbox with the task's ``network`` instead of none at all.

    A sandbox that gives a network (an agent's API needs one) is left as it is, and so is one that has no say over it.
    """
    if task is None or not task.network or not is_dataclass(sandbox) or isinstance(sandbox, type):
        return sandbox
    if getattr(sandbox, "network", "") != NONE:
        return sandbox
    asked: Any = replace(sandbox, network=task.network)
    return cast(Sandbox, asked)
