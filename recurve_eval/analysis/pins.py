"""Whether rows of several plans may stand side by side: only where everything that can change a verdict agrees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recurve_eval.errors import Drift
from recurve_eval.rows import flatten

Row = Mapping[str, Any]
BENCHMARK_PINS = ("dataset_revision", "dataset_hash", "oracle_env_hash", "exclusions_hash")
MOST_NAMED = 6


@dataclass
class Pins:
    """The pins of the rows that have passed by; each condition of each plan is looked at once."""

    _seen: set[tuple[Any, ...]] = field(default_factory=set)
    _plans: dict[str, set[str]] = field(default_factory=dict)
    _values: dict[tuple[str, str], dict[str, set[str]]] = field(default_factory=dict)

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, their pins noted."""
        for row in rows:
            self._note(row)
            yield row

    def _note(self, row: Row) -> None:
        at, origin = row["identity"], row["provenance"]
        key = (at["plan_hash"], at["benchmark"], at["arm"], origin["config_hash"], origin["adapter_version"],
               *(origin[pin] for pin in BENCHMARK_PINS))  # fmt: skip
        if key in self._seen:
            return
        self._seen.add(key)
        for pin in BENCHMARK_PINS:
            self._add(f"benchmark '{at['benchmark']}'", pin, at["plan_hash"], origin[pin])
        arm = f"arm {at['arm']}"
        self._add(f"{arm} on '{at['benchmark']}' with agent '{at['agent']}'", "code", at["plan_hash"],
                  origin["adapter_version"])  # fmt: skip
        for name, value in flatten({k: v for k, v in row["gate"]["config"].items() if k != "arm"}).items():
            self._add(arm, name, at["plan_hash"], value)

    def _add(self, where: str, pin: str, plan_hash: str, value: Any) -> None:
        self._plans.setdefault(where, set()).add(plan_hash)
        self._values.setdefault((where, pin), {}).setdefault(plan_hash, set()).add(str(value))

    def refuse_unlike(self) -> None:
        """Refuse to join plans that differ.

        Raises
        ------
        Drift
            Names every pin that differs (the first few in full), its plans and their values. An arm or benchmark
            that only one of the plans has is no difference.
        """
        found = [text for at in sorted(self._values) if (text := self._difference(*at))]
        if found:
            more = f"; and {len(found) - MOST_NAMED} more differences" if len(found) > MOST_NAMED else ""
            raise Drift("these plans cannot be joined: " + "; ".join(found[:MOST_NAMED]) + more)

    def _difference(self, where: str, pin: str) -> str:
        first, *others = sorted(self._plans[where])
        by_plan = {plan: self._values[where, pin].get(plan, {"absent"}) for plan in self._plans[where]}
        other = next((o for o in others if by_plan[o] != by_plan[first]), None)
        if other is None:
            return ""
        return f"{pin} of {where} is {_say(by_plan[first])} in {first[:16]} and {_say(by_plan[other])} in {other[:16]}"


def _say(values: set[str]) -> str:
    return " or ".join(v if len(v) <= 80 else f"{v[:77]}..." for v in sorted(values))
