"""The price list: dated lines, of which those that hold on the day of the plan turn tokens into US dollars."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recurve_eval.domain import JSON, Rates, is_snapshot
from recurve_eval.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Line:
    """What a model costs from a day on. ``input``, ``cached`` and ``output`` are US dollars per million tokens."""

    model: str
    since: str  # ISO date from which these prices hold
    input: float
    cached: float
    output: float
    source: str
    checked: str  # ISO date on which somebody last compared the line with its source

    @property
    def rates(self) -> Rates:
        return Rates(self.input, self.output, self.cached)


def lines_on(prices: Mapping[str, Any]) -> tuple[Line, ...]:
    """The line of each model that holds on ``prices.date`` (null: today). Raises ConfigError for a bad line."""
    day = _date("prices.date", prices["date"]) if prices["date"] else datetime.datetime.now(datetime.UTC).date()
    newest: dict[str, Line] = {}
    seen: set[tuple[str, str]] = set()
    for number, node in enumerate(prices["lines"]):
        line = Line(**node)
        _check(line, f"prices.lines[{number}] ({line.model})")
        if (line.model, line.since) in seen:
            raise ConfigError(f"prices.lines: model '{line.model}' has two lines since {line.since}")
        seen.add((line.model, line.since))
        since = datetime.date.fromisoformat(line.since)
        held = newest.get(line.model)
        if since <= day and (held is None or since > datetime.date.fromisoformat(held.since)):
            newest[line.model] = line
    return tuple(newest[name] for name in sorted(newest))


def line_of(lines: Iterable[Line], model: str) -> Line | None:
    """The line of a model, or of the undated name that it is a snapshot of."""
    exact = {line.model: line for line in lines}
    if model in exact:
        return exact[model]
    return next((line for name, line in exact.items() if is_snapshot(name, model)), None)


def rates_of(lines: Sequence[Line], model: str) -> Rates | None:
    line = line_of(lines, model)
    return None if line is None else line.rates


def pins_of(lines: Sequence[Line], model: str) -> dict[str, JSON] | None:
    """What of a model's line can change how far a budget goes: its prices and their day, not who looked when."""
    line = line_of(lines, model)
    return None if line is None else {k: v for k, v in asdict(line).items() if k not in ("source", "checked")}


def _check(line: Line, where: str) -> None:
    for field in ("since", "checked"):
        _date(f"{where}.{field}", getattr(line, field))
    for field in ("input", "cached", "output"):
        value = getattr(line, field)
        if not 0.0 <= value < 1e6:
            raise ConfigError(f"{where}.{field} is US dollars per million tokens, zero or more; got {value}")
    if not line.model or not line.source:
        raise ConfigError(f"{where} needs a model and a source: a price without its source is a guess")


def _date(where: str, value: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        raise ConfigError(f"{where} must be a date such as 2026-01-31; got {value!r}") from None
