"""What every probe of this repository shares: the code under judgement, sabotaged where a trap says so.

A trap here is a ``sabotage.py`` that breaks one thing at run time; one that no longer finds what it breaks is BROKEN.
"""

import importlib
import os
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests")]


STUDY = {"name": "s", "primary": None, "contrasts": [], "noise_floor": None}


def replace(module, name, value):
    """Break ``module.name`` (dots reach into classes). Raises AttributeError where there is nothing to break."""
    owner = importlib.import_module(module)
    *way, last = name.split(".")
    for step in way:
        owner = getattr(owner, step)
    getattr(owner, last)
    setattr(owner, last, value)


def refuses(error, act, *words, **named):
    """Whether ``act`` raises ``error``."""
    try:
        act(*words, **named)
    except error:
        return True
    return False


def hold(check):
    """Exit 0 where ``check(place)`` is true, else 1; 3 where the trap itself is out of date."""
    fixture = os.environ.get("TRAP_FIXTURE")
    if fixture:
        try:
            exec(Path(fixture, "sabotage.py").read_text(), {"replace": replace})
        except Exception as error:
            print(f"the trap is out of date: {type(error).__name__}: {error}")
            sys.exit(3)
    with tempfile.TemporaryDirectory() as place:
        try:
            good, why = bool(check(Path(place))), "it does not hold"
        except Exception as error:
            good, why = False, f"{type(error).__name__}: {error}"
    print("GREEN" if good else f"RED: {why}")
    sys.exit(0 if good else 1)


def plans():
    """``condition(...)`` and ``plan(*conditions)``: small plans of the code under judgement."""
    from recurve_eval.domain import Coordinates
    from recurve_eval.plan import Condition, Plan

    def condition(arm="A0", wall=1.0, index=0, tasks=("a", "b")):
        counted = {"budget": {"wall_s": wall}, "arm": arm}
        at = Coordinates("demo", "", "m", "scripted", arm, "small", 0)
        return Condition(index, counted, counted, {"benchmark": {"dataset_hash": "d"}}, at, tasks, False, True)

    def plan(*conditions):
        return Plan(conditions, STUDY, {"alpha": 0.05})

    return condition, plan
