"""Tab completion of verbs and run directories; overrides are completed by Hydra."""

from __future__ import annotations

import os
from collections.abc import Sequence

from recurve_eval.cli.hydra_verbs import flags_apart
from recurve_eval.compose import own_among

LOOKERS = ("status", "analyze", "mirror", "regrade")
SUBVERBS = {"oracle": ("build", "lock", "verify", "attack"), "task": ("list", "show", "new", "check"),
            "arm": ("list", "show")}  # fmt: skip


def with_own(arguments: list[str]) -> list[str]:
    """The hook's arguments with the ``--config-dir`` of the line to complete, in which Hydra does not look for it."""
    own = own_among((_asked(arguments) or "").split(" "))
    there = own is not None and own.expanduser().is_dir()
    return [*arguments, "--config-dir", str(own.expanduser())] if own is not None and there else arguments


def _asked(arguments: Sequence[str]) -> str | None:
    """The line to complete, where the shell's hook asks for that."""
    return os.environ.get("COMP_LINE") if any(word.startswith("query=") for word in arguments) else None


def answer(arguments: Sequence[str], verbs: Sequence[str]) -> str | None:
    """What to offer where the word to complete is ours, or None where it is Hydra's.

    The shell's hook calls ``recurve-eval -sc query=SHELL`` with the line in COMP_LINE. As a side effect
    the verb is taken out of that line, because Hydra completes a line of overrides alone.
    """
    line = _asked(arguments)
    if line is None:
        return None
    flags, words = flags_apart(line.split(" "))
    if flags and line.endswith(flags[-1]):
        return ""  # a flag, or a path that is the shell's to complete
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

        ids = task_ids(words[3:-1], own_among(arguments))
        return " ".join(name for name in ids if name.startswith(words[-1])) or None
    if len(words) > 3 and words[1] in SUBVERBS:
        _leave_to_hydra(words, 4 if words[2] in ("show", "check") else 3)
    elif len(words) > 2 and words[1] in verbs:
        _leave_to_hydra(words, 2)
    return None


def _leave_to_hydra(words: Sequence[str], taken: int) -> None:
    """Take our own words, the first after the program's name, out of the line that Hydra is asked to complete."""
    os.environ["COMP_LINE"] = " ".join([words[0], *words[taken:]])
