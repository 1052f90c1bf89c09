"""Text files that are written once and must stay as they were: each ends with a seal over the rest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from recurve_eval.errors import Drift

_MARK = "\nseal: "


def sealed(text: str) -> str:
    """The text (which ends with a newline) with a last line ``seal: <SHA-256>``."""
    return f"{text}seal: {hashlib.sha256(text.encode()).hexdigest()}\n"


def unsealed(path: Path) -> str:
    """The text of a sealed file, its seal included. Raises Drift where it was altered, OSError where unreadable."""
    content = path.read_bytes()
    body, mark, seal = content.rpartition(_MARK.encode())
    whole = body + b"\n"
    if not mark or hashlib.sha256(whole).hexdigest() != seal.decode("ascii", "replace").strip():
        raise Drift(f"{path} was altered after it was frozen: restore it, or remove {path.parent}")
    return content.decode()
