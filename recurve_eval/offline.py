"""The network that a task asks for, given by the sandbox where it has one to play and the study asked for none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recurve_eval.domain import Task
from recurve_eval.ports import Sandbox

NONE = "none"


def as_asked(sandbox: Sandbox, task: Task | None) -> Sandbox:
    """The sandbox with the task's ``network`` instead of none at all.

    A sandbox that gives a network (an agent's API needs one) is left as it is, and so is one that has no say over it.
    """
    adapter: Any = sandbox
    if task is None or not task.network or getattr(adapter, "network", "") != NONE:
        return sandbox
    asked: Sandbox = replace(adapter, network=task.network)
    return asked
