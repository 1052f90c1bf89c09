"""Wrong work with an attack on its grader in front, taken from the shipped battery of hostile submissions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from recurve_eval.errors import UnknownName
from recurve_eval.resources import oracle_dir


def kinds() -> list[str]:
    """The names of all attacks."""
    return sorted(path.stem for path in (oracle_dir() / "exploits").glob("*.py"))


@cache
def attack(name: str) -> dict[str, bytes]:
    """The files of one attack, by path. Raises UnknownName."""
    if name not in kinds():
        raise UnknownName("cheat", name, kinds(), "agent.cheat")
    text = (oracle_dir() / "exploits" / f"{name}.py").read_text(encoding="utf-8")
    _, *parts = re.split(r"^# --- (.+)\n", text, flags=re.MULTILINE)
    return {path: content.encode() for path, content in zip(parts[::2], parts[1::2], strict=True)}


def cheated(name: str, wrong: Mapping[str, bytes]) -> dict[str, bytes]:
    """Wrong files with the attack: its main file opens the first of them, the rest lie beside."""
    parts = dict(attack(name))
    first = min(wrong)
    opening = parts.pop("solution.py", b"")
    return parts | dict(wrong) | {first: opening + b"\n\n" + wrong[first]}
