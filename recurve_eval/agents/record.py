"""The run record: what an agent may say of itself in the file that RECURVE_RESULT_FILE names.

::

    {"model": served, "tokens": {"input":, "output":, "cached":}, "cost_usd":, "steps":, "declared_done":, "summary":}

Every key may be absent or null, which means unknown; further keys are ignored. A record is believed as a whole
or not at all: one wrong value makes it ``malformed`` and all of its usage unknown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recurve_eval.domain import CostSource, Turn, TurnStatus, Usage, is_text
from recurve_eval.ports import Completed, Session

MAX_BYTES = 64 * 1024
MAX_COUNT = 2**53
MAX_SUMMARY = 4000
MAX_MODEL = 200
UNKNOWN = Usage()
BOUNDS = ("tokens", "usd", "steps")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A parsed record. ``state`` is ``ok``, ``missing`` or ``malformed: why``; unknown values are None."""

    state: str
    usage: Usage = UNKNOWN
    model: str | None = None
    declared_done: bool | None = None
    summary: str = ""


def read_record(session: Session) -> RunRecord:
    """The record that the latest command left. Never raises for what an agent wrote."""
    try:
        data = session.read_result(MAX_BYTES)
    except ValueError as error:
        return RunRecord(f"malformed: {error}")
    return RunRecord("missing") if data is None else parse_record(data)


def parse_record(data: bytes) -> RunRecord:
    """Parse at most 64 KiB of UTF-8 JSON, strictly. Never raises."""
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"longer than {MAX_BYTES} bytes")
        return _parse(data.decode())
    except UnicodeDecodeError as error:
        return RunRecord(f"malformed: not UTF-8 at byte {error.start}")
    except RecursionError:
        return RunRecord("malformed: nested too deeply")
    except ValueError as error:
        return RunRecord(f"malformed: {error}"[:300])


def turn_of(done: Completed, record: RunRecord, *, paid: bool) -> Turn:
    """A turn from how its command ended and what its record says. An unpaid agent costs nothing, known."""
    usage = record.usage
    if not paid:
        usage = Usage(usage.tokens_in, usage.tokens_out, usage.tokens_cached, 0.0, CostSource.FREE, usage.steps)
    return Turn(
        status=_status(done),
        exit_code=done.exit_code,
        usage=usage,
        wall_s=done.wall_s,
        model_served=record.model,
        declared_done=record.declared_done,
        summary=record.summary,
        record=record.state,
        detail=_detail(done),
        stopped_by=done.stopped if done.stopped in BOUNDS else None,
        stdout=done.stdout,
        stderr=done.stderr,
    )


def _detail(done: Completed) -> str:
    said = [f"{done.dropped_bytes} bytes of output were dropped"] if done.dropped_bytes else []
    said += ["its files outgrew the sandbox's disk_mb"] if done.stopped == "disk" else []
    return "; ".join(said)


def _status(done: Completed) -> TurnStatus:
    if done.cancelled:
        return TurnStatus.CANCELLED
    if done.stopped in BOUNDS:
        return TurnStatus.STOPPED
    if done.timed_out:
        return TurnStatus.TIMED_OUT
    return TurnStatus.COMPLETED if done.exit_code == 0 and not done.stopped else TurnStatus.FAILED


def _parse(text: str) -> RunRecord:
    record = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    tokens = record.get("tokens")
    if tokens is None:
        tokens = {}
    elif not isinstance(tokens, dict):
        raise ValueError("'tokens' is not an object")
    cost = _take(record, "cost_usd", money)
    usage = Usage(
        tokens_in=_take(tokens, "input", count),
        tokens_out=_take(tokens, "output", count),
        tokens_cached=_take(tokens, "cached", count),
        cost_usd=cost,
        cost_source=CostSource.UNKNOWN if cost is None else CostSource.REPORTED,
        steps=_take(record, "steps", count),
    )
    return RunRecord(
        state="ok",
        usage=usage,
        model=_take(record, "model", model_name),
        declared_done=_take(record, "declared_done", _boolean),
        summary=(_take(record, "summary", _text) or "")[:MAX_SUMMARY],
    )


def _take(record: dict[str, Any], key: str, read: Callable[[Any], Any]) -> Any:
    value = record.get(key)
    if value is None:
        return None
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"'{key}' {error}") from None


def count(value: object) -> int:
    """A number of tokens or steps. Raises ValueError, worded to follow the value's name."""
    if type(value) is not int or not 0 <= value <= MAX_COUNT:
        raise ValueError("is not a count (an integer from 0 to 2**53)")
    return value


def money(value: object) -> float:
    """An amount of US dollars. Raises ValueError, worded to follow the value's name."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_COUNT:
        raise ValueError("is not an amount of US dollars (a finite number, not negative)")
    amount = float(value)
    if not math.isfinite(amount):
        raise ValueError("is not an amount of US dollars (a finite number, not negative)")
    return amount


def model_name(value: object) -> str:
    """A model's identity. Raises ValueError, worded to follow the value's name."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_MODEL:
        raise ValueError(f"is not a name (a string of 1 to {MAX_MODEL} characters)")
    if not is_text(value):
        raise ValueError("is not text (it holds half of a surrogate pair)")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not a string")
    return value.encode("utf-8", "replace").decode()


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is not true or false")
    return value


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key stands twice")
    return record
