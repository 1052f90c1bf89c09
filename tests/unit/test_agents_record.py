"""A run record is believed as a whole or not at all, and unknown is never zero."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recurve_eval.agents.record import MAX_BYTES, RunRecord, parse_record, turn_of
from recurve_eval.domain import CostSource, TurnStatus, Usage
from recurve_eval.ports import Completed

FULL = {
    "model": "m-1", "tokens": {"input": 10, "output": 5, "cached": 3}, "cost_usd": 0.25, "steps": 4,
    "declared_done": True, "summary": "done", "extra": [1],
}  # fmt: skip


def test_a_full_record() -> None:
    parsed = parse_record(json.dumps(FULL).encode())
    usage = Usage(10, 5, 3, 0.25, CostSource.REPORTED, 4)
    assert parsed == RunRecord("ok", usage, "m-1", True, "done")


@pytest.mark.parametrize("text", ["{}", '{"tokens": null, "cost_usd": null, "declared_done": null}', '{"tokens": {}}'])
def test_what_is_not_said_is_unknown(text: str) -> None:
    parsed = parse_record(text.encode())
    assert parsed == RunRecord("ok", Usage())
    assert parsed.usage.cost_source is CostSource.UNKNOWN and parsed.usage.tokens is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"cost_usd": -0.01}, "cost_usd"), ({"cost_usd": "0.1"}, "cost_usd"), ({"cost_usd": True}, "cost_usd"),
        ({"tokens": {"input": -1}}, "input"), ({"tokens": {"output": 1.0}}, "output"), ({"tokens": [1]}, "tokens"),
        ({"tokens": {"cached": 2**53 + 1}}, "cached"), ({"tokens": 5}, "tokens"), ({"steps": True}, "steps"),
        ({"declared_done": 1}, "declared_done"), ({"declared_done": "yes"}, "declared_done"),
        ({"summary": 3}, "summary"), ({"model": ""}, "model"), ({"model": ["m"]}, "model"),
        ({"model": "m" * 201}, "model"),
    ],
)  # fmt: skip
def test_one_wrong_value_makes_all_of_it_unknown(change: dict[str, object], named: str) -> None:
    parsed = parse_record(json.dumps(FULL | change).encode())
    assert parsed.state.startswith("malformed: ") and named in parsed.state
    assert parsed.usage == Usage() and parsed.model is None and parsed.declared_done is None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"cost_usd": NaN}', b'{"cost_usd": Infinity}',
        b'{"cost_usd": 1e999}', b'{"steps": 1' + b"0" * 5000 + b"}", b"[" * 60000, b'{"steps": 1, "steps": 2}',
        b'{"summary": "' + b"x" * MAX_BYTES + b'"}', b"\0" * 10, b'{"tokens": {"input": 1, "input": 1}}',
    ],
)  # fmt: skip
def test_rubbish_is_malformed_with_a_reason(data: bytes) -> None:
    parsed = parse_record(data)
    assert parsed.state.startswith("malformed: ") and len(parsed.state) > 14
    assert parsed.usage == Usage()


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*FULL, "input", "output"]), inner),
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_nothing_an_agent_writes_raises(data: bytes) -> None:
    parsed = parse_record(data)
    assert parsed.state == "ok" or parsed.state.startswith("malformed: ")
    for number in (parsed.usage.tokens_in, parsed.usage.tokens_out, parsed.usage.cost_usd, parsed.usage.steps):
        assert number is None or number >= 0


def test_long_summaries_are_cut_and_lone_surrogates_survive_encoding() -> None:
    parsed = parse_record(json.dumps({"summary": "\ud800" + "x" * 5000}).encode())
    assert parsed.state == "ok" and len(parsed.summary) == 4000
    parsed.summary.encode()


def completed(code: int | None = 0, timed_out: bool = False, cancelled: bool = False) -> Completed:
    return Completed(code, timed_out, cancelled, b"", b"", 0, 1.0)


@pytest.mark.parametrize(
    ("done", "status"),
    [
        (completed(), TurnStatus.COMPLETED), (completed(1), TurnStatus.FAILED), (completed(137), TurnStatus.FAILED),
        (completed(None, timed_out=True), TurnStatus.TIMED_OUT),
        (completed(None, cancelled=True), TurnStatus.CANCELLED),
    ],
)  # fmt: skip
def test_status_follows_how_the_command_ended(done: Completed, status: TurnStatus) -> None:
    assert turn_of(done, RunRecord("missing"), paid=True).status is status


def test_a_paid_agent_without_a_record_has_unknown_cost_and_a_free_one_costs_nothing() -> None:
    paid = turn_of(completed(), RunRecord("missing"), paid=True)
    free = turn_of(completed(), RunRecord("missing"), paid=False)
    assert (paid.usage.cost_usd, paid.usage.cost_source) == (None, CostSource.UNKNOWN)
    assert (free.usage.cost_usd, free.usage.cost_source, free.usage.tokens) == (0.0, CostSource.FREE, None)
