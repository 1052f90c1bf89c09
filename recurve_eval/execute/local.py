"""The local pool: threads that take cells in order, and the user's way to stop them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from recurve_eval.domain import Cell, UnscoredReason
from recurve_eval.errors import EXIT_INTERRUPTED, InfraError, Interrupted
from recurve_eval.execute.run import Run

POLL_S = 0.1


class Pool:
    """Runs a run's pending cells on ``run.workers`` threads.

    The first error of the harness itself (a ledger that cannot be written, an authority that is used
    up) stops the dispatch; cells already running finish and are sealed.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._cells: Iterator[Cell] = run.feed()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._infra_in_a_row = 0
        self.error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"cell-worker-{n}", daemon=True) for n in range(run.workers)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        return any(t.is_alive() for t in self._threads)

    def wait(self, watch: Callable[[], Any] = lambda: None) -> None:
        """Block until all workers ended, calling ``watch`` meanwhile. Raises what stopped the run."""
        while self.alive:
            for thread in self._threads:
                thread.join(POLL_S / len(self._threads))
            watch()
        if self.error is not None:
            raise self.error
        if self.run.bench.cancelled.is_set():
            raise Interrupted("stopped")

    def _take(self) -> Cell | None:
        with self._lock:
            return None if self._stopping.is_set() else next(self._cells, None)

    def _work(self) -> None:
        while (cell := self._take()) is not None:
            try:
                self._watch_machinery(self.run.bench.execute(cell))
            except Interrupted:
                return
            except BaseException as error:  # noqa: BLE001 - handed to the caller of wait
                self._stopping.set()
                with self._lock:
                    self.error = self.error or error
                return

    def _watch_machinery(self, row: Mapping[str, Any]) -> None:
        """Stop a run whose machinery is broken, while most of its cells can still be run."""
        limit = int(self.run.study.config["run"]["stop_after_infra"])
        with self._lock:
            failed = row["verdict"]["reason"] == UnscoredReason.INFRA.value
            self._infra_in_a_row = self._infra_in_a_row + 1 if failed else 0
            if limit and self._infra_in_a_row >= limit:
                raise InfraError(
                    f"{self._infra_in_a_row} cells in a row could not be scored ({row['verdict']['detail'][:300]}); "
                    "mend that first (run.stop_after_infra=0 goes on regardless)"
                )


@contextmanager
def stoppable(run: Run, say: Callable[[str], Any]) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP stop the run: once, kill what runs and keep what is sealed; twice, at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if run.bench.cancelled.is_set():
            _end_now()
        run.bench.cancelled.set()
        say("stopping: killing what runs, keeping what is sealed (once more to stop at once)")
        threading.Thread(target=run.bench.cancel, name="cancel", daemon=True).start()

    # A signal that was ignored from outside (nohup) stays ignored.
    heard = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {n: signal.signal(n, handle) for n in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_now() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.Error:
            continue
    os._exit(EXIT_INTERRUPTED)


def run_pool(run: Run, watch: Callable[[], Any], say: Callable[[str], Any]) -> None:
    """Run every pending cell of an open run. Raises Interrupted, or the harness error that stopped it."""
    run.bench.start(run.workers)
    with stoppable(run, say):
        pool = Pool(run)
        pool.start()
        try:
            pool.wait(watch)
        finally:
            if pool.alive:
                run.bench.cancel()
                for thread in pool._threads:
                    thread.join(30)
