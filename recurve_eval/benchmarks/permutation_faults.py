"""Faults of the permutation library: the one that is told, and variants drawn by a seed.

Each is an edit of the right source and, independently, a faulty model; from the model follows which
checks the edited source must fail, and that it must fail no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from recurve_eval.benchmarks.permutation_model import Map, Model, cases, outcomes

VARIANTS = 12
_PAIR = "        return _after(outer, inner)\n"
_LOOP = "    result = {}\n    for permutation in permutations:\n"
_PLACE = "        arranged[apply(moves, position)] = item\n"


@dataclass(frozen=True)
class Fault:
    """An edit of the library, and the model of what it does. ``fails`` are the checks that it must fail."""

    kind: str
    old: str
    new: str
    model: type[Model]

    def seeded(self, source: str) -> str:
        """The library with the fault. Raises ValueError where the place is not there exactly once."""
        if source.count(self.old) != 1:
            raise ValueError(f"fault {self.kind}: the source does not have its place exactly once")
        return source.replace(self.old, self.new)

    @cached_property
    def fails(self) -> tuple[str, ...]:
        wrong = self.model()
        return tuple(case.id for case, right in zip(cases(), outcomes(), strict=True) if case.outcome(wrong) != right)


@cache
def regression() -> Fault:
    """The fault of the public statement: binary composition runs in the wrong direction."""

    def pair(self: Model, outer: Map, inner: Map) -> Map:
        return self.after(inner, outer)

    return _fault("wrong_direction", _PAIR, "        return _after(inner, outer)\n", pair=pair)


@cache
def drawn(seed: int) -> tuple[Fault, ...]:
    """The variants of a seed: which faults of the catalogue, in which order, with which numbers in them."""

    def rank(name: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{name}".encode()).digest()

    chosen = sorted(_CATALOGUE, key=rank)[:VARIANTS]
    return tuple(_CATALOGUE[name](rank(name)[0]) for name in chosen)


def _fault(kind: str, old: str, new: str, **overrides: Callable[..., Any]) -> Fault:
    return Fault(kind, old, new, type(kind, (Model,), dict(overrides)))


# -- the catalogue; ``n`` is a number drawn by the seed -------------------------------------------------


def _compose_when(kind: str, when: str, then: str, applies: Callable[[int], bool], does: Callable[..., Any]) -> Fault:
    def compose(self: Model, *several: Map) -> Any:
        return does(self, *several) if applies(len(several)) else Model.compose(self, *several)

    return _fault(kind, _LOOP, f"    if {when}:\n        {then}\n{_LOOP}", compose=compose)


def _nullary_none(n: int) -> Fault:
    return _compose_when("nullary", "not permutations", "return None", lambda k: k == 0, lambda self: None)


def _unary_inverts(n: int) -> Fault:
    then = "return inverse(permutations[0])"
    return _compose_when("unary_inverse", "len(permutations) == 1", then, lambda k: k == 1, Model.inverse)


def _unary_unchanged(n: int) -> Fault:
    then = "return dict(permutations[0])"
    return _compose_when("unary_as_given", "len(permutations) == 1", then, lambda k: k == 1, lambda self, p: dict(p))


def _ternary_drops(n: int) -> Fault:
    k, when = n % 3, "len(permutations) > 2"
    then = f"permutations = permutations[:{k}] + permutations[{k + 1}:]"

    def does(self: Model, *several: Map) -> Any:
        kept = several[:k] + several[k + 1 :]
        return self.after(*map(self.canonical, kept))

    return _compose_when(f"ternary_drops_{k}", when, then, lambda count: count > 2, does)


def _ternary_reversed(n: int) -> Fault:
    then = "permutations = permutations[::-1]"
    return _compose_when(
        "ternary_reversed", "len(permutations) > 2", then, lambda k: k > 2,
        lambda self, *several: Model.compose(self, *several[::-1]),
    )  # fmt: skip


def _pair_fault(kind: str, condition: str, then: str, does: Callable[..., Map]) -> Fault:
    return _fault(kind, _PAIR, f"        if {condition}:\n            {then}\n{_PAIR}", pair=does)


def _squares_vanish(n: int) -> Fault:
    def pair(self: Model, outer: Map, inner: Map) -> Map:
        return {} if outer == inner else self.after(outer, inner)

    return _pair_fault("squares_vanish", "outer == inner", "return {}", pair)


def _one_mover(n: int) -> Fault:
    k = n % 4

    def pair(self: Model, outer: Map, inner: Map) -> Map:
        return outer if k in outer and k in inner else self.after(outer, inner)

    return _pair_fault(f"outer_alone_at_{k}", f"{k} in outer and {k} in inner", "return outer", pair)


def _fixed_points_kept(n: int) -> Fault:
    new = "    return {position: apply(outer, apply(inner, position)) for position in moved}\n"
    return _fault("fixed_points_kept", f"    return canonical({new[11:-1]})\n", new, finished=lambda self, m: m)


def _long_cycles_not_undone(n: int) -> Fault:
    k = 2 + n % 2

    def inverse(self: Model, p: Map) -> Map:
        moves = self.canonical(p)
        return moves if len(moves) > k else Model.inverse(self, p)

    old = "    return {image: position for position, image in moves.items()}\n"
    return _fault(
        f"not_undone_over_{k}", old, f"    if len(moves) > {k}:\n        return moves\n{old}", inverse=inverse
    )


def _rotates_backwards(n: int) -> Fault:
    return _fault(
        "rotates_backwards", "positions[1:] + positions[:1]", "positions[-1:] + positions[:-1]",
        shifted=lambda self, places: (*places[-1:], *places[:-1]),
    )  # fmt: skip


def _no_swaps(n: int) -> Fault:
    old = "    return canonical(dict(zip(positions, positions[1:] + positions[:1])))\n"
    new = f"    if len(positions) == 2:\n        return {{}}\n{old}"
    return _fault("no_swaps", old, new, rotation=lambda self, *at: {} if len(at) == 2 else Model.rotation(self, *at))


def _arranges_backwards(n: int) -> Fault:
    def place(self: Model, arranged: list[Any], items: Any, i: int, image: int) -> None:
        arranged[i] = items[image]

    new = "        arranged[position] = items[apply(moves, position)]\n"
    return _fault("arranges_backwards", _PLACE, new, place=place)


def _arrange_forgets(n: int) -> Fault:
    k = n % 4

    def place(self: Model, arranged: list[Any], items: Any, i: int, image: int) -> None:
        if i != k:
            arranged[image] = items[i]

    new = f"        if position != {k}:\n    {_PLACE}"
    return _fault(f"arrange_forgets_{k}", _PLACE, new, place=place)


def _short_items_taken(n: int) -> Fault:
    def arrange(self: Model, p: Map, items: Any) -> list[Any]:
        return Model.arrange(self, {i: k for i, k in p.items() if max(i, k) < len(items)}, items)

    old = '        raise ValueError("the permutation moves a position beyond the items")\n'
    new = "        moves = {k: i for k, i in moves.items() if max(k, i) < len(items)}\n"
    return _fault("short_items_taken", old, new, arrange=arrange)


def _anything_is_canonical(n: int) -> Fault:
    def canonical(self: Model, mapping: Map) -> Map:
        if len(set(mapping.values())) < len(mapping):
            raise ValueError
        return {k: v for k, v in mapping.items() if k != v}

    old = "    if set(mapping) != set(mapping.values()) or len(set(mapping.values())) < len(mapping):\n"
    return _fault("open_ended", old, "    if len(set(mapping.values())) < len(mapping):\n", canonical=canonical)


def _far_positions_wrap(n: int) -> Fault:
    k = 4 + n % 2
    new = f"    return permutation.get(position, position % {k})\n"
    return _fault(
        f"wraps_at_{k}",
        "    return permutation.get(position, position)\n",
        new,
        apply=lambda self, p, i: p.get(i, i % k),
    )


_CATALOGUE: Mapping[str, Callable[[int], Fault]] = {
    "nullary_none": _nullary_none, "unary_inverts": _unary_inverts, "unary_unchanged": _unary_unchanged,
    "ternary_drops": _ternary_drops, "ternary_reversed": _ternary_reversed, "squares_vanish": _squares_vanish,
    "one_mover": _one_mover, "fixed_points_kept": _fixed_points_kept, "rotates_backwards": _rotates_backwards,
    "long_cycles_not_undone": _long_cycles_not_undone, "no_swaps": _no_swaps, "arrange_forgets": _arrange_forgets,
    "arranges_backwards": _arranges_backwards, "short_items_taken": _short_items_taken,
    "anything_is_canonical": _anything_is_canonical, "far_positions_wrap": _far_positions_wrap,
}  # fmt: skip
