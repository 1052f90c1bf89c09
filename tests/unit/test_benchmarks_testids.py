"""Test ids are read from source: what counts as a test, and in which order."""

from __future__ import annotations

import unittest

import pytest

from recurve_eval.testids import unittest_ids

SOURCE = b"""
import unittest
from unittest import IsolatedAsyncioTestCase, TestCase as Case

class Shared(unittest.TestCase):
    def test_b(self): pass
    def test_a(self): pass
    def helper(self): pass

class Child(Shared):
    def test_c(self): pass
    def test_a(self): pass

class Later(IsolatedAsyncioTestCase):
    async def test_soon(self): pass

class Mixin:
    def test_mixed(self): pass

class Mixed(Mixin, unittest.TestCase):
    pass

class NotATest:
    def test_nothing(self): pass
"""


def test_ids_in_order() -> None:
    assert unittest_ids(SOURCE) == (
        "Shared.test_b", "Shared.test_a", "Child.test_b", "Child.test_a", "Child.test_c",
        "Later.test_soon", "Mixed.test_mixed",
    )  # fmt: skip


def test_the_ids_are_those_that_unittest_finds() -> None:
    scope: dict[str, object] = {"__name__": "held_out"}
    exec(SOURCE, scope)
    found = set()
    for value in scope.values():
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == "held_out":
            found |= {f"{value.__name__}.{name}" for name in unittest.TestLoader().getTestCaseNames(value)}
    assert found == set(unittest_ids(SOURCE))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            b"import unittest\nclass A(unittest.TestCase): pass\nclass A(unittest.TestCase): pass\n",
            "class A is defined twice",
        ),
        (SOURCE.replace(b"def test_b", b"def test_a"), "Shared.test_a is defined twice"),
    ],
)
def test_an_id_that_would_be_replaced_is_refused(source: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unittest_ids(source)


def test_a_syntax_error_names_the_file() -> None:
    with pytest.raises(SyntaxError) as refused:
        unittest_ids(b"def (:\n", "held_out/test_x.py")
    assert refused.value.filename == "held_out/test_x.py"


def test_no_tests_give_no_ids() -> None:
    assert unittest_ids(b"x = 1\n") == ()
