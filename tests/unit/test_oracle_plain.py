"""Plain values across the line: honest ones arrive whole, lying ones arrive as what they are."""

import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurve_eval.resources import oracle_dir

sys.path.insert(0, str(oracle_dir()))
from runner import plain

sys.path.pop(0)

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
HASHABLE = st.integers() | st.text() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    LEAVES | st.frozensets(HASHABLE) | st.sets(HASHABLE),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(HASHABLE, inner),
    max_leaves=20,
)  # fmt: skip


def crossed(value: object) -> object:
    return plain.decode(json.loads(json.dumps(plain.encode(value))))


@given(VALUES)
def test_plain_values_cross_whole(value: object) -> None:
    arrived = crossed(value)
    assert arrived == value
    assert type(arrived) is type(value)


def test_special_floats_cross() -> None:
    arrived = crossed([math.inf, -math.inf, math.nan, -0.0])
    assert arrived[:2] == [math.inf, -math.inf]
    assert math.isnan(arrived[2])
    assert math.copysign(1, arrived[3]) == -1


@pytest.mark.parametrize("base", [int, float, str, list, dict, tuple, set, frozenset, bytes])
def test_a_lying_subclass_arrives_as_the_value_it_holds(base: type) -> None:
    lying = type("Lying", (base,), {"__eq__": lambda self, other: True, "__hash__": lambda self: 0,
                                     "__iter__": lambda self: iter([1, 2, 3]), "__len__": lambda self: 9})  # fmt: skip
    arrived = crossed(lying())
    assert type(arrived) is base
    assert arrived == base()


def test_anything_else_arrives_opaque_and_equals_nothing() -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    arrived = crossed(Equal())
    assert isinstance(arrived, plain.Opaque)
    assert not any(arrived == other for other in (0, "", [], None, Equal, object()))


def test_what_only_the_tests_could_send_is_told_apart_from_what_a_candidate_made() -> None:
    with pytest.raises(plain.NotPlain):
        plain.encode(object(), strict=True)
    with pytest.raises(plain.Foreign):
        plain.encode([crossed(object())], strict=True)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text() | st.sampled_from(["t", "v"]), s),
    )
)
def test_no_message_breaks_the_decoder(message: object) -> None:
    plain.decode(message)


def test_arguments_that_were_changed_in_place_are_seen() -> None:
    value = {"a": [1, (2, 3)], 5: {6}}
    assert crossed(value) == value
    assert list(crossed(x for x in [1, 2])) == [1, 2]
