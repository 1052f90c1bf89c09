"""How far a run is: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from recurve_eval.execute.run import Run

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_EVERY_S = 10.0
LIVE_EVERY_S = 0.25


def describe(run: Run, elapsed_s: float) -> dict[str, str]:
    """The numbers of a run as text, by heading."""
    tally = run.bench.tally
    left = tally.total - tally.done
    eta = f"{_clock(left * elapsed_s / tally.sealed)}" if tally.sealed and left else ("-" if left else "done")
    spent = run.bench.spend.totals()
    money = f"${spent.settled:.2f}" + (f" (+${spent.reserved:.2f} reserved)" if spent.reserved else "")
    return {
        "sealed": f"{tally.done}/{tally.total}",
        "running": str(tally.running),
        "declared": str(tally.declared),
        "shipped bad": str(tally.shipped_bad),
        "unscored": str(tally.unscored),
        "spent": money,
        "elapsed": _clock(elapsed_s),
        "eta": eta,
    }


def _clock(seconds: float) -> str:
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


class Progress:
    """Call :meth:`watch` often; it draws as seldom as is useful."""

    def __init__(self, run: Run, style: str, stream: TextIO | None = None) -> None:
        self.run = run
        self.stream = stream or sys.stderr
        self.style = style if style != "auto" else ("rich" if self.stream.isatty() else "plain")
        self._started = time.monotonic()
        self._drawn = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if self.style == "rich":
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self.stream), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self.style != "none":
            self._line()

    def say(self, message: str) -> None:
        if self._live is not None:
            self._live.console.print(message)
        elif self.style != "none":
            print(message, file=self.stream, flush=True)

    def watch(self) -> None:
        now = time.monotonic()
        every = LIVE_EVERY_S if self.style == "rich" else PLAIN_EVERY_S
        if self.style == "none" or now - self._drawn < every:
            return
        first, self._drawn = self._drawn == 0.0, now
        if self._live is not None:
            self._table(self._live)
        elif not first:
            self._line()

    def _numbers(self) -> dict[str, str]:
        return describe(self.run, time.monotonic() - self._started)

    def _line(self) -> None:
        print("  ".join(f"{k} {v}" for k, v in self._numbers().items()), file=self.stream, flush=True)

    def _table(self, live: Live) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        numbers = self._numbers()
        table = Table.grid(padding=(0, 2))
        table.add_row(*(f"[dim]{k}[/dim] {v}" for k, v in numbers.items()))
        outer = Table.grid()
        outer.add_row(
            ProgressBar(total=max(1, self.run.bench.tally.total), completed=self.run.bench.tally.done, width=60)
        )
        outer.add_row(table)
        live.update(outer, refresh=True)


Watch = Callable[[], None]
