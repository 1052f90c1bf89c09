"""The price list: the line that holds on a day, for a model or its dated snapshot; a bad line is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from recurve_eval.errors import ConfigError
from recurve_eval.prices import line_of, lines_on, pins_of, rates_of
from recurve_eval.resources import conf_dir

OLD = {
    "model": "m",
    "since": "2025-01-01",
    "input": 3.0,
    "cached": 0.3,
    "output": 15.0,
    "source": "s",
    "checked": "2025-02-01",
}
NEW = OLD | {"since": "2026-01-01", "input": 1.0}


def held(date: str | None, *lines: dict[str, Any]) -> dict[str, Any]:
    return {"name": "n", "date": date, "lines": list(lines)}


@pytest.mark.parametrize(
    ("date", "expected"), [("2024-12-31", None), ("2025-06-01", 3.0), ("2026-01-01", 1.0), (None, 1.0)]
)
def test_the_newest_line_not_after_the_day_holds(date: str | None, expected: float | None) -> None:
    for lines in ((OLD, NEW), (NEW, OLD)):
        found = rates_of(lines_on(held(date, *lines)), "m")
        assert (found.input if found else None) == expected


def test_a_snapshot_takes_its_models_line_unless_it_has_its_own() -> None:
    own = OLD | {"model": "m-20250301", "input": 9.0}
    lines = lines_on(held(None, OLD, own))
    assert line_of(lines, "m-20250301").input == 9.0  # type: ignore[union-attr]
    assert line_of(lines, "m-20250401").input == 3.0  # type: ignore[union-attr]
    assert line_of(lines, "m-mini") is None and line_of(lines, "") is None


def test_who_looked_when_is_not_pinned() -> None:
    pinned = pins_of(lines_on(held(None, OLD)), "m")
    assert pinned == pins_of(lines_on(held(None, OLD | {"checked": "2026-09-09", "source": "t"})), "m")
    assert pinned != pins_of(lines_on(held(None, NEW)), "m")
    assert pins_of((), "m") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"since": "January"}, r"lines\[0\] \(m\)\.since must be a date"),
        ({"input": -1.0}, r"input is US dollars per million"),
        ({"output": float("inf")}, r"output is US dollars per million"),
        ({"source": ""}, "without its source"),
    ],
)
def test_a_bad_line_is_refused_by_its_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        lines_on(held(None, OLD | change))


def test_two_lines_of_one_day_and_a_bad_day_are_refused() -> None:
    with pytest.raises(ConfigError, match="two lines since 2025-01-01"):
        lines_on(held(None, OLD, OLD))
    with pytest.raises(ConfigError, match=r"prices\.date"):
        lines_on(held("tomorrow", OLD))


@pytest.mark.parametrize("path", sorted((conf_dir() / "prices").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_list_can_be_read(path: Any) -> None:
    lines_on(yaml.safe_load(path.read_text()))
