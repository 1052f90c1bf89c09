"""Whether names still mean what they did, told without touching what they name.

To look at the value of a name counts a reference, and so copies the page that the value lies on: hundreds of pages
in a graded process, once for each grading. An interpreter that numbers the states of its dictionaries tells at
once that one was not written to; only those that were, and all of them elsewhere, are compared value by value.
"""

from __future__ import annotations

import gc
import operator
import types
from typing import Any, Iterable

from .memory import WORD, Cells, words_of


class Bindings:
    """What ``places``, modules and classes, bound to names when this was made.

    Of ``still`` ones nothing is ever bound again: there, what was put back is changed too, where that can be told.
    """

    def __init__(self, places: Iterable[tuple[Any, dict[str, Any]]], still: bool = False) -> None:
        self._places, self._still = list(places), still
        namespaces = [_namespace(place) for place, _ in self._places]
        self._states = Cells(namespaces, _where() if all(type(names) is dict for names in namespaces) else None)

    def changed(self, same: Any = operator.is_, each: Any = map, every: Any = all) -> str | None:
        """Name one that is bound to something else, or None."""
        if self._states.same():
            return None
        for place, names in self._places:
            current = vars(place)
            # Without a step of Python for each name.
            if not every(each(same, each(current.get, names), names.values())):
                return "%s.%s" % (place.__name__, next(n for n in names if current.get(n) is not names[n]))
        written = self._states.first_changed() if self._still else None
        return None if written is None else "a name of %s" % self._places[written][0].__name__


def _namespace(place: Any) -> Any:
    names = vars(place)
    return gc.get_referents(names)[0] if type(names) is types.MappingProxyType else names


def _where() -> range | None:
    """Which bytes of a dictionary are the number of its state; None where that cannot be told."""
    sample = {"name": 0}
    words = words_of(sample)
    differ = []
    for value in (1, 2, 3):
        before = tuple(words)
        sample["name"] = value
        differ.append([index for index, word in enumerate(words) if word != before[index]])
    written = tuple(words)
    read = sample.get("name"), sample.get("another"), list(sample), dict(sample)
    del read
    one = len(differ[0]) == 1 and differ == differ[:1] * len(differ) and written == tuple(words)
    return range(differ[0][0] * WORD, (differ[0][0] + 1) * WORD) if one else None
