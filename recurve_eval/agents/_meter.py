"""Adding up what an agent tells of its consumption while it works, and saying when a bound is met."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from recurve_eval.domain import Budget, Rates, Usage

MAX_LINE_BYTES = 4 * 1024 * 1024
POLL_SECONDS = 0.25


class Meter:
    """Consumption of one turn against what it was allowed.

    Parameters
    ----------
    allowance : Budget
        What is left of the cell's budget.
    rates : Rates or None
        Prices of the model, for an agent that reports tokens alone.
    """

    def __init__(self, allowance: Budget, rates: Rates | None) -> None:
        self._allowance, self._rates = allowance, rates
        self.usage = Usage()

    def add(self, usage: Usage) -> str | None:
        """One more call's usage; the bound that is met, if any."""
        self.usage = usage if self.usage == Usage() else self.usage + usage
        return self.over()

    def set(self, usage: Usage) -> str | None:
        """All usage so far, as the agent itself adds it up; the bound that is met, if any."""
        self.usage = usage
        return self.over()

    def over(self) -> str | None:
        """The first bound with nothing left for another call: tokens, usd or steps. Unknown use meets none."""
        known = self._rates.priced(self.usage) if self._rates else self.usage
        spent = {"tokens": known.tokens, "usd": known.cost_usd, "steps": known.steps}
        for unit, used in spent.items():
            bound = getattr(self._allowance, unit)
            if bound is not None and used is not None and used >= bound:
                return unit
        return None


class JsonLines:
    """Cuts a stream into lines and hands on those that are JSON objects. Memory stays bounded.

    ``marker`` is text after which a line of another kind may hold an object too; ``keep`` is shown every whole line.
    """

    def __init__(
        self,
        take: Callable[[dict[str, Any]], str | None],
        marker: bytes = b"",
        keep: Callable[[bytes, dict[str, Any] | None], Any] = lambda line, found: None,
    ) -> None:
        self._take, self._marker, self._keep = take, marker, keep
        self._rest = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> str | None:
        """The first reason that an object gave for stopping, if any."""
        reason = None
        for found in self._lines(chunk):
            reason = self._take(found) or reason
        return reason

    def finish(self) -> str | None:
        """The stream has ended: a last line without its newline counts."""
        return self.feed(b"\n")

    def _lines(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole, skipped = bytes(self._rest) + line, self._skipping
            self._rest.clear()
            self._skipping = False
            found = None if skipped or len(whole) > MAX_LINE_BYTES else self._object(whole)
            self._keep(whole, found)
            if found is not None:
                yield found
        if len(self._rest) + len(rest) > MAX_LINE_BYTES:
            self._skipping = True
            self._rest.clear()
        elif not self._skipping:
            self._rest += rest

    def _object(self, line: bytes) -> dict[str, Any] | None:
        if self._marker and self._marker in line:
            line = line.partition(self._marker)[2]
        return _object(line)


class Poll:
    """Calls ``look`` at most every quarter of a second, however often it is itself called."""

    def __init__(self, look: Callable[[], str | None]) -> None:
        self._look = look
        self._next = 0.0

    def __call__(self) -> str | None:
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + POLL_SECONDS
        return self._look()


def _object(line: bytes) -> dict[str, Any] | None:
    text = line.strip()
    if not text.startswith(b"{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def at(tree: Any, path: str) -> Any:
    """The value at a dotted path (``usage.input_tokens``, ``models.0.name``) of parsed JSON, or None."""
    for word in path.split("."):
        if isinstance(tree, dict):
            tree = tree.get(word)
        elif isinstance(tree, list) and word.isdigit() and int(word) < len(tree):
            tree = tree[int(word)]
        else:
            return None
    return tree
