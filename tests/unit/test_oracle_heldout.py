"""Held-out modules in a shared process: comparisons that are watched, and what the watch must not disturb."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurve_eval.resources import oracle_dir

sys.path.insert(0, str(oracle_dir()))
from runner import heldout

sys.path.pop(0)


class Lying(int):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    __hash__ = int.__hash__


def watched() -> tuple[heldout.Watch, list[str]]:
    accusations: list[str] = []
    return heldout.Watch(accusations.append), accusations


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
                      lambda s: st.lists(s) | st.tuples(s) | st.dictionaries(st.text(), s))  # fmt: skip


@given(VALUES, VALUES)
def test_honest_values_are_never_accused_and_compare_as_before(left: object, right: object) -> None:
    watch, accusations = watched()
    assert watch.equal(left, right) == (left == right)
    assert watch.contains(left, [right]) == (left in [right])  # noqa: FURB171
    assert accusations == []


@given(VALUES)
def test_a_twin_is_never_equal(value: object) -> None:
    assert not (heldout.twin(value) == value)  # noqa: SIM201


@given(VALUES)
def test_what_is_near_is_of_the_same_type_and_never_equal(value: object) -> None:
    near = heldout.near(value)
    assert not (near == value)  # noqa: SIM201
    assert type(near) is type(value) or type(near) is heldout.Wrong


class Once:
    """Equal to what it is compared with first, and to nothing after that."""

    asked = False

    def __eq__(self, other: object) -> bool:
        first, self.asked = not self.asked, True
        return first

    __hash__ = None  # type: ignore[assignment]


class Likely:
    """Equal to every number that an answer may be."""

    def __eq__(self, other: object) -> bool:
        return type(other) is int and abs(other) < 1 << 39

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("liar", [Once, Likely])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_liar_that_picks_what_it_is_equal_to_is_caught(liar: type, swapped: bool) -> None:
    for _ in range(50):
        watch, accusations = watched()
        pair = (5, liar()) if swapped else (liar(), 5)
        watch.cross_check(*pair, pair[0] == pair[1])
        assert accusations


@pytest.mark.parametrize("order", [lambda w: w.equal(Lying(1), 5), lambda w: w.equal(5, Lying(1))])
def test_a_liar_is_caught_on_either_side(order: object) -> None:
    watch, accusations = watched()
    for _ in range(20):
        order(watch)  # type: ignore[operator]
    assert accusations


def test_a_module_runs_under_a_name_nobody_can_guess() -> None:
    watch, accusations = watched()
    held = heldout.HeldOut(
        {"t.py": b"def ok(x):\n    assert x == 3\n    assert 1 < x < 5\n    return x in [3]\n"}, watch
    )
    held.code()
    first, second = held.load("t"), held.load("t")
    assert first.__name__ != second.__name__
    assert first.ok(3) is True
    with pytest.raises(AssertionError):
        first.ok(4)
    assert accusations == []
