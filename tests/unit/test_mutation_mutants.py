"""Wrong solutions made from a canonical one: distinct, deterministic, and really different."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurve_eval.agents._recorded_claims import recorded_claims
from recurve_eval.calibration.knownbad import known_bad_of
from recurve_eval.domain import KnownBad, Solutions
from recurve_eval.mutation.mutants import mutants
from recurve_eval.mutation.rewrites import rewrites

SOURCE = b'''
import math


def area(sides: list[int], open: bool = False) -> float:
    """An area of 2 sides."""
    if len(sides) < 2 and not open:
        return 0.0
    total = sides[0] * sides[1]
    return total + 1 if open else total


class Box:
    size = 3

    def grow(self, by):
        self.size += by
        return self
'''
FILES = {"solution.py": SOURCE, "notes.txt": b"1 < 2"}


def run(source: bytes) -> dict[str, object]:
    space: dict[str, object] = {}
    exec(compile(source, "solution.py", "exec"), space)
    return space


def test_mutants_are_python_that_differs_and_leave_other_files_alone() -> None:
    found = mutants(FILES, 50, 0, "t")
    texts = {ast.unparse(ast.parse(m.files["solution.py"])) for m in found}
    assert len(texts) == len(found) >= 9
    assert ast.unparse(ast.parse(SOURCE)) not in texts
    assert all(m.files["notes.txt"] == FILES["notes.txt"] for m in found)
    assert all("An area of 2 sides." in t and "list[int]" in t for t in texts), "annotations and docstrings are inert"


def test_the_kind_says_where_and_what() -> None:
    kinds = {m.kind for m in mutants(FILES, 50, 0, "t")}
    assert "solution.py:7 Lt to LtE" in kinds
    assert "solution.py:7 And to Or" in kinds
    assert "solution.py:9 Mult to Add" in kinds
    assert "solution.py:18 returns None" in kinds


def test_few_are_the_first_of_many_and_a_seed_or_task_changes_which() -> None:
    few, many = mutants(FILES, 2, 7, "t"), mutants(FILES, 6, 7, "t")
    assert many[:2] == few
    assert mutants(FILES, 2, 7, "t") == few
    assert {tuple(m.kind for m in mutants(FILES, 2, seed, "t")) for seed in range(8)} != {tuple(m.kind for m in few)}
    assert {tuple(m.kind for m in mutants(FILES, 2, 7, str(t))) for t in range(8)} != {tuple(m.kind for m in few)}


@given(st.binary(max_size=200), st.integers(0, 3))
def test_any_bytes_give_no_more_mutants_than_asked_for(source: bytes, count: int) -> None:
    found = mutants({"a.py": source}, count, 0, "t")
    assert len(found) <= count
    assert all(m.files["a.py"] != source for m in found)


def test_generic_known_bad_ones_keep_names_and_lose_behaviour() -> None:
    found = {b.kind: b.files["solution.py"] for b in known_bad_of(Solutions(canonical=FILES))}
    assert list(found) == ["empty", "none", "raises"]
    assert found["empty"] == b""
    stub = run(found["none"])
    assert stub["area"]([3, 4]) is None  # type: ignore[operator]
    assert stub["Box"]().grow(1) is None  # type: ignore[operator]
    try:
        run(found["raises"])["area"]([3, 4])  # type: ignore[operator]
    except NotImplementedError:
        return
    raise AssertionError("it did not raise")


def test_a_benchmarks_own_kind_wins_over_the_generic_one() -> None:
    own = KnownBad("none", {"solution.py": b"area = lambda *a: None\n"})
    found = known_bad_of(Solutions(canonical=FILES, known_bad=(own,)))
    assert [b.kind for b in found] == ["none", "empty", "raises"]
    assert found[0] is own


def test_what_is_no_python_module_is_only_emptied() -> None:
    found = known_bad_of(Solutions(canonical={"fix.patch": b"--- a\n+++ b\n", "x.py": b"no python here"}))
    assert [(b.kind, set(b.files.values())) for b in found] == [("empty", {b""})]


def test_a_function_that_does_nothing_is_not_called_bad() -> None:
    canonical = {"solution.py": b"def f():\n    return None\n"}
    assert [b.kind for b in known_bad_of(Solutions(canonical=canonical))] == ["empty", "raises"]


@pytest.mark.parametrize(
    "source",
    [
        b"if 1:\n    pass\n" + b"elif 1:\n    pass\n" * 2000,
        b"x = 1" + b" + 1" * 3000,
        b"x = a" + b".b()" * 2000,
        b"x = " + b"-" * 3000 + b"1",
        b"x = " + b"(" * 9000,
        b"x = 1\0",
        b"x = 1" + b" + 1" * 190,
    ],
    ids=["elif", "sum", "calls", "signs", "open", "nul", "nearly"],
)
def test_no_source_is_too_deep(source: bytes) -> None:
    files = {"s.py": source}
    assert all(m.files != files for m in mutants(files, 3, 0, "t"))
    assert all(r.files != files for r in rewrites(files))
    assert recorded_claims("s.py", source, ["assert x"]).keys() <= {
        ".recurve/claims.yaml", ".recurve/probes/own_checks.py", ".recurve/traps/returns_none/s.py",
    }  # fmt: skip
