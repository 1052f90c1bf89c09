"""``recurve-eval regrade``: stored submissions graded again, and every verdict that flips."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recurve_eval.cli.targets import run_dirs, take_own
from recurve_eval.errors import EXIT_DONE, EXIT_FLIPPED, EXIT_UNSCORED, ConfigError, Drift

TEXT = """\
Grade the stored submissions of a run again, with its own oracle as it is now or with another (oracle=...), and show
every verdict that flips, graded twice more. Sealed rows are never changed; gradings are kept in RUN/regrades/ by
oracle environment, and the same command goes on where it stopped.
"""
EPILOG = """\
examples:
  recurve-eval regrade outputs/demo/0123456789abcdef
  recurve-eval regrade outputs/demo/0123456789abcdef oracle=bubblewrap --within 600

exit codes: 0 every verdict is the same, 2 configuration, 3 refused (the dataset is another one), 4 some submissions
have no verdict now, were altered, or were not reached in time, 5 verdicts flipped.
"""


def regrade(arguments: list[str]) -> int:
    """Grade again, print the table of flips."""
    from recurve_eval.cli.calibrate import Meter
    from recurve_eval.interception.regrade import Regrading, table_of

    options, overrides = _options(arguments)
    run_dir = run_dirs([options.run])[0]
    parts, close = _parts(run_dir, overrides, options)
    meter = Meter(f"regrade {run_dir.name}", options.progress)
    try:
        outcome = Regrading(run_dir, parts, options.workers, options.within).run(
            lambda done, total: meter.watch("submissions", done, total)
        )
    finally:
        meter.end()
        close()
    print("\n".join(table_of(outcome)))  # noqa: T201
    if outcome.flips:
        print(f"{len(outcome.flips)} verdicts flipped; gradings: {outcome.path}")  # noqa: T201
        return EXIT_FLIPPED
    print(f"no verdict flipped; gradings: {outcome.path}")  # noqa: T201
    return EXIT_UNSCORED if outcome.unscored or outcome.left or outcome.altered else EXIT_DONE


def _options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="recurve-eval regrade", description=TEXT, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", help="a run directory")
    parser.add_argument("overrides", nargs="*", help="of the oracle, such as oracle=python-min oracle.runs=3")
    parser.add_argument("--within", type=float, metavar="S", help="seconds after which no further grading is begun")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--workers", type=int, default=cores, help="gradings at once; default: one for each core")
    parser.add_argument("--progress", choices=("auto", "rich", "plain", "none"), default="auto")
    take_own(parser)
    options = parser.parse_intermixed_args(arguments)
    for word in options.overrides:
        if word.partition("=")[0].split(".")[0] != "oracle":
            raise ConfigError(f"regrade takes overrides of the oracle alone; got '{word}'")
    if options.workers < 1:
        raise ConfigError("--workers must be at least 1")
    return options, list(options.overrides)


def _parts(run_dir: Path, overrides: list[str], options: argparse.Namespace) -> tuple[Any, Any]:
    """What grades each row, by the configuration of its condition; and how to end it."""
    from recurve_eval import app
    from recurve_eval.tracking.study import Study, read_plan

    study = Study(run_dir, read_plan(run_dir))
    made: dict[str, Any] = {}
    with app.initialised(options.config_dir):
        chosen = app.oracle_of(overrides) if overrides else None

    def backend(node: Mapping[str, Any], benchmark: Any) -> Any:
        oracle = chosen if chosen is not None else app.oracle_from(node)
        problem = oracle.check()
        if problem:
            raise ConfigError(problem)
        oracle.start(options.workers)
        return oracle, oracle.env(app.preload_of(benchmark))

    import threading

    lock = threading.Lock()

    def parts(row: Mapping[str, Any]) -> Any:
        config = study.config(row["identity"]["cell_id"])
        key = repr((config["task"], None if chosen is not None else config["oracle"]))
        with lock:
            if key not in made:
                benchmark = app.instantiate(config["task"])
                oracle, env = backend(config["oracle"], benchmark)
                made[key] = benchmark, oracle, env, benchmark.pins().get("dataset_hash")
            benchmark, oracle, env, dataset = made[key]
        if dataset != row["provenance"]["dataset_hash"]:
            raise Drift(
                f"{benchmark.name} is dataset {str(dataset)[:12]} now, and the run was graded on "
                f"{str(row['provenance']['dataset_hash'])[:12]}: its submissions cannot be compared"
            )
        return benchmark, oracle, env

    def close() -> None:
        for _, oracle, _, _ in made.values():
            oracle.close()

    return parts, close
