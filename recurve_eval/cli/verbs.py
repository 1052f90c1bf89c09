"""The verbs that look at runs: status and mirror (analyze has a module of its own)."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recurve_eval.cli.analyze import analyze
from recurve_eval.cli.doctor import doctor
from recurve_eval.cli.targets import TARGETS, run_dirs, take_own
from recurve_eval.errors import EXIT_DONE, InfraError, RecurveError

__all__ = ["analyze", "doctor", "mirror", "status"]


def _parser(verb: str, text: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"recurve-eval {verb}", description=text)
    parser.add_argument("target", nargs="*", help=TARGETS)
    take_own(parser)
    return parser


def status(arguments: list[str]) -> int:
    """What is sealed, running and spent."""
    parser = _parser("status", "What is sealed, running and spent in a run directory.")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each run directory")
    options = parser.parse_intermixed_args(arguments)
    for run_dir in run_dirs(options.target, options.config_dir):
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
        "spent": _usd(spent.settled),
        "reserved": _usd(spent.reserved),
        "left": "no ceiling set" if spent.left is None else _usd(spent.left),
        "mirrored": mirrored.get("mirrored", "unknown"),
    }


def _usd(amount: float) -> str:
    """US dollars; what is less than a cent is not shown as nothing."""
    return f"${amount:.2f}" if amount == 0 or abs(amount) >= 0.01 else f"${amount:.6f}"


def _limit(plan: Mapping[str, Any]) -> float | None:
    conditions = plan.get("conditions") or [{}]
    limit = conditions[0].get("config", {}).get("spend", {}).get("max_usd")
    return None if limit is None else float(limit)


def mirror(arguments: list[str]) -> int:
    """Send the tracker what it lacks."""
    from recurve_eval.tracking import follower

    options = _parser("mirror", "Send the tracker the ledger's rows that it lacks.").parse_intermixed_args(arguments)
    for run_dir in run_dirs(options.target, options.config_dir):
        try:
            sent = follower.mirror(run_dir, follower.load_tracker(run_dir))
        except RecurveError:
            raise
        except Exception as error:
            raise InfraError(f"the tracker of {run_dir} cannot be reached: {error}") from error
        print(f"{run_dir}: {sent} rows sent; the tracker holds them all now")  # noqa: T201
    return EXIT_DONE
