"""Whether names still mean what they did, told without touching what they name.

To look at the value of a name counts a reference, and so copies the page that the value lies on: hundreds of pages
in a graded process, once for each grading. An interpreter that numbers the states of its dictionaries tells at
once that one was not written to; only those that were, and all of them elsewhere, are compared value by value.
"""

from __future__ import annotations

import ctypes
import gc
import operator
import types
from typing import Any, Callable, Iterable

_WORD = ctypes.sizeof(ctypes.c_void_p)


class Bindings:
    """What ``places``, modules and classes, bound to names when this was made."""

    def __init__(self, places: Iterable[tuple[Any, dict[str, Any]]]) -> None:
        self._places = list(places)
        where = _where()
        self._namespaces = [_namespace(place) for place, _ in self._places]
        cells = [_cell(namespace, where) for namespace in self._namespaces] if where is not None else []
        self._cells: list[Any] = cells if None not in cells else []
        self._raw: Callable[[Any], bytes] = operator.attrgetter("raw")
        self._states = list(map(self._raw, self._cells))

    def changed(
        self, same: Any = operator.is_, equal: Any = operator.eq, each: Any = map, every: Any = all
    ) -> str | None:
        """Name one that is bound to something else, or None."""
        if self._cells and every(each(equal, each(self._raw, self._cells), self._states)):
            return None
        for place, names in self._places:
            current = vars(place)
            # Without a step of Python for each name.
            if not every(each(same, each(current.get, names), names.values())):
                return "%s.%s" % (place.__name__, next(n for n in names if current.get(n) is not names[n]))
        return None


def _namespace(place: Any) -> Any:
    names = vars(place)
    return gc.get_referents(names)[0] if type(names) is types.MappingProxyType else names


def _where() -> int | None:
    """Which byte of a dictionary the number of its state begins at; None where that cannot be told."""
    sample = {"name": 0}
    words = (ctypes.c_size_t * (dict.__basicsize__ // _WORD)).from_address(id(sample))
    differ = []
    for value in (1, 2, 3):
        before = tuple(words)
        sample["name"] = value
        differ.append([index for index, word in enumerate(words) if word != before[index]])
    written = tuple(words)
    read = sample.get("name"), sample.get("another"), list(sample), dict(sample)
    del read
    one = len(differ[0]) == 1 and differ == differ[:1] * len(differ)
    return differ[0][0] * _WORD if one and written == tuple(words) else None


def _cell(namespace: Any, where: int) -> Any:
    """Of no type that would stop at a zero byte."""
    return (ctypes.c_char * _WORD).from_address(id(namespace) + where) if type(namespace) is dict else None
