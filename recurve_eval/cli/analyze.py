"""The verb analyze: rows out of a tracker or ledgers, and the summary of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurve_eval.cli.targets import DEFAULT_OUTPUTS, TARGETS, run_dirs, take_own
from recurve_eval.errors import EXIT_DONE, EXIT_UNSCORED, ConfigError, RecurveError

if TYPE_CHECKING:
    from recurve_eval.analysis.collect import Source, Written

EPILOG = """\
Rows come from the tracker and are held against the ledger, which wins where they differ. Without a run directory,
--from names what the tracker at --uri holds: an experiment, a study's run id or a plan's hash; the ledger is looked
for below --outputs. Several --from, or run directories with --join, make one study if all their pins agree.
"""


def analyze(arguments: list[str]) -> int:
    """Results to summary.md, summary.json, figures and report.html."""
    options = _parser().parse_intermixed_args(arguments)
    if options.studies:
        return _from_tracker(options)
    targets = run_dirs(options.target, options.config_dir)
    if options.join:
        return _joined(targets, options)
    return max(_one(run_dir, options) for run_dir in targets)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="recurve-eval analyze", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Write summary.md, summary.json, figures and report.html from the rows that the tracker holds.",
    )  # fmt: skip
    add = parser.add_argument
    add("target", nargs="*", help=TARGETS)
    add("--source", choices=("tracker", "ledger"), default="tracker", help="where rows are taken from")
    add("--uri", help="the tracking URI, where it is not the one the run was started with")
    add("--from", dest="studies", action="append", metavar="STUDY", help="what to take from the tracker at --uri")
    add("--join", action="store_true", help="analyze all run directories as one study")
    add("--outputs", type=Path, default=DEFAULT_OUTPUTS, help="where to look for the ledger of --from")
    add("--full", action="store_true", help="print the whole summary, not its first screen")
    add("--into", type=Path, help="write there instead of RUN/analysis")
    add("--no-log", action="store_true", help="do not log the result back to the tracker")
    take_own(parser)
    return parser


def _one(run_dir: Path, options: argparse.Namespace) -> int:
    from recurve_eval.analysis.board_layers import KIND
    from recurve_eval.analysis.collect import gather, write_records
    from recurve_eval.execute.conduct import calibration_of
    from recurve_eval.tracking.study import read_plan

    plan = read_plan(run_dir)
    if plan.get("kind") == KIND:
        return _interception(run_dir, options)
    if not (run_dir / "results.jsonl").is_file() and options.source == "ledger":
        raise RecurveError(f"{run_dir} has no sealed cells yet")
    source = _source(run_dir, options)
    records = gather([source], _say)
    into = options.into or run_dir / "analysis"
    written = write_records(records, plan, into, calibration_of(run_dir), run_dir / "cells")
    if options.into is None and not options.no_log:
        _log_back(run_dir)
    return _show(written, options)


def _interception(run_dir: Path, options: argparse.Namespace) -> int:
    """The report of an interception, from its ledger."""
    from recurve_eval.interception.report import first_tables, write_report

    path = write_report(run_dir)
    if not options.no_log:
        _log_back(run_dir)
    text = path.read_text(encoding="utf-8")
    print(text if options.full else first_tables(text))  # noqa: T201
    print(f"report: {path}")  # noqa: T201
    return EXIT_DONE


def _source(run_dir: Path, options: argparse.Namespace) -> Source:
    from recurve_eval.analysis.collect import Source
    from recurve_eval.tracking.follower import load_tracker
    from recurve_eval.tracking.study import read_plan

    ledger = run_dir if (run_dir / "results.jsonl").is_file() else None
    if options.source == "ledger":
        return Source(str(run_dir), run_dir)
    try:
        reader = getattr(load_tracker(run_dir), "held_of", None)
        held = None if reader is None else reader(run_dir, read_plan(run_dir), options.uri or "")
    except Exception as error:
        if ledger is None:
            raise
        _say(f"the tracker cannot be read ({str(error).splitlines()[0]}); using the ledger")
        return Source(str(run_dir), ledger)
    if held is None:
        if ledger is None:
            raise RecurveError(f"{run_dir} has no sealed cells yet")
        _say("this run has no tracker to read from; using the ledger")
        return Source(str(run_dir), ledger)
    return Source(str(run_dir), ledger, held.rows)


def _joined(targets: Sequence[Path], options: argparse.Namespace) -> int:
    from recurve_eval.analysis.collect import gather
    from recurve_eval.tracking.study import read_plan

    if options.into is None:
        raise ConfigError("--join needs --into: a joined study has no run directory of its own")
    sources = [_source(run_dir, options) for run_dir in targets]
    return _write_joined(gather(sources, _say), [read_plan(run_dir) for run_dir in targets], options)


def _from_tracker(options: argparse.Namespace) -> int:
    from recurve_eval.analysis.collect import Source, gather
    from recurve_eval.tracking.encoding import question_of
    from recurve_eval.tracking.mlflow import MlflowTracker

    if options.target or not options.uri:
        raise ConfigError("--from takes its rows from the tracker at --uri and goes with no run directory")
    tracker, sources, plans = MlflowTracker(uri=options.uri), [], []
    for study in dict.fromkeys(options.studies):
        held = tracker.held(study)
        _say(f"{study}: {len(held.plans)} plan{'s' * (len(held.plans) > 1)}, read from {held.path}")
        ledger = _ledger_of(held.plans, options)
        sources.append(Source(study, ledger, held.rows))
        plans += [question_of(tags) or {} for tags in held.plans]
    if options.into is None:
        if len(sources) > 1 or sources[0].ledger is None:
            raise ConfigError("--into says where to write: these rows have no run directory here")
        options.into = sources[0].ledger / "analysis"
    return _write_joined(gather(sources, _say), plans, options)


def _ledger_of(plans: Sequence[Mapping[str, str]], options: argparse.Namespace) -> Path | None:
    """The run directory of a single plan, where it is on this machine."""
    from recurve_eval.tracking.encoding import PLAN_TAG
    from recurve_eval.tracking.mlflow import outputs_of

    if len(plans) != 1:
        return None
    start = plans[0][PLAN_TAG][:16]
    places = [options.outputs, *outputs_of(options.uri)]
    found = (p.parent for place in places for p in sorted(place.glob(f"*/{start}/results.jsonl")))
    return next(found, None)


def _write_joined(records: list[Any], plans: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> int:
    from recurve_eval.analysis.collect import joined_question, write_records

    question, unlike = joined_question(plans)
    if unlike:
        _say(f"the plans do not agree on {', '.join(unlike)}: left out, so what only some declared is exploratory")
    return _show(write_records(records, question, options.into), options)


def _show(written: Written, options: argparse.Namespace) -> int:
    from recurve_eval.analysis.markdown import headline

    text = written.path.read_text(encoding="utf-8")
    print(text if options.full else headline(text))  # noqa: T201
    print(f"summary: {written.path}")  # noqa: T201
    return EXIT_UNSCORED if written.unscored else EXIT_DONE


def _log_back(run_dir: Path) -> None:
    from recurve_eval.tracking.follower import load_tracker, publish

    try:
        publish(run_dir, load_tracker(run_dir))
    except Exception as error:  # noqa: BLE001 - the summary stands, whatever ails the tracker
        _say(f"the summary was not logged to the tracker: {str(error).splitlines()[0]}")


def _say(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201
