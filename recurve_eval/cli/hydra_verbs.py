"""``run`` and ``plan``: the verbs whose whole command line is Hydra's."""

from __future__ import annotations

import os
import sys

from recurve_eval import app
from recurve_eval.errors import EXIT_DONE
from recurve_eval.execute import conduct
from recurve_eval.execute.stock import execute_job

VERBS = ("run", "plan", "status", "analyze", "mirror", "doctor")


def run(arguments: list[str]) -> int:
    """Plan, check the spend gate, run the pending cells, analyze."""
    return _through_hydra(arguments, "run")


def plan(arguments: list[str]) -> int:
    """Expand and pin the matrix; print it; write and spend nothing."""
    return _through_hydra(arguments, "plan")


def _through_hydra(arguments: list[str], intent: str) -> int:
    conduct.INTENT.set(intent)
    conduct.OUTCOME.set(EXIT_DONE)
    before = sys.argv
    sys.argv = ["recurve-eval", *arguments]
    _complete_after_verb()
    try:
        app.through_hydra(execute_job)
    finally:
        sys.argv = before
    return conduct.OUTCOME.get()


def _complete_after_verb() -> None:
    """Hydra completes a line of overrides; the verb in front of them is ours to take away."""
    line = os.environ.get("COMP_LINE")
    if line is None:
        return
    words = line.split(" ")
    if len(words) > 2 and words[1] in VERBS:
        os.environ["COMP_LINE"] = " ".join([words[0], *words[2:]])
        point = int(os.environ.get("COMP_POINT", len(line)))
        os.environ["COMP_POINT"] = str(max(0, point - len(words[1]) - 1))
