"""Usage out of a program's own output: found by path, added up or taken last, and unknown as soon as it is no amount."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recurve_eval.agents._extract import Extractor, check_paths
from recurve_eval.agents._meter import MAX_LINE_BYTES, JsonLines, Meter, at
from recurve_eval.domain import Budget, CostSource, Rates, Usage
from recurve_eval.errors import ConfigError

PATHS = {"tokens_in": "u.in", "tokens_out": "u.out", "cost_usd": "cost", "model": "m"}
FREE = Budget("b", wall_s=1.0)


def extract(paths: dict[str, str], *objects: Any, budget: Budget = FREE) -> tuple[Any, str | None]:
    reader = Extractor(paths, Meter(budget, None))
    stream = b"".join(o if isinstance(o, bytes) else json.dumps(o).encode() + b"\n" for o in objects)
    reason = None
    for n in range(0, len(stream), 7):
        reason = reader.feed(stream[n : n + 7]) or reason
    return reader.finish(stream), reason


def test_the_latest_line_or_their_sum() -> None:
    lines = [
        {"u": {"in": 10, "out": 1}, "cost": 0.5, "m": "a"},
        b"noise\n{not json\n",
        {"u": {"in": 20, "out": 2}, "cost": 1.0},
    ]
    last, _ = extract(PATHS, *lines)
    assert last.usage == Usage(20, 2, None, 1.0, CostSource.REPORTED) and (last.state, last.model) == ("ok", "a")
    added, _ = extract(PATHS | {"add": "sum"}, *lines)
    assert (added.usage.tokens_in, added.usage.cost_usd) == (30, 1.5)


def test_only_the_lines_that_are_meant_count() -> None:
    found, _ = extract(
        PATHS | {"where": "type=end"},
        {"type": "x", "u": {"in": 5, "out": 5}},
        {"type": "end", "u": {"in": 1, "out": 1}},
    )
    assert found.usage.tokens == 2


def test_one_document_over_many_lines() -> None:
    text = json.dumps({"u": {"in": 3, "out": 4}, "cost": 2}, indent=2).encode()
    assert extract(PATHS, text)[0].usage.tokens == 7


def test_nothing_found_is_missing_and_unknown() -> None:
    found, _ = extract(PATHS, {"other": 1}, b"text\n")
    assert (found.state, found.usage) == ("missing", Usage())


@pytest.mark.parametrize("wrong", [-1, 1.5, "12k", True, 10**40, [1]])
def test_a_figure_that_is_no_amount_makes_all_of_it_unknown(wrong: Any) -> None:
    found, _ = extract(PATHS, {"u": {"in": 1, "out": 1}, "cost": 0.1}, {"u": {"in": wrong, "out": 1}, "cost": 0.1})
    assert found.state.startswith("malformed: 'u.in' is not a count")
    assert found.usage == Usage()


@pytest.mark.parametrize("wrong", [-0.01, "free", 1e300])
def test_a_cost_that_is_no_money_is_unknown(wrong: Any) -> None:
    assert extract(PATHS, {"u": {"in": 1, "out": 1}, "cost": wrong})[0].usage.cost_usd is None


@pytest.mark.parametrize(
    ("budget", "reason"),
    [(Budget("b", 1.0, tokens=30), "tokens"), (Budget("b", 1.0, usd=1.5), "usd"), (Budget("b", 1.0, tokens=31), None)],
)
def test_a_bound_is_met_while_it_streams(budget: Budget, reason: str | None) -> None:
    line = {"u": {"in": 10, "out": 5}, "cost": 0.75}
    assert extract(PATHS | {"add": "sum"}, line, line, budget=budget)[1] == reason


def test_tokens_meet_a_bound_in_dollars_by_their_price() -> None:
    meter = Meter(Budget("b", 1.0, usd=0.01), Rates(1.0, 10.0, 0.1))
    assert meter.add(Usage(5000, 400)) is None
    assert meter.add(Usage(0, 100)) == "usd"


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        ({"tokens": "u"}, r"agent\.usage\.tokens"),
        ({"model": "m"}, "names no figure"),
        ({"steps": "n", "add": "all"}, "way of adding"),
        ({"steps": "n", "where": "type"}, "PATH=VALUE"),
    ],
)
def test_paths_that_make_no_sense_are_refused(usage: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_paths(usage)


def test_a_line_beyond_the_bound_is_skipped_and_the_next_one_read() -> None:
    taken: list[Any] = []
    lines = JsonLines(taken.append)
    for _ in range(MAX_LINE_BYTES // 1_000_000 + 1):
        lines.feed(b"{" * 1_000_000)
    lines.feed(b'}\n{"a": 1}\n{"b":')
    lines.feed(b" 2}")
    assert taken == [{"a": 1}]
    lines.finish()
    assert taken == [{"a": 1}, {"b": 2}]


def test_paths_reach_through_lists_and_stop_at_what_is_not_there() -> None:
    tree = {"a": [{"b": 1}, {"b": 2}]}
    assert at(tree, "a.1.b") == 2
    assert at(tree, "a.2.b") is None and at(tree, "a.b") is None and at(tree, "a.0.b.c") is None
