"""The commands that messages tell the user to run: whole, so that they can be pasted into a shell."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def command(*words: object, own: Path | None = None) -> str:
    """A command of this program. ``own`` is the directory of the user's own options, which it needs as well."""
    flags = [] if own is None else ["--config-dir", _from_here(own)]
    return shlex.join(["recurve-eval", *map(str, words), *flags])


def _from_here(place: Path) -> str:
    near = os.path.relpath(place)
    return str(place) if near.startswith(os.pardir) else near
