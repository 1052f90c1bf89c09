"""From override strings to the conditions they span: axes, their order, and the labels of cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from recurve_eval.config import leaves
from recurve_eval.domain import Coordinates
from recurve_eval.errors import ConfigError

# Which coordinate a swept key varies. What is not here belongs to the plan as a whole.
AXIS_OF = {
    "task": "benchmark",
    "model": "model",
    "agent": "agent",
    "sandbox": "agent",
    "budget": "budget",
    "arm": "arm",
    "gate": "arm",
    "controller": "arm",
    "seed": "seed",
}


@dataclass(frozen=True)
class Point:
    """One choice on every axis: the overrides to compose, and which of them are swept."""

    overrides: tuple[str, ...]
    swept: tuple[tuple[str, str], ...]  # key, and the value as labels show it


def beside_arms(point: Point) -> tuple[tuple[str, str], ...]:
    """Where a point lies on the axes that do not make an arm: the same for what an arm is compared with."""
    return tuple((key, value) for key, value in point.swept if AXIS_OF.get(_head(key)) != "arm")


@dataclass(frozen=True)
class Override:
    """One parsed override: its key and the values it gives, each as an override string."""

    key: str
    choices: tuple[str, ...]  # override strings, such as "arm=A0"
    swept: bool


def spread(overrides: Sequence[Override], params: Mapping[str, Override]) -> Iterator[Point]:
    """The points of a sweep, the last axis varying fastest.

    Parameters
    ----------
    overrides : sequence of Override
        What the user gave; it wins over ``params`` key by key.
    params : mapping
        Axes that the experiment declares (``hydra.sweeper.params``).
    """
    given = {o.key for o in overrides}
    every = [*overrides, *(p for key, p in params.items() if key not in given)]
    for axis in every:
        if axis.swept:
            _refuse_plan_wide(axis.key)
    shown = {axis.key: _shown(axis) for axis in every if axis.swept}
    for choice in itertools.product(*(axis.choices for axis in every)):
        swept = tuple((axis.key, shown[axis.key][text]) for axis, text in zip(every, choice, strict=True) if axis.swept)
        yield Point(tuple(choice), swept)


def _shown(axis: Override) -> dict[str, str]:
    """How labels show each choice: a path by its last part, where that still tells the choices apart."""
    whole = {text: text.split("=", 1)[1] for text in axis.choices}
    short = {text: PurePosixPath(value).name if "/" in value else value for text, value in whole.items()}
    return short if all(short.values()) and len(set(short.values())) == len(set(whole.values())) else whole


def _refuse_plan_wide(key: str) -> None:
    head = _head(key)
    if head not in AXIS_OF and key != "experiment":
        axes = ", ".join(sorted(AXIS_OF))
        raise ConfigError(f"'{key}' cannot be swept: all cells of a plan share it. Axes: {axes}, and keys below them")
    if key == "task.select":
        raise ConfigError("'task.select' cannot be swept: give one selection, e.g. 'task.select=[a,b]' in quotes")


def _head(key: str) -> str:
    return key.lstrip("+~").split("@")[0].replace("/", ".").split(".")[0]


def reaching(overrides: Sequence[str], config: Mapping[str, Any], groups: Sequence[str]) -> list[str]:
    """The overrides on which the composition of some groups hangs, ``config`` being what all of them compose.

    An override elsewhere counts where its value reaches the groups by interpolation, with its own group's choice.
    """
    own = {*groups, "experiment"}
    reached = {value for group in groups for _, value in leaves(config[group]) if isinstance(value, str)}
    values = [o for o in overrides if "." in o.split("=", 1)[0] and _head(_key(o)) not in own]
    linked = {_head(_key(o)) for o in values if o.split("=", 1)[-1].strip("'\"") in reached}
    return [o for o in overrides if _head(_key(o)) in own | linked or _key(o) == "hydra.searchpath"]


def _key(override: str) -> str:
    return override.split("=", 1)[0]


def labels(config: Mapping[str, Any], swept: Sequence[tuple[str, str]], simulated: bool) -> Coordinates:
    """The coordinates of a condition's cells, with an empty task id.

    A simulated model means nothing to an agent that is not ``simulated``; such a model is unnamed.

    Options label themselves by their ``name``; a swept key below an option (``agent.skill=0.5,0.9``)
    is added to the label, so that no two conditions share one.
    """
    suffix: dict[str, list[str]] = {}
    for key, value in swept:
        if key not in ("arm", "task", "task.variant", "model", "agent", "budget", "seed", "experiment"):
            suffix.setdefault(AXIS_OF[_head(key)], []).append(f"{key}={value}")

    def label(axis: str, name: str) -> str:
        return f"{name}[{','.join(suffix[axis])}]" if axis in suffix else name

    model = config["model"]["name"] if simulated or not config["model"]["simulated"] else "unnamed"
    return Coordinates(
        benchmark=label("benchmark", _half(config["task"])),
        task_id="",
        model=label("model", model),
        agent=label("agent", config["agent"]["name"]),
        arm=label("arm", config["arm"]["name"]),
        budget=label("budget", config["budget"]["name"]),
        seed=int(config["seed"]),
    )


def _half(task: Mapping[str, Any]) -> str:
    """A benchmark's name; its impossible half is labelled apart, so that the two are never averaged."""
    variant = task.get("variant", "solvable")
    return str(task["name"]) if variant == "solvable" else f"{task['name']}-{variant}"
