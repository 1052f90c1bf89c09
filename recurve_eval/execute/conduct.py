"""A study from its plan to its summary: own the directory, run what is pending, mirror, analyze."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval import app
from recurve_eval.app import Study
from recurve_eval.calibration.judge import rates_for_run
from recurve_eval.commands import command
from recurve_eval.errors import EXIT_DONE, EXIT_UNSCORED, Drift, InfraError, Interrupted, Refused, SpendRefused
from recurve_eval.execute.bench import preflight
from recurve_eval.execute.describe import plan_text, refusal
from recurve_eval.execute.local import run_pool, stoppable
from recurve_eval.execute.progress import Progress
from recurve_eval.execute.run import Run
from recurve_eval.execute.spending import gate_spending, probe
from recurve_eval.execute.stock import run_stock
from recurve_eval.tracking.follower import Follower, read_status
from recurve_eval.tracking.study import read_plan

INTENT: ContextVar[str] = ContextVar("intent", default="run")
OUTCOME: ContextVar[int] = ContextVar("outcome", default=EXIT_DONE)

Launch = Callable[[Run, Callable[[], Any], Callable[[str], Any]], None]


@dataclass(frozen=True)
class Report:
    """How a run ended."""

    run_dir: Path
    sealed: int
    total: int
    unscored: int
    summary: Path | None
    mirrored: bool

    @property
    def exit_code(self) -> int:
        return EXIT_UNSCORED if self.unscored else EXIT_DONE


def from_command_line(arguments: list[str], params: Mapping[str, Any], launcher: Callable[[str], Any]) -> Report | None:
    """What the sweeper does with a study: print its plan, or run it."""
    study = app.build_study(arguments, params)
    if INTENT.get() == "plan":
        print(plan_text(study))  # noqa: T201 - the verb's output
        _refuse_hopeless(study)
        return None
    report = conduct(study, _launch_with(launcher(str(study.run_dir))))
    OUTCOME.set(report.exit_code)
    _print_report(report)
    return report


def _launch_with(launcher: Any) -> Launch:
    if hasattr(launcher, "launch_cells"):
        return launcher.launch_cells  # type: ignore[no-any-return]

    def launch(run: Run, watch: Callable[[], Any], say: Callable[[str], Any]) -> None:
        with stoppable(run, say):
            run_stock(run, launcher, watch)

    return launch


def workers_of(study: Study) -> int:
    """``run.workers``, or one for each core this process may use."""
    return int(study.config["run"]["workers"]) or len(os.sched_getaffinity(0))


def _refuse_hopeless(study: Study) -> None:
    why = refusal(study.plan)
    if why:
        raise Refused(why)


def conduct(study: Study, launch: Launch = run_pool, watch: Callable[[Run], Any] | None = None) -> Report:
    """Run a study's pending cells to the end.

    Raises
    ------
    Refused, ConfigError
        Before any cell has run.
    Interrupted
        The user stopped it; sealed cells are kept, and the same command resumes.
    InfraError
        The harness cannot record results; cells that ran are sealed.
    """
    gate_spending(study)
    _refuse_hopeless(study)
    preflight(study.adapters)
    with Run(study, workers_of(study)) as run:
        _announce(run)
        follower = Follower.start(run.dir)
        try:
            with Progress(run, study.config["run"]["progress"]) as progress:

                def look() -> None:
                    progress.watch()
                    if watch is not None:
                        watch(run)

                try:
                    if run.pending:
                        launch(run, look, progress.say)
                except KeyboardInterrupt:
                    raise Interrupted("stopped") from None
        except (Interrupted, SpendRefused, InfraError) as stop:
            _end_mirror(run, follower, 5.0)
            raise type(stop)(f"{stop}: {_state_of(run)}") from None
        except BaseException:
            follower.stop(5.0)
            raise
        timeout_s = float(study.config["run"]["mirror_timeout_s"])
        follower.drain(timeout_s)
        try:
            summary = _summarize(run)
        finally:
            mirrored = _end_mirror(run, follower, timeout_s, timeout_s)
        probe(run.bench.ledger.rows(), study)
        counts = run.bench.ledger.counts()
        return Report(run.dir, counts["sealed"], run.bench.tally.total, counts["unscored"], summary, mirrored)


def _state_of(run: Run) -> str:
    sealed, total = len(run.bench.ledger.sealed_ids()), run.bench.tally.total
    return f"{sealed} of {total} cells are sealed in {run.dir}; the same command resumes and repeats none of them"


def _announce(run: Run) -> None:
    if run.study.config["run"]["progress"] == "none":
        return
    tally = run.bench.tally
    resumed = f", {tally.sealed_before} sealed before" if tally.sealed_before else ""
    print(f"{run.dir}: {tally.total} cells{resumed}, {run.workers} workers", file=sys.stderr, flush=True)  # noqa: T201


def _end_mirror(run: Run, follower: Follower, timeout_s: float, publish_s: float = 5.0) -> bool:
    """Let the follower finish: rows first, then the analysis, if there is one to log back."""
    done = follower.drain(timeout_s)
    done = follower.stop(publish_s if done else 5.0) and done
    if not done:
        error = read_status(run.dir).get("last_error") or "it did not catch up in time"
        run.bench.events.append("mirror_behind", error=str(error)[:500])
        print(  # noqa: T201
            f"the tracker lacks rows ({error}); results are complete in {run.dir}. "
            f"Repair it with: {command('mirror', run.dir)}",
            file=sys.stderr,
        )
    return done


def _summarize(run: Run) -> Path | None:
    # Imported here, because numpy is behind it and a study's start needs none of that.
    from recurve_eval.analysis.collect import write_analysis

    if not (run.study.config["run"]["analyze"] and run.bench.ledger.counts()["sealed"]):
        return None
    try:
        return write_analysis(run.dir, run.bench.ledger.rows(), calibration=calibration_of(run.dir)).path
    except (ArithmeticError, LookupError) as error:
        raise InfraError(f"the cells are sealed but the analysis failed: {error!r}") from error


def calibration_of(run_dir: Path) -> dict[str, list[int]] | None:
    """How often the oracle of a run fails bad work and passes good, where its calibration is at hand and intact."""
    try:
        return rates_for_run(run_dir, read_plan(run_dir))
    except Drift as error:
        print(f"note: no rate is corrected for the oracle's errors: {error}", file=sys.stderr)  # noqa: T201
        return None


def _print_report(report: Report) -> None:
    from recurve_eval.analysis.markdown import headline

    if report.summary is not None:
        print(headline(report.summary.read_text(encoding="utf-8")))  # noqa: T201
        print(f"summary: {report.summary}")  # noqa: T201
    if report.unscored:
        print(f"{report.unscored} of {report.total} cells are unscored; see the summary", file=sys.stderr)  # noqa: T201
