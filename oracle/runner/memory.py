"""Bytes of memory of some objects, remembered and compared without touching the objects."""

from __future__ import annotations

import ctypes
import operator
from typing import Any, Callable, Iterable

WORD = ctypes.sizeof(ctypes.c_void_p)


class Cells:
    """The bytes ``where`` of each of ``objects``, which must live as long; none at all where ``where`` is None."""

    def __init__(self, objects: Iterable[Any], where: range | None) -> None:
        # Of no type that would stop at a zero byte, and read without an audit event once it is made.
        self._cells = [_cell(each, where) for each in objects] if where else []
        self._raw: Callable[[Any], bytes] = operator.attrgetter("raw")
        self._remembered = list(map(self._raw, self._cells))

    def __bool__(self) -> bool:
        return self._cells != []

    def same(self, equal: Any = operator.eq, each: Any = map, every: Any = all) -> bool:
        """Whether all are what they were; False too where there are none, and nothing can be told."""
        return self._cells != [] and every(each(equal, each(self._raw, self._cells), self._remembered))

    def first_changed(self) -> int | None:
        """The index of the first that is not what it was; None where nothing can be told."""
        pairs = enumerate(zip(map(self._raw, self._cells), self._remembered))  # noqa: B905 - Python 3.9 has no strict
        return next((index for index, (now, then) in pairs if now != then), None)


def words_of(sample: Any) -> Any:
    """The memory of an object as an array of words."""
    return (ctypes.c_size_t * (type(sample).__basicsize__ // WORD)).from_address(id(sample))


def _cell(each: Any, where: range) -> Any:
    return (ctypes.c_char * len(where)).from_address(id(each) + where.start)
