"""``run`` and ``plan``: the verbs whose whole command line is Hydra's."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from recurve_eval.compose import through_hydra
from recurve_eval.errors import EXIT_DONE
from recurve_eval.execute import conduct
from recurve_eval.execute.stock import execute_job


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
    flags, rest = flags_apart(arguments)
    sys.argv = ["recurve-eval", *flags, *rest, *_mode(arguments)]
    try:
        through_hydra(execute_job)
    finally:
        sys.argv = before
    return conduct.OUTCOME.get()


_WITH_VALUE = {
    "--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn",
    "--package", "-p", "--cfg", "-c", "--info", "-i",
}  # fmt: skip


def flags_apart(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags, which may stand anywhere among the overrides, and the rest; Hydra's own parser wants each together."""
    flags, rest, words = [], [], iter(arguments)
    for word in words:
        if not word.startswith("-"):
            rest.append(word)
        elif word in _WITH_VALUE:
            flags += [word, *([value] if (value := next(words, None)) is not None else [])]
        else:
            flags.append(word)
    return flags, rest


def _mode(arguments: list[str]) -> list[str]:
    """Say that axes are meant, so that a mistake is reported as itself and not as an axis out of place."""
    flags = {word.split("=")[0] for word in arguments if word.startswith("-")}
    return [] if flags - {"--config-dir", "-cd"} else ["--multirun"]
