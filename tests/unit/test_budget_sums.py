"""A cell's budget over its turns: whichever bound is met first ends it, and an unknown use admits no further turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recurve_eval.budgets import Consumed, exhausted, remaining
from recurve_eval.config import BudgetConfig
from recurve_eval.domain import Budget, CostSource, Rates, Turn, TurnStatus, Usage, is_snapshot
from recurve_eval.errors import ConfigError

BUDGET = Budget("b", wall_s=100.0, tokens=1000, usd=1.0, steps=10)


def turn(tokens: int | None = 100, usd: float | None = 0.1, steps: int | None = 1, wall_s: float = 1.0) -> Turn:
    usage = Usage(tokens, None if tokens is None else 0, 0, usd, CostSource.REPORTED, steps)
    return Turn(TurnStatus.COMPLETED, 0, usage, wall_s)


def test_what_is_left_counts_every_turn_and_the_gate() -> None:
    left = remaining(BUDGET, Consumed([turn(), turn(300, 0.5, 4, 10.0)], gate_wall_s=9.0))
    assert (left.tokens, left.usd, left.steps, left.wall_s) == (600, pytest.approx(0.4), 5, 80.0)
    beyond = remaining(BUDGET, Consumed([turn(5000, 9.0, 99, 1000.0)]))
    assert (beyond.tokens, beyond.usd, beyond.steps, beyond.wall_s) == (0, 0.0, 0, 0.001)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([turn()], (None, False)),
        ([turn(500), turn(500)], ("tokens", False)),
        ([turn(500), turn(501)], ("tokens", True)),
        ([turn(usd=1.0)], ("usd", False)),
        ([turn(steps=11)], ("steps", True)),
        ([turn(wall_s=101.0)], ("wall", True)),
        ([turn(tokens=None)], ("tokens", False)),
        ([turn(usd=None), turn()], ("usd", False)),
        ([turn(tokens=None), turn(usd=2.0)], ("usd", True)),
    ],
)
def test_the_first_bound_met_is_named(turns: list[Turn], expected: tuple[str | None, bool]) -> None:
    assert exhausted(BUDGET, Consumed(turns)) == expected


def test_gate_time_exhausts_but_does_not_overrun() -> None:
    assert exhausted(BUDGET, Consumed([turn()], gate_wall_s=99.5)) == ("wall", False)


def test_an_unknown_use_is_nothing_where_nothing_bounds_it() -> None:
    assert exhausted(Budget("b", wall_s=9.0), Consumed([turn(None, None, None)])) == (None, False)


def test_matched_by_dollars_only_dollars_and_time_bind() -> None:
    matched = replace(BUDGET, match="usd").binding
    assert (matched.tokens, matched.steps, matched.usd, matched.wall_s) == (None, None, 1.0, 100.0)
    assert exhausted(matched, Consumed([turn(10**9, 0.2, 10**6)])) == (None, False)
    assert BUDGET.binding is BUDGET


@pytest.mark.parametrize("wrong", [{"match": "tokens"}, {"match": "usd"}, {"call_usd": -1.0}, {"usd": float("nan")}])
def test_a_budget_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"budget\."):
        BudgetConfig("b", **wrong)


def test_tokens_become_dollars_at_the_models_rates() -> None:
    rates = Rates(input=1.0, output=5.0, cached=0.1)
    priced = rates.priced(Usage(1_000_000, 100_000, 500_000))
    assert priced.cost_usd == pytest.approx(0.5 + 0.05 + 0.5)
    assert priced.cost_source is CostSource.PRICED
    unknown_cache = rates.priced(Usage(1_000_000, 100_000)).cost_usd
    assert unknown_cache == pytest.approx(1.5), "an unknown cache is never a discount"
    reported = Usage(1, 1, 0, 7.0, CostSource.REPORTED)
    assert rates.priced(reported) is reported, "what the agent reports wins"
    assert rates.priced(Usage(tokens_in=5)).cost_usd is None, "unknown is never zero"


@pytest.mark.parametrize(
    ("served", "same"),
    [
        ("m-4", True),
        ("m-4-20251001", True),
        ("m-4-2025-10-01", True),
        ("m-4-mini", False),
        ("m-45", False),
        (None, False),
    ],
)
def test_a_dated_snapshot_is_the_is_snapshot_and_a_sibling_is_not(served: str | None, same: bool) -> None:
    assert is_snapshot("m-4", served) is same
    assert not is_snapshot("", served)
