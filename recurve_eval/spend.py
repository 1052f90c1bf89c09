"""Money: reserved before a cell may spend it, settled afterwards, refused beyond the authority.

``spend.jsonl`` holds one event per line, ``reserve`` or ``settle``, keyed by cell and attempt. Sums are
exact (decimal), so a ceiling of 1.00 admits ten reservations of 0.10.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from recurve_eval.appendlog import AppendLog, utc_now
from recurve_eval.domain import canonical_json
from recurve_eval.errors import ConfigError, Drift, Refused, SpendRefused

SPEND = "spend.jsonl"
DEAD_CELL = "ceiling_of_dead_cell"
Key = tuple[str, int]
Recorded = Callable[[str, int], tuple[float, str] | None]


@dataclass(frozen=True, slots=True)
class Totals:
    """US dollars: reserved by cells under way, settled by ended ones, left of the authority (None: unbounded)."""

    reserved: float
    settled: float
    left: float | None


class SpendLedger:
    """The spending of one run directory. Safe among threads and processes.

    Parameters
    ----------
    run_dir : Path
    max_usd : float or None
        The authority, in US dollars; None leaves it unbounded.
    """

    def __init__(self, run_dir: Path, max_usd: float | None) -> None:
        self.path = Path(run_dir) / SPEND
        self._max = None if max_usd is None else _dollars(max_usd)
        self._open: dict[Key, Decimal] = {}
        self._known: set[Key] = set()
        self._settled = Decimal(0)
        self._lines = 0
        self._log: AppendLog | None = None
        if self.path.exists():
            with self._writing().locked():
                self._catch_up()

    def __reduce__(self) -> tuple[type[SpendLedger], tuple[Path, float | None]]:
        return SpendLedger, (self.path.parent, None if self._max is None else float(self._max))

    def reserve(self, cell_id: str, attempt: int, usd: float) -> None:
        """Set the most that an attempt may cost aside. A free attempt (0) writes nothing.

        Raises SpendRefused when what is reserved and settled would exceed the authority, and Refused on
        a second reservation of the same attempt.
        """
        amount = _dollars(usd)
        if amount == 0:
            return
        log = self._writing()
        with log.locked():
            self._catch_up()
            if (cell_id, attempt) in self._known:
                raise Refused(f"attempt {attempt} of cell {cell_id} has reserved money already")
            committed = self._settled + sum(self._open.values(), Decimal(0))
            if self._max is not None and committed + amount > self._max:
                bounds = f"${committed} of the ${self._max} allowed are spent or reserved"
                raise SpendRefused(f"cell {cell_id} may cost ${amount}, and {bounds}")
            self._record(log, "reserve", cell_id, attempt, amount)

    def settle(self, cell_id: str, attempt: int, usd: float | None, source: str) -> None:
        """Replace a reservation by what the attempt cost; unknown (None) costs the whole reservation.

        ``source`` says where the figure comes from. What exceeds the reservation is recorded as it is.
        """
        log = self._log
        if log is None:
            if not usd:
                return
            log = self._writing()
        with log.locked():
            self._catch_up()
            key = (cell_id, attempt)
            if key in self._known and key not in self._open:
                raise Refused(f"attempt {attempt} of cell {cell_id} is settled already")
            ceiling = self._open.get(key, Decimal(0))
            amount = ceiling if usd is None else _dollars(usd)
            if key in self._open or amount:
                self._record(log, "settle", cell_id, attempt, amount, source=source, known=usd is not None)

    def recover(self, recorded: Recorded = lambda cell_id, attempt: None) -> list[tuple[str, int, float]]:
        """Settle the reservations that dead cells left; returns cell, attempt and US dollars of each.

        ``recorded`` tells what a cell's attempt is known to have cost and the source of that figure; where it
        answers None the attempt costs its whole reservation. Only the owner of the run directory may call this,
        before any cell of its own reserves.
        """
        if self._log is None:
            return []
        with self._log.locked():
            self._catch_up()
            settled = []
            for (cell_id, attempt), ceiling in list(self._open.items()):
                known = recorded(cell_id, attempt)
                amount, source = (_dollars(known[0]), known[1]) if known else (ceiling, DEAD_CELL)
                self._record(self._log, "settle", cell_id, attempt, amount, source=source, known=known is not None)
                settled.append((cell_id, attempt, float(amount)))
        return settled

    def totals(self) -> Totals:
        """The state of the money now, as all processes have left it."""
        if self._log is None and self.path.exists():
            self._writing()
        if self._log is not None:
            with self._log.locked():
                self._catch_up()
        reserved = sum(self._open.values(), Decimal(0))
        left = None if self._max is None else float(self._max - reserved - self._settled)
        return Totals(float(reserved), float(self._settled), left)

    def _writing(self) -> AppendLog:
        if self._log is None:
            self._log = AppendLog(self.path)
        return self._log

    def _record(self, log: AppendLog, event: str, cell_id: str, attempt: int, usd: Decimal, **more: Any) -> None:
        fields = {"at": utc_now(), "event": event, "cell_id": cell_id, "attempt": attempt, "usd": float(usd), **more}
        log.append(canonical_json(fields).encode())
        self._apply(fields)

    def _catch_up(self) -> None:
        if self._log is None:
            return
        for line in self._log.new_lines():
            try:
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise Drift(f"{self.path} line {self._lines + 1} is not a spend event") from error

    def _apply(self, event: dict[str, Any]) -> None:
        key, amount = (event["cell_id"], event["attempt"]), _dollars(event["usd"])
        if event["event"] == "reserve":
            self._open[key] = amount
        elif event["event"] == "settle":
            self._open.pop(key, None)
            self._settled += amount
        else:
            raise ValueError(event["event"])
        self._known.add(key)
        self._lines += 1


def _dollars(usd: float) -> Decimal:
    if not math.isfinite(usd) or usd < 0:
        raise ConfigError(f"an amount of money must be zero or more and finite; got {usd}")
    return Decimal(repr(float(usd)))
