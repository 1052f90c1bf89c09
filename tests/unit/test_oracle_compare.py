"""When an answer is right, and what JSON inputs become."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import pytest

from recurve_eval.resources import oracle_dir

SPEC = importlib.util.spec_from_file_location("compare", oracle_dir() / "runner" / "compare.py")
assert SPEC is not None and SPEC.loader is not None
compare = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(compare)
NAN, INF = math.nan, math.inf

EQUAL = [
    (1, 1, 0, True), (1, 2, 0, False), (1, 1.0, 0, True), ("a", "a", 0, True), (None, None, 0, True),
    ((1, 2), (1, 2), 0, True), ((1, 2), [1, 2], 0, False), ({1, 2}, {2, 1}, 0, True), ({"a": (1,)}, {"a": (1,)}, 0, True),
    (0.5, 0.5 + 5e-7, 0, True), (0.5, 0.5 + 5e-6, 0, False), ([0.5, 1.5], [0.5, 1.5 + 5e-7], 0, True),
    ([0.5, 1.5], [0.5], 0, False), ([0.5, 1], [0.5 + 5e-7, 1], 0, False), ([0.5, 1], [0.5 + 5e-7, 1], 1e-6, True),
    ((0.5,), [0.5 + 5e-7], 0, False), (1.0, 1, 0, True), (1.0, 2, 1e-6, False), (0.5, None, 0, False),
    (1e9, 1e9 + 50, 0, True), (1e9, 1e9 + 500, 0, False), (5, 5 + 1e-9, 0, False), ([[0.5]], [[0.5 + 5e-7]], 1e-6, True),
    (NAN, NAN, 0, True), (NAN, 1.0, 0, False), (1.0, NAN, 0, False), ([NAN, 1.0], [NAN, 1.0], 0, True),
    (INF, INF, 0, True), (INF, 1e308, 0, False), (1.0, INF, 0, False), ("x", "y", 1e-6, False), ([], [], 0, True),
    ([], (), 0, False), ([0.5], ["0.5"], 0, False), (True, 1, 0, True),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "answer", "atol", "right"), EQUAL)
def test_equality_with_floats_as_close_as_stated(expected: Any, answer: Any, atol: float, right: bool) -> None:
    assert compare.agrees("equal", [], expected, answer, atol) is right


RULES = [
    ("set", [], [1, 2, 2], (2, 1), True), ("set", [], [1, 2], [1], False), ("any", [], 1, None, True),
    ("not_none", [], "match", "other", True), ("not_none", [], "match", None, False), ("not_none", [], None, None, True),
    ("not_none", [], None, "match", False), ("not_none", [], True, True, True), ("not_none", [], None, False, True),
    ("root", [[-2.0, 1.0]], None, 2.0, True), ("root", [[-2.0, 1.0]], None, 2.1, False),
    ("root", [[-2.0, 1.0]], None, 1.9, False), ("root", [[-2.0, 1.0]], None, None, False),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "arguments", "expected", "answer", "right"), RULES)
def test_the_other_rules(rule: str, arguments: list[Any], expected: Any, answer: Any, right: bool) -> None:
    assert compare.agrees(rule, arguments, expected, answer, 1e-4) is right


RESTORED = [
    ([[1, [2]], [3]], [[-1, "tuple", [0]]], [(1, [2]), (3,)]),
    ([[1, [2]], [3]], [[0, "tuple", [1]]], [[1, (2,)], [3]]),
    ([[1, [2]], [3]], [[0, "tuple", [0, 1]]], [(1, (2,)), [3]]),
    ([[1, [2, [3]]]], [[-1, "tuple", [-1]]], [(1, (2, (3,)))]),
    ([{"a": [1]}, [2]], [[0, "tuple", [1]]], [{"a": (1,)}, [2]]),
    ([[[1, 1], []]], [[0, "set", [1]]], [[{1}, {}]]),
    (["1.5", "1+2j"], [[0, "float", []], [1, "complex", []]], [1.5, 1 + 2j]),
    ([[1], "x"], [], [[1], "x"]),
]


@pytest.mark.parametrize(("arguments", "shape", "wanted"), RESTORED)
def test_types_that_json_lacks(arguments: list[Any], shape: list[Any], wanted: list[Any]) -> None:
    found = compare.restore(arguments, shape)
    assert found == wanted
    assert [type(a) for a in found] == [type(a) for a in wanted]
