"""Prompt templates: plain text in ``conf/gate/prompts/``, their hashes part of the plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.resources import conf_dir


def read_prompt(name: str, directory: str = "") -> str:
    """The template ``NAME.md`` of a directory; empty means the shipped one. Raises ConfigError where it is missing."""
    place = Path(directory) if directory else conf_dir() / "gate" / "prompts"
    try:
        return (place / f"{name}.md").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        known = [p.stem for p in place.glob("*.md")]
        raise UnknownName("prompt", name, known, str(place)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{place / name}.md: cannot be read: {error}") from None


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with ``{{name}}`` replaced; braces of any other kind are text."""
    for name, value in values.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def prompt_pins(names: Iterable[str], directory: str = "") -> dict[str, JSON]:
    """SHA-256 of each template."""
    return {n: hashlib.sha256(read_prompt(n, directory).encode()).hexdigest() for n in names}
