"""The Python API: what the command line does, without blocking."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurve_eval import app
from recurve_eval.app import Study
from recurve_eval.errors import ConfigError, RecurveError
from recurve_eval.execute.bench import Tally
from recurve_eval.execute.conduct import Report, conduct
from recurve_eval.execute.run import Run
from recurve_eval.ledger import read_rows
from recurve_eval.tracking.study import read_plan

if TYPE_CHECKING:
    import pandas

_COMPOSING = threading.Lock()  # Hydra keeps one global configuration a process


def plan(overrides: Sequence[str] = (), *, config_dir: str | Path | None = None) -> Study:
    """Compose and pin a study without writing or spending anything.

    Parameters
    ----------
    overrides : sequence of str
        As on the command line, axes included: ``["experiment=demo", "arm=A0,A1"]``.
    config_dir : path, optional
        A directory of the user's own options, searched after the shipped ones.

    Raises
    ------
    ConfigError, Drift
    """
    with _COMPOSING, app.initialised(config_dir):
        return app.build_study(list(overrides))


class Handle:
    """A study under way in the background."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._run: Run | None = None
        self._report: Report | None = None
        self._error: BaseException | None = None
        self._cancelled = False
        self._thread = threading.Thread(target=self._conduct, name="study", daemon=True)

    @property
    def run_dir(self) -> Path:
        return self.study.run_dir

    def _start(self) -> Handle:
        self._thread.start()
        return self

    def _conduct(self) -> None:
        try:
            self._report = conduct(self.study, watch=self._see)
        except BaseException as error:  # noqa: BLE001 - result() raises it in the caller's thread
            self._error = error

    def _see(self, run: Run) -> None:
        self._run = run
        if self._cancelled and not run.bench.cancelled.is_set():
            run.bench.cancel()

    def done(self) -> bool:
        """Whether the study has ended, well or not."""
        return not self._thread.is_alive()

    def progress(self) -> Tally:
        """Counts so far; all zero before the first cell starts."""
        return self._run.bench.tally if self._run is not None else Tally()

    def cancel(self) -> None:
        """Kill what runs and keep what is sealed; :meth:`result` then raises Interrupted."""
        self._cancelled = True
        if self._run is not None:
            self._run.bench.cancel()

    def result(self, timeout: float | None = None) -> Report:
        """Wait for the end.

        Raises
        ------
        TimeoutError
            The study still runs after ``timeout`` seconds.
        RecurveError
            What ended the study early.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.run_dir} still runs after {timeout} s")
        if self._error is not None:
            raise self._error
        assert self._report is not None
        return self._report


def submit(overrides: Sequence[str] = (), *, config_dir: str | Path | None = None) -> Handle:
    """Start a study and return at once. Configuration errors are raised here, before anything runs."""
    return Handle(plan([*overrides, "run.progress=none"], config_dir=config_dir))._start()


def run(overrides: Sequence[str] = (), *, config_dir: str | Path | None = None) -> Report:
    """Run a study to its end in this thread."""
    return submit(overrides, config_dir=config_dir).result()


@dataclass(frozen=True)
class Results:
    """The sealed rows of a run directory."""

    run_dir: Path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return read_rows(self.run_dir, self.plan["plan_hash"])

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return list(self)

    @cached_property
    def plan(self) -> Mapping[str, Any]:
        return read_plan(self.run_dir)

    def frame(self) -> pandas.DataFrame:
        """One line per cell; columns are named like ``derived.outcome``."""
        from recurve_eval.rows import frame

        return frame(self)


def load(run_dir: str | Path) -> Results:
    """The results of a run directory. Raises ConfigError where it is none."""
    path = Path(run_dir)
    if not (path / "plan.yaml").is_file():
        raise ConfigError(f"{path} is not a run directory: it has no plan.yaml")
    return Results(path)


__all__ = ["Handle", "RecurveError", "Results", "load", "plan", "run", "submit"]
