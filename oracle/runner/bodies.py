"""Whether functions still have the bodies they had, told without touching them.

Reading ``function.__code__`` raises an audit event, and so wakes the audit hook that guards a graded
process: thousands of times a test. It also counts a reference, and so copies the page that each
function and its code lie on. Here the words of memory that hold them are compared instead.
"""

from __future__ import annotations

import types
from typing import Any, Sequence

from .memory import WORD, Cells, words_of


class Bodies:
    """The code and the defaults of ``functions``, remembered when this was made."""

    def __init__(self, functions: Sequence[types.FunctionType]) -> None:
        self._functions = functions
        self._parts = [_parts(function) for function in functions]
        self._cells = Cells(functions, _where())

    def rewritten(self) -> str | None:
        """Name a function that has another body, or None."""
        if self._cells.same():
            return None
        for function, parts in zip(self._functions, self._parts):  # noqa: B905 - Python 3.9 has no strict
            if any(now is not then for now, then in zip(_parts(function), parts)):  # noqa: B905
                return function.__qualname__
        return None


def _parts(function: types.FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _where() -> range | None:
    """Which bytes of a function object point at its code and its defaults; None where that cannot be told."""

    def sample(value: Any = "a default", *, other: Any = "another") -> None:
        pass

    words = words_of(sample)
    found = [index for part in _parts(sample) for index, word in enumerate(words) if word == id(part)]
    return range(min(found) * WORD, (max(found) + 1) * WORD) if len(found) == 3 else None
