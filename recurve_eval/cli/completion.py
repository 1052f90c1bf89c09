"""Tab completion of verbs and run directories; overrides are completed by Hydra."""

from __future__ import annotations

import os
from collections.abc import Sequence

LOOKERS = ("status", "analyze", "mirror", "regrade")
SUBVERBS = {"oracle": ("build", "lock", "verify", "attack"), "task": ("list", "show", "new", "check"),
            "arm": ("list", "show")}  # fmt: skip


def answer(arguments: Sequence[str], verbs: Sequence[str]) -> str | None:
    """What to offer where the word to complete is ours, or None where it is Hydra's.

    The shell's hook calls ``recurve-eval -sc query=SHELL`` with the line in COMP_LINE. As a side effect
    the verb is taken out of that line, because Hydra completes a line of overrides alone.
    """
    line = os.environ.get("COMP_LINE")
    if line is None or not any(word.startswith("query=") for word in arguments):
        return None
    words = line.split(" ")
    if len(words) == 2 and "=" not in words[1]:
        found = [verb for verb in verbs if verb.startswith(words[1])]
        return " ".join(found) or None
    if len(words) > 2 and words[1] in LOOKERS and "=" not in words[-1]:
        from recurve_eval.cli.targets import all_runs

        return " ".join(str(run) for run in all_runs() if str(run).startswith(words[-1]))
    if len(words) == 3 and words[1] in SUBVERBS:
        return " ".join(verb for verb in SUBVERBS[words[1]] if verb.startswith(words[2])) or None
    if len(words) > 3 and words[1:3] == ["task", "show"] and "=" not in words[-1]:
        from recurve_eval.cli.task import task_ids

        return " ".join(name for name in task_ids(words[3:-1]) if name.startswith(words[-1])) or None
    if len(words) > 3 and words[1] in SUBVERBS:
        _leave_to_hydra(words, 4 if words[2] in ("show", "check") else 3)
        return None
    if len(words) > 2 and words[1] in verbs:
        _leave_to_hydra(words, 2)
    return None


def _leave_to_hydra(words: Sequence[str], taken: int) -> None:
    """Take our own words, the first after the program's name, out of the line that Hydra is asked to complete."""
    ours = len(" ".join(words[1:taken])) + 1
    point = int(os.environ.get("COMP_POINT", len(" ".join(words))))
    os.environ["COMP_LINE"] = " ".join([words[0], *words[taken:]])
    os.environ["COMP_POINT"] = str(max(0, point - ours))
