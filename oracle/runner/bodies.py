"""Whether functions still have the bodies they had, told without touching them.

Reading ``function.__code__`` raises an audit event, and so wakes the audit hook that guards a graded
process: thousands of times a test. It also counts a reference, and so copies the page that each
function and its code lie on. Here the words of memory that hold them are compared instead.
"""

from __future__ import annotations

import ctypes
import operator
import types
from typing import Any, Callable, Sequence

_WORD = ctypes.sizeof(ctypes.c_void_p)


class Bodies:
    """The code and the defaults of ``functions``, remembered when this was made."""

    def __init__(self, functions: Sequence[types.FunctionType]) -> None:
        self._functions = functions
        self._parts = [_parts(function) for function in functions]
        where = _where()
        # Of no type that would stop at a zero byte, and read without an audit event once it is made.
        self._cells = [_cell(function, where) for function in functions] if where else []
        self._raw: Callable[[Any], bytes] = operator.attrgetter("raw")
        self._remembered = list(map(self._raw, self._cells))

    def rewritten(self, same: Any = operator.eq, each: Any = map, every: Any = all) -> str | None:
        """Name a function that has another body, or None."""
        if self._cells and every(each(same, each(self._raw, self._cells), self._remembered)):
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

    words = (ctypes.c_size_t * (types.FunctionType.__basicsize__ // _WORD)).from_address(id(sample))
    found = [index for part in _parts(sample) for index, word in enumerate(words) if word == id(part)]
    return range(min(found) * _WORD, (max(found) + 1) * _WORD) if len(found) == 3 else None


def _cell(function: types.FunctionType, where: range) -> Any:
    return (ctypes.c_char * len(where)).from_address(id(function) + where.start)
