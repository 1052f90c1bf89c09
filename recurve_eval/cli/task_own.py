"""``recurve-eval task new`` and ``task check``: a user's own task directories."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurve_eval.cli.task import parser
from recurve_eval.commands import command
from recurve_eval.errors import EXIT_DONE, EXIT_REFUSED, EXIT_USAGE, ConfigError

if TYPE_CHECKING:
    from recurve_eval.app import Calibrant
    from recurve_eval.ports import Benchmark, Sandbox

CHECK = """\
Hold a task directory, or a directory of them, to the format, and prove it on the oracle: the canonical solution passes,
every known-bad one and an empty one fail, the visible tests accept the one and not the untouched workspace, and nothing
held out stands in the workspace. Problems are printed as FILE:LINE where a line is at fault.
"""


def new(arguments: list[str]) -> int:
    """Scaffold a task directory that passes its check."""
    from recurve_eval.benchmarks.scaffold import scaffold

    made = parser("new", "Make a task directory; it passes its check as it stands and is there to be rewritten.")
    made.add_argument("path", type=Path, help="the directory to make, such as my_tasks/round_price; its name is the id")
    path = made.parse_intermixed_args(arguments).path
    for file in scaffold(path):
        print(f"wrote {file}")  # noqa: T201
    print(f"next: {command('task', 'check', path)}")  # noqa: T201
    return EXIT_DONE


def check(arguments: list[str]) -> int:
    """Validate and calibrate. Exit 2 where a task is malformed, 3 where one does not prove itself."""
    made = parser("check", CHECK)
    made.add_argument("path", type=Path, help="a task directory, or a directory of task directories")
    made.add_argument("overrides", nargs="*", help="oracle=NAME, sandbox=NAME, calibrate.runs=3 and the like")
    options = made.parse_intermixed_args(arguments)
    malformed = list(_malformed(options.path))
    if malformed:
        print("\n".join(malformed))  # noqa: T201
        return EXIT_USAGE
    words = [*options.overrides, "task=directory", f"task.path={json.dumps(str(options.path))}"]
    problems = list(_unproven(words, options.config_dir))
    print("\n".join(problems) if problems else f"{options.path}: whole, and proven in both directions")  # noqa: T201
    return EXIT_REFUSED if problems else EXIT_DONE


def _malformed(path: Path) -> Iterator[str]:
    """The first problem of each task, and what is wrong with the set."""
    from recurve_eval.benchmarks.taskdir import folders_of, read_set, read_task

    before = False
    for folder in folders_of(path):
        try:
            read_task(folder)
        except ConfigError as error:
            before = True
            yield str(error)
    if not before:
        try:
            read_set(path)
        except ConfigError as error:
            yield str(error)


def _unproven(words: Sequence[str], own: str | None) -> Iterator[str]:
    from recurve_eval import app

    with app.initialised(own):
        calibrant = app.calibrants(words)[0]
        sandbox: Sandbox = app.instantiate(app.compose(words)["sandbox"])
    document = _calibrated(calibrant)
    for task_id, task in document["tasks"].items():
        print(_told(task_id, task))  # noqa: T201
    yield from document["problems"]
    for weakness in document["weaknesses"]:
        print(f"note: {weakness}")  # noqa: T201
    problem = sandbox.check()
    if problem:
        print(f"note: the visible tests were not run: {problem}")  # noqa: T201
    for task_id in calibrant.subject.task_ids:
        yield from _laid_out(calibrant.subject.benchmark, task_id, None if problem else sandbox)


def _calibrated(calibrant: Calibrant) -> Mapping[str, Any]:
    """A calibration of its own, kept nowhere: a task under construction has nothing worth keeping."""
    from recurve_eval.calibration.run import calibrate
    from recurve_eval.calibration.store import Store
    from recurve_eval.execute.spending import settings_of

    workers = int(calibrant.config["run"]["workers"]) or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="recurve-check-") as place:
        store = Store(Path(place), calibrant.subject.name)
        settings = settings_of(calibrant.config["calibrate"])
        done = calibrate(calibrant.subject, settings, store, workers=workers, watch=lambda *_: None)
        return done.document


def _told(task_id: str, task: Mapping[str, Any]) -> str:
    passed = sum(row["verdict"] == "pass" for row in task["canonical"])
    known = [row for row in task["wrong"] if row["role"] == "known_bad"]
    failed = sum(row["verdict"] in ("fail", "tampered") for row in known)
    return (
        f"{task_id}: {len(task['tests'])} held-out tests; canonical passes {passed} of {len(task['canonical'])}; "
        f"{failed} of {len(known)} wrong solutions fail; limit {task['limit_s']:g} s"
    )


def _laid_out(benchmark: Benchmark, task_id: str, sandbox: Sandbox | None) -> Iterator[str]:
    """What is wrong with a task's workspace: held-out bytes in it, visible tests that judge wrongly."""
    from recurve_eval.workspace import materialize

    task = benchmark.task(task_id)
    with tempfile.TemporaryDirectory(prefix="recurve-check-") as name:
        place = Path(name)
        materialize(task, place / "untouched")
        for found in benchmark.scanner(task_id).scan(place / "untouched"):
            yield f"{task_id}: the workspace leaks: {found}"
        if task.visible_check is None or sandbox is None:
            return
        if _accepts(sandbox, task.visible_check, place / "untouched", place / "scratch-1"):
            yield f"{task_id}: the visible tests accept the untouched workspace"
        materialize(task, place / "solved")
        for path, content in benchmark.solutions(task_id).canonical.items():
            (place / "solved" / path).parent.mkdir(parents=True, exist_ok=True)
            (place / "solved" / path).write_bytes(content)
        if not _accepts(sandbox, task.visible_check, place / "solved", place / "scratch-2"):
            yield f"{task_id}: the visible tests reject the canonical solution"


def _accepts(sandbox: Sandbox, argv: tuple[str, ...], workspace: Path, scratch: Path) -> bool:
    from recurve_eval.ports import Command

    scratch.mkdir(mode=0o700)
    session = sandbox.open(workspace, scratch, "recurve-check")
    try:
        return session.run(Command(argv)).exit_code == 0
    finally:
        session.close()
