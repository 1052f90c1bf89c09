"""What the permutation library does, told a second time, and the cases by which it is checked.

The held-out checker computes its expected values from tuples of images. This model computes on maps, as
the library does, so that a fault of the library can be told here too: which checks a fault must fail is
found by comparing the faulty model with this one, and never by running the faulty source.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

Map = dict[int, int]
FOUR = tuple(itertools.permutations(range(4)))
CYCLES: tuple[tuple[int, ...], ...] = ((), (2,), (0, 3), (0, 1, 2), (3, 1, 0), (0, 2, 1, 3), (5, 9, 7))


class Model:
    """The library as its contract has it. A fault overrides what it breaks."""

    def canonical(self, mapping: Map) -> Map:
        if sorted(mapping) != sorted(mapping.values()):
            raise ValueError
        return {k: v for k, v in mapping.items() if k != v}

    def apply(self, p: Map, i: int) -> int:
        return p.get(i, i)

    def inverse(self, p: Map) -> Map:
        return {v: k for k, v in self.canonical(p).items()}

    def rotation(self, *places: int) -> Map:
        if len(set(places)) < len(places):
            raise ValueError
        return self.canonical(dict(zip(places, self.shifted(places), strict=True)))

    def shifted(self, places: tuple[int, ...]) -> tuple[int, ...]:
        return (*places[1:], *places[:1])

    def compose(self, *several: Map) -> Any:
        if len(several) == 2:
            return self.pair(*map(self.canonical, several))
        result: Map = {}
        for p in several:
            result = self.after(result, self.canonical(p))
        return result

    def pair(self, outer: Map, inner: Map) -> Map:
        return self.after(outer, inner)

    def after(self, outer: Map, inner: Map) -> Map:
        return self.finished({i: self.apply(outer, self.apply(inner, i)) for i in {**outer, **inner}})

    def finished(self, composed: Map) -> Map:
        return self.canonical(composed)

    def arrange(self, p: Map, items: Sequence[Any]) -> list[Any]:
        moves = self.canonical(p)
        if any(i >= len(items) for i in moves):
            raise ValueError
        arranged = list(items)
        for i in range(len(items)):
            self.place(arranged, items, i, self.apply(moves, i))
        return arranged

    def place(self, arranged: list[Any], items: Sequence[Any], i: int, image: int) -> None:
        arranged[image] = items[i]


@dataclass(frozen=True, slots=True)
class Case:
    """One check: its id, and the call whose result it looks at."""

    id: str
    function: str
    arguments: tuple[Any, ...]

    def outcome(self, model: Model) -> Any:
        """What the call gives; a refusal gives the name of its error."""
        try:
            return getattr(model, self.function)(*self.arguments)
        except (ValueError, IndexError) as error:
            return type(error).__name__


@cache
def cases() -> tuple[Case, ...]:
    """Every check."""
    return tuple(_cases())


@cache
def outcomes() -> tuple[Any, ...]:
    """What each check must see, in the order of ``cases``."""
    right = Model()
    return tuple(case.outcome(right) for case in cases())


def binary() -> tuple[str, ...]:
    """The ids of the 576 binary compositions over four positions."""
    return tuple(case.id for case in cases() if case.id.startswith("Binary."))


def _cases() -> Iterator[Case]:
    yield Case("Nullary.test_identity", "compose", ())
    yield Case("Unary.test_listed_fixed_points", "compose", ({0: 0, 1: 2, 2: 1, 7: 7},))
    for p in FOUR:
        yield Case(f"Unary.{_name(p)}", "compose", (_sparse(p),))
    for p, q in itertools.product(FOUR, FOUR):
        yield Case(f"Binary.{_name(p, q)}", "compose", (_sparse(p), _sparse(q)))
    for k in range(24):
        three = FOUR[k], FOUR[(7 * k + 5) % 24], FOUR[(11 * k + 13) % 24]
        yield Case(f"Ternary.{_name(*three)}", "compose", tuple(map(_sparse, three)))
    yield from _other_cases()


def _other_cases() -> Iterator[Case]:
    for p in FOUR:
        yield Case(f"Arrange.{_name(p)}", "arrange", (_sparse(p), [0, 1, 2, 3]))
        yield Case(f"Inverse.{_name(p)}", "inverse", (_sparse(p),))
        for i in range(6):
            yield Case(f"Apply.{_name(p)}_at_{i}", "apply", (_sparse(p), i))
    yield Case("Arrange.test_more_items_than_positions", "arrange", ({0: 2, 2: 0}, "abcdef"))
    yield Case("Arrange.test_nothing", "arrange", ({}, ()))
    yield Case("Arrange.test_too_few_items", "arrange", ({0: 3, 3: 0}, "abc"))
    yield Case("Arrange.test_items_are_left_alone", "arrange", ({}, []))
    for cycle in CYCLES:
        yield Case("Rotation.test_" + ("_".join(map(str, cycle)) or "none"), "rotation", cycle)
    yield Case("Rotation.test_repeated", "rotation", (0, 1, 0))
    yield Case("Canonical.test_listed_fixed_points", "canonical", ({3: 3, 0: 1, 1: 0},))
    yield Case("Canonical.test_leaves_its_positions", "canonical", ({0: 1},))
    yield Case("Canonical.test_two_to_one", "canonical", ({0: 1, 1: 0, 2: 1},))


def _sparse(images: Sequence[int]) -> Map:
    return {i: image for i, image in enumerate(images) if i != image}


def _name(*several: Sequence[int]) -> str:
    return "test_" + "_".join("".join(map(str, images)) for images in several)
