"""Arms as compositions: what one resolves to, how it differs from another, which one a composition is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from recurve_eval import config as cfg
from recurve_eval.compose import compose, options_of, own_options
from recurve_eval.errors import UnknownName

REFERENCE = "A3"


def arm_names() -> list[str]:
    """Every arm that Hydra finds, the user's own included; A0 to A10 in the order of the ladder."""
    return sorted(options_of("arm"), key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)])


def composition(name: str) -> Mapping[str, Any]:
    """The arm, its gate and its controller as composed. Hydra must be initialised. Raises UnknownName."""
    return _composition(name, own_options())


@cache
def _composition(name: str, own: Path | None) -> Mapping[str, Any]:
    """``own`` tells apart the arms of one name that two directories of the user's own hold."""
    if name not in options_of("arm"):
        raise UnknownName("arm", name, arm_names())
    config = compose([f"arm={name}"])
    return {key: config[key] for key in ("arm", "gate", "controller")}


def part_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a composition the arm it is: its gate, its controller and which repetition it is."""
    return {"gate": config["gate"], "controller": config["controller"], "stream": config["arm"]["stream"]}


def arm_of(config: Mapping[str, Any]) -> str | None:
    """The shipped arm that a composed configuration is, whatever it is called; None where it is none of them."""
    own = part_of(config)
    names = arm_names()
    first = [config["arm"]["name"]] if config["arm"]["name"] in names else []
    return next((n for n in (*first, *names) if part_of(composition(n)) == own), None)


def differences(name: str, other: str = REFERENCE) -> Iterator[tuple[str, Any, Any]]:
    """Dotted key, value in ``other`` and value in ``name`` of everything that differs but the names."""
    mine, theirs = dict(cfg.leaves(part_of(composition(name)))), dict(cfg.leaves(part_of(composition(other))))
    for key in sorted(mine.keys() | theirs.keys()):
        if mine.get(key) != theirs.get(key):
            yield key, theirs.get(key), mine.get(key)


def components(name: str) -> list[str]:
    """The parts of an arm in the order in which they act: ``slot=name``."""
    parts = composition(name)
    chosen = [f"{slot}={node['name']}" for slot, node in parts["gate"].items() if node is not None]
    return [*chosen, f"controller={parts['controller']['name']}"]
