"""``recurve-eval intercept``: defects and known-good work before each layer of the gate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurve_eval.cli.targets import take_own
from recurve_eval.commands import command
from recurve_eval.errors import EXIT_DONE, EXIT_UNSCORED, ConfigError

if TYPE_CHECKING:
    from recurve_eval.interception.plan import Interception
    from recurve_eval.interception.run import Done

TEXT = """\
Put defects and known-good work to each layer of the gate, and say what each catches and what it blocks wrongly.
No agent works. The held-out oracle says what is a defect. The same command resumes; no decision is made twice.
"""
EXAMPLES = """\
examples:
  recurve-eval intercept task=demo source=known_bad
  recurve-eval intercept task=humaneval source=mutants claims=recorded claims.path=FILE source.count=20
  recurve-eval intercept task=humaneval source=recorded 'source.paths=[A.jsonl.gz,B.jsonl.gz]' layers.names=[ci]
  recurve-eval intercept replay=outputs/STUDY/HASH 'layers.names=[A0,A1]'
  recurve-eval intercept --reviews reviews.jsonl

exit codes: 0 done, 2 configuration, 3 refused, 4 done but some decisions or gradings failed, 130 interrupted.
"""


def intercept(arguments: list[str]) -> int:
    """Decide, seal, report; once for each choice that the overrides span."""
    from recurve_eval import app

    options, overrides = _options(arguments)
    if options.reviews:
        return _reviews(options, overrides)
    with app.initialised(options.config_dir):
        asked = list(app.interceptions(overrides))
    return max((_one(each, options) for each in asked), default=EXIT_DONE)


def _options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="recurve-eval intercept", description=TEXT, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("overrides", nargs="*", help="as for run, and source=, claims=, layers=")
    parser.add_argument("-m", "--multirun", action="store_true", help="accepted and implied: a comma makes an axis")
    parser.add_argument("--reviews", nargs="+", metavar="FILE", help="only correlate recorded reviews (JSONL: item, "
                        "reviewer, model, verdict, truth; and task, where an item is one of several)")  # fmt: skip
    parser.add_argument("--full", action="store_true", help="print the whole report, not its first tables")
    take_own(parser)
    options = parser.parse_intermixed_args(arguments)
    return options, [word for given in options.overrides for word in _spelt_out(given, options.overrides)]


def _spelt_out(word: str, given: Sequence[str]) -> list[str]:
    """``replay=RUN`` as the choices that it stands for, but for those that were made; any other word as it is."""
    key, _, run = word.partition("=")
    if key != "replay" and key.lstrip("+~") == "replay":
        raise ConfigError(f"'{word}': replay stands without a sign; write replay={run or 'RUN'}")
    if key != "replay":
        return [word]
    chosen = {other.partition("=")[0] for other in given}
    usual = {"claims": "stored", "layers": "arms"}
    return ["source=replay", f"source.run={run}", *(f"{k}={v}" for k, v in usual.items() if k not in chosen)]


def _reviews(options: argparse.Namespace, overrides: list[str]) -> int:
    """The miss-correlation of every pair of recorded reviewers, as a table."""
    from recurve_eval.analysis.encode import plain
    from recurve_eval.interception.blindspots import of_reviews, read_reviews
    from recurve_eval.interception.text import reviews_markdown

    if overrides:
        raise ConfigError(f"--reviews reads files and takes no override; got '{overrides[0]}'")
    pairs = of_reviews(read_reviews(options.reviews), 0, 10_000)
    if not pairs:
        raise ConfigError("--reviews needs at least two reviewers")
    print(reviews_markdown(plain(pairs)), end="")  # noqa: T201
    return EXIT_DONE


def _one(asked: Interception, options: argparse.Namespace) -> int:
    from recurve_eval.cli.calibrate import Meter
    from recurve_eval.execute.bench import run_facts
    from recurve_eval.interception.report import first_tables, write_report
    from recurve_eval.interception.run import intercept as run

    meter = Meter(f"{asked.benchmark.name}, {asked.source.name}", asked.config["run"]["progress"])
    facts = run_facts(asked.plan.hash, asked.plan.experiment)
    try:
        done = run(asked, facts, lambda made, total: meter.watch("decisions", made, total), _followed(asked.config))
    finally:
        meter.end()
    path = write_report(done.run_dir, figures=bool(asked.config["analysis"]["figures"]))
    _mirror_report(done.run_dir)
    text = path.read_text(encoding="utf-8")
    print(text if options.full else first_tables(text))  # noqa: T201
    print("\n".join(_closing(done, path)))  # noqa: T201
    return EXIT_UNSCORED if done.unscored else EXIT_DONE


def _closing(done: Done, path: Path) -> list[str]:
    lines = []
    if done.made:
        pace = f"{done.made / done.wall_s:.1f} decisions a second"
        lines.append(f"{done.made} decisions, {done.graded} gradings in {done.wall_s:.1f} s ({pace})")
    if done.sealed > done.made:
        lines.append(f"{done.sealed - done.made} decisions were sealed before and not made again")
    if done.unscored:
        lines.append(f"{done.unscored} of {done.total} decisions are unscored; the report lists why")
    return [*lines, f"report: {path}"]


def _followed(config: Any) -> Any:
    """A context in which the tracker follows the ledger, as in any run."""
    from recurve_eval.tracking.follower import Follower

    @contextmanager
    def around(run_dir: Path) -> Iterator[None]:
        follower = Follower.start(run_dir)
        timeout_s = float(config["run"]["mirror_timeout_s"])
        try:
            yield
        except BaseException:
            follower.stop(5.0)
            raise
        if not (follower.drain(timeout_s) and follower.stop(timeout_s)):
            print(  # noqa: T201
                f"the tracker lacks rows; results are complete in {run_dir}. "
                f"Repair it with: {command('mirror', run_dir)}",
                file=sys.stderr,
            )

    return around


def _mirror_report(run_dir: Path) -> None:
    from recurve_eval.tracking.follower import load_tracker, publish

    try:
        publish(run_dir, load_tracker(run_dir))
    except Exception as error:  # noqa: BLE001 - the report stands, whatever ails the tracker
        print(f"the report was not logged to the tracker: {str(error).splitlines()[0]}", file=sys.stderr)  # noqa: T201
