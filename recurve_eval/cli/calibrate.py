"""``recurve-eval calibrate``: grade solutions known good and known bad before anything is spent."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recurve_eval.cli.targets import take_own
from recurve_eval.errors import EXIT_DONE, Interrupted, Refused

if TYPE_CHECKING:
    from recurve_eval.app import Calibrant
    from recurve_eval.calibration.run import Outcome

TEXT = """\
Grade every canonical solution (must pass, calibrate.runs times of calibrate.runs) and every known-bad one
(empty, returning None, raising, the benchmark's own; must not pass), and mutants of the canonical solutions
(survivors are listed as weaknesses of the oracle). The result is kept below run.outputs/calibrations and is
reused while oracle environment, dataset, exclusion table and grading code are the same. Paid cells need it.
"""
EXAMPLES = """\
examples:
  recurve-eval calibrate task=demo oracle=bubblewrap
  recurve-eval calibrate task=humaneval oracle=python-min 'task.select={n: 20, seed: 1}'
  recurve-eval calibrate task=humaneval calibrate.mutants=3 calibrate.runs=5

exit codes: 0 proven (or it was already), 2 configuration, 3 refused: something did not grade as it must,
130 interrupted (the same command resumes).
"""
PLAIN_EVERY_S, LIVE_EVERY_S = 10.0, 0.2
LISTED = 20


def calibrate(arguments: list[str]) -> int:
    """Calibrate each oracle and benchmark that the overrides span. Raises Refused where one is not proven."""
    from recurve_eval import app

    options, overrides = _options(arguments)
    with app.initialised(options.config_dir):
        found = app.calibrants(overrides)
    refused = []
    for calibrant in found:
        outcome = _one(calibrant, options.again)
        _report(calibrant, outcome)
        if not outcome.green:
            refused.append(f"{calibrant.subject.name} on oracle {calibrant.subject.oracle.name}")
    if refused:
        raise Refused(
            f"not proven: {', '.join(refused)}. Mend the task or the oracle, or exclude the task in an exclusion table "
            "with its reason; then calibrate again"
        )
    return EXIT_DONE


def _options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="recurve-eval calibrate", description=TEXT, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("overrides", nargs="*", help="as for run; agents, arms and budgets are not looked at")
    parser.add_argument("--again", action="store_true", help="grade everything anew, whatever is on record")
    take_own(parser)
    options = parser.parse_intermixed_args(arguments)
    return options, list(options.overrides)


def _one(calibrant: Calibrant, again: bool) -> Outcome:
    from recurve_eval.calibration.run import calibrate as examine
    from recurve_eval.execute.spending import settings_of, store_of

    config, subject = calibrant.config, calibrant.subject
    workers = int(config["run"]["workers"]) or len(os.sched_getaffinity(0))
    meter = Meter(f"{subject.name} on {subject.oracle.name}", config["run"]["progress"])
    try:
        return examine(
            subject, settings_of(config["calibrate"]), store_of(config, subject),
            workers=workers, watch=meter.watch, again=again,
        )  # fmt: skip
    except KeyboardInterrupt:
        raise Interrupted("stopped: gradings so far are kept; the same command resumes") from None
    finally:
        meter.end()


class Meter:
    """How far a calibration is, on stderr: one living line on a terminal, a line now and then elsewhere."""

    def __init__(self, label: str, style: str) -> None:
        self._label, self._style = label, style
        self._live = style == "rich" or (style == "auto" and sys.stderr.isatty())
        self._drawn = time.monotonic()
        self._open = False

    def watch(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        every = LIVE_EVERY_S if self._live else PLAIN_EVERY_S
        if self._style == "none" or (now - self._drawn < every and done < total):
            return
        self._drawn = now
        line = f"{self._label}: {phase} {done}/{total}"
        print(f"\r\x1b[K{line}" if self._live else line, end="" if self._live else "\n", file=sys.stderr, flush=True)  # noqa: T201
        self._open = self._live

    def end(self) -> None:
        if self._open:
            print(file=sys.stderr)  # noqa: T201
            self._open = False


def _report(calibrant: Calibrant, outcome: Outcome) -> None:
    held = outcome.document
    if outcome.reused:
        print(f"calibration is current: {outcome.path}")  # noqa: T201
    print("\n".join(_lines(calibrant, held)))  # noqa: T201
    if not outcome.reused:
        print(f"{outcome.graded} gradings in {held['wall_s']:.1f} s; calibration: {outcome.path}")  # noqa: T201


def _lines(calibrant: Calibrant, held: Mapping[str, Any]) -> list[str]:
    subject, timings = calibrant.subject, held["timings"]
    lines = [
        f"{subject.name} on {subject.oracle.name} ({held['oracle']['hash'][:16]}): "
        + ("green" if held["green"] else f"NOT PROVEN, {len(held['problems'])} problems"),
        f"  sensitivity  {_rate(held['sensitivity'])} canonical solutions pass {held['settings']['runs']} of "
        f"{held['settings']['runs']}",
        f"  specificity  {_rate(held['specificity'])} wrong solutions are rejected",
        f"    known bad  {_rate(held['specificity_known_bad'])}",
        f"    mutants    {_rate(held['specificity_mutants'])}",
    ]
    if impossible := held.get("impossible"):
        lines.append(f"  impossible   {impossible} of {len(held['tasks'])} tasks, at which every attempt must fail")
    if timings["n"]:
        lines.append(
            f"  time         median {timings['median_s']:.3f} s, p99 {timings['p99_s']:.3f} s a grading; "
            f"derived limit {timings['timeout_s']:.1f} s"
        )
    lines += [f"  excluded     {t}: {why}" for t, why in held["exclusions"]["tasks"].items()]
    lines += [f"  tight limit  {t}" for t in _tight(held)]
    lines += _list("problem", held["problems"], len(held["problems"])) + _list("weakness", held["weaknesses"], LISTED)
    return lines


def _tight(held: Mapping[str, Any]) -> list[str]:
    """Tasks whose own time limit is below what their canonical solution's timings suggest."""
    return [
        f"{task_id}: {task['limit_s']:g} s, its timings suggest {task['timeout_s']:.1f} s"
        for task_id, task in held["tasks"].items()
        if task["timeout_s"] is not None and task["timeout_s"] > task["limit_s"]
    ]


def _list(word: str, items: Sequence[str], most: int) -> list[str]:
    more = [f"  {word:<12} and {len(items) - most} more, in the file"] if len(items) > most else []
    return [*(f"  {word:<12} {item}" for item in items[:most]), *more]


def _rate(rate: Mapping[str, Any]) -> str:
    if rate["value"] is None:
        return "undefined (0 of 0)"
    return f"{rate['count']}/{rate['n']} = {rate['value']:.1%} [{rate['low']:.1%}, {rate['high']:.1%}]"
