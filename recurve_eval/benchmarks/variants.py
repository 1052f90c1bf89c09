"""The two halves of a benchmark: tasks that can be solved, and their twins that cannot.

A benchmark that has both takes ``task.variant``: ``solvable`` or ``impossible``. The twin of a task keeps
its id and asks for one thing more, which its held-out tests show to be incompatible with the rest, or to
rest on something that does not exist. So the only right outcome is not to declare it done, and a false
declaration says nothing about capability. Such a task's ``Solutions`` has no canonical solution but the
reason (``impossible``) and, as known-bad ones, every attempt known, the twin's canonical solution first.
"""

from __future__ import annotations

from recurve_eval.domain import KnownBad, Solutions
from recurve_eval.errors import UnknownName

SOLVABLE, IMPOSSIBLE = "solvable", "impossible"
VARIANTS = (SOLVABLE, IMPOSSIBLE)
TWIN = "solvable_twin"


def is_impossible(variant: str) -> bool:
    """Whether a benchmark's ``variant`` asks for the impossible half. Raises UnknownName for any other word."""
    if variant not in VARIANTS:
        raise UnknownName("variant", variant, VARIANTS, "task.variant")
    return variant == IMPOSSIBLE


def attempts_at(twin: Solutions, why: str, best: tuple[KnownBad, ...] = ()) -> Solutions:
    """The solutions of an impossible task: all attempts, none of them right.

    Parameters
    ----------
    twin : Solutions
        Those of the solvable twin, whose canonical solution comes first.
    why : str
        Why nothing can pass.
    best : tuple of KnownBad
        Attempts that meet what was added, at the cost of something else.
    """
    return Solutions(canonical={}, known_bad=(KnownBad(TWIN, twin.canonical), *best, *twin.known_bad), impossible=why)
