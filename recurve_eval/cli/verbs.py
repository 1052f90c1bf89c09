"""The verbs that look at runs: status, analyze, mirror."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recurve_eval.cli.doctor import doctor
from recurve_eval.cli.targets import run_dirs
from recurve_eval.errors import EXIT_DONE, EXIT_UNSCORED, InfraError, RecurveError

__all__ = ["analyze", "doctor", "mirror", "status"]

TARGETS = "a run directory, or overrides of the study that is meant; default: the newest run below outputs/"


def _parser(verb: str, text: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"recurve-eval {verb}", description=text)
    parser.add_argument("target", nargs="*", help=TARGETS)
    return parser


def status(arguments: list[str]) -> int:
    """What is sealed, running and spent."""
    parser = _parser("status", "What is sealed, running and spent in a run directory.")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each run directory")
    options = parser.parse_args(arguments)
    for run_dir in run_dirs(options.target):
        facts = _status(run_dir)
        if options.json:
            print(json.dumps(facts, sort_keys=True))  # noqa: T201
        else:
            print("\n".join(f"{k:<12} {v}" for k, v in facts.items()))  # noqa: T201
    return EXIT_DONE


def _status(run_dir: Path) -> dict[str, Any]:
    from recurve_eval.ledger import read_rows, run_owner
    from recurve_eval.spend import SpendLedger
    from recurve_eval.tracking.follower import read_status
    from recurve_eval.tracking.study import read_plan

    plan = read_plan(run_dir)
    outcomes: Counter[str] = Counter(r["derived"]["outcome"] for r in read_rows(run_dir, plan["plan_hash"]))
    owner = run_owner(run_dir)
    spent = SpendLedger(run_dir, _limit(plan)).totals()
    mirrored = read_status(run_dir)
    return {
        "run": str(run_dir),
        "plan hash": plan["plan_hash"],
        "sealed": f"{sum(outcomes.values())} of {plan['cells']}",
        **dict(sorted(outcomes.items())),
        "running": f"yes, process {owner.get('pid')} since {owner.get('since')}" if owner else "no",
        "spent": f"${spent.settled:.2f}",
        "reserved": f"${spent.reserved:.2f}",
        "left": "no ceiling set" if spent.left is None else f"${spent.left:.2f}",
        "mirrored": mirrored.get("mirrored", "unknown"),
    }


def _limit(plan: Mapping[str, Any]) -> float | None:
    conditions = plan.get("conditions") or [{}]
    limit = conditions[0].get("config", {}).get("spend", {}).get("max_usd")
    return None if limit is None else float(limit)


def analyze(arguments: list[str]) -> int:
    """Results to summary.md and summary.json."""
    parser = _parser("analyze", "Write summary.md and summary.json from the rows that the tracker holds.")
    parser.add_argument(
        "--source",
        choices=("tracker", "ledger"),
        default="tracker",
        help="where rows are taken from; tracker rows are held against the ledger, which wins",
    )
    parser.add_argument("--uri", help="the tracking URI, where it is not the one the run was started with")
    parser.add_argument("--full", action="store_true", help="print the whole summary, not its first screen")
    parser.add_argument("--into", type=Path, help="write there instead of RUN/analysis")
    options = parser.parse_args(arguments)
    code = EXIT_DONE
    for run_dir in run_dirs(options.target):
        code = max(code, _analyze(run_dir, options))
    return code


def _analyze(run_dir: Path, options: argparse.Namespace) -> int:
    from recurve_eval.analysis.collect import headline, write_analysis
    from recurve_eval.execute.conduct import calibration_of

    rows = _rows(run_dir, options)
    if not rows:
        raise RecurveError(f"{run_dir} has no sealed cells yet")
    summary = write_analysis(run_dir, rows, options.into, calibration_of(run_dir))
    text = summary.read_text(encoding="utf-8")
    print(text if options.full else headline(text))  # noqa: T201
    print(f"summary: {summary}")  # noqa: T201
    unscored = sum(r["verdict"]["oracle_verdict"] == "unscored" for r in rows)
    return EXIT_UNSCORED if unscored else EXIT_DONE


def _rows(run_dir: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    from recurve_eval.analysis.collect import compare
    from recurve_eval.ledger import read_rows
    from recurve_eval.tracking.study import read_plan

    sealed = list(read_rows(run_dir, read_plan(run_dir)["plan_hash"]))
    if options.source == "ledger":
        return sealed
    try:
        tracked = _tracked(run_dir, options.uri)
    except Exception as error:  # noqa: BLE001 - whatever ails the tracker, the ledger still answers
        _say(f"the tracker cannot be read ({str(error).splitlines()[0]}); using the ledger")
        return sealed
    if tracked is None:
        _say("this run has no tracker to read from; using the ledger")
        return sealed
    if not sealed:
        return tracked
    difference = compare(tracked, sealed)
    if difference:
        _say(
            f"the tracker disagrees with the ledger: {difference}. Using the ledger; see: recurve-eval mirror {run_dir}"
        )
        return sealed
    _say(f"{len(tracked)} rows from the tracker; the ledger agrees")
    return tracked


def _tracked(run_dir: Path, uri: str | None) -> list[dict[str, Any]] | None:
    from recurve_eval.tracking.follower import load_tracker
    from recurve_eval.tracking.study import read_plan

    tracker = load_tracker(run_dir)
    reader = getattr(tracker, "read_study", None)
    return None if reader is None else list(reader(run_dir, read_plan(run_dir), uri or ""))


def mirror(arguments: list[str]) -> int:
    """Send the tracker what it lacks."""
    from recurve_eval.tracking import follower

    options = _parser("mirror", "Send the tracker the ledger's rows that it lacks.").parse_args(arguments)
    for run_dir in run_dirs(options.target):
        try:
            sent = follower.mirror(run_dir, follower.load_tracker(run_dir))
        except RecurveError:
            raise
        except Exception as error:
            raise InfraError(f"the tracker of {run_dir} cannot be reached: {error}") from error
        print(f"{run_dir}: {sent} rows sent; the tracker holds them all now")  # noqa: T201
    return EXIT_DONE


def _say(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201
