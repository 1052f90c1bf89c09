"""``recurve-eval task list | show | new | check``: what there is to be solved, and tasks of one's own."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurve_eval.cli.targets import take_own
from recurve_eval.errors import EXIT_DONE, EXIT_USAGE, ConfigError, Drift, Leak, RecurveError, UnknownName

if TYPE_CHECKING:
    from recurve_eval.ports import Benchmark

HELP = """\
usage: recurve-eval task VERB ...

  list    every benchmark; with task=NAME the tasks of that one
  show    one task as an agent gets it: statement, files, limits, capture, pins
  new     make a task of your own: a directory that already passes its check
  check   hold a task (or a directory of tasks) to its format, and calibrate it

  recurve-eval task list
  recurve-eval task list task=humaneval
  recurve-eval task show flatten task=demo
  recurve-eval task new my_tasks/round_price
  recurve-eval task check my_tasks/round_price

Nothing held out is ever printed. `recurve-eval task VERB --help` says more.
Exit codes: 0 done, 2 usage, configuration or a malformed task, 3 refused (a task that does not prove itself).
"""


def task(arguments: list[str]) -> int:
    """One of the verbs around tasks."""
    from recurve_eval.cli.task_own import check, new

    table: dict[str, Callable[[list[str]], int]] = {"list": listing, "show": show, "new": new, "check": check}
    first = arguments[0] if arguments else "--help"
    if first in ("--help", "-h", "help"):
        print(HELP, end="")  # noqa: T201
        return EXIT_DONE if arguments else EXIT_USAGE
    if first not in table:
        raise UnknownName("task verb", first, table)
    return table[first](arguments[1:])


def parser(verb: str, text: str) -> argparse.ArgumentParser:
    """The parser of one verb, with the options that all of them take."""
    made = argparse.ArgumentParser(prog=f"recurve-eval task {verb}", description=text)
    take_own(made)
    return made


# -- list -----------------------------------------------------------------------------------------


def listing(arguments: list[str]) -> int:
    """Benchmarks, or the tasks of one."""
    made = parser("list", "List the benchmarks, or with task=NAME the tasks of that one.")
    made.add_argument("overrides", nargs="*", help="task=NAME and its settings, such as task.path=DIRECTORY")
    made.add_argument("--json", action="store_true", help="one JSON object a line")
    options = made.parse_intermixed_args(arguments)
    own = options.config_dir
    rows = _tasks(options.overrides, own) if options.overrides else _benchmarks(own)
    for row in rows:
        print(json.dumps(row, sort_keys=True) if options.json else _line(row))  # noqa: T201
    return EXIT_DONE


def _benchmarks(own: str | None) -> Iterator[dict[str, Any]]:
    """Every option of the group; what keeps one from being read stands in its place."""
    from recurve_eval import app
    from recurve_eval.benchmarks.source import NotHere

    with app.initialised(own):
        for name in app.options_of("task"):
            try:
                node = app.compose([f"task={name}"])["task"]
                found = app.instantiate({**node, "url": None} if "url" in node else node)  # a list downloads nothing
                ids, pins = found.task_ids(), found.pins()
            except (ConfigError, Drift) as error:
                later = isinstance(error, NotHere) and node.get("url")
                why = f"not on this machine; a plan downloads it from {later}" if later else str(error)
                yield {"benchmark": name, "tasks": None, "problem": why}
                continue
            yield {"benchmark": name, "tasks": len(ids), "revision": pins.get("dataset_revision")}


def _tasks(overrides: Sequence[str], own: str | None) -> Iterator[dict[str, Any]]:
    found = _benchmark(overrides, own)
    for task_id in found.task_ids():
        one = found.task(task_id)
        yield {
            "task": task_id,
            "capture": list(one.capture.paths),
            "visible_check": one.visible_check is not None,
            "opening": one.statement.strip().splitlines()[0][:100],
        }


def _line(row: Mapping[str, Any]) -> str:
    if "benchmark" in row:
        count = "-" if row["tasks"] is None else row["tasks"]
        return f"{row['benchmark']:<18} {count!s:>5}  {row.get('problem') or row['revision']}"
    check = "visible check" if row["visible_check"] else "no visible check"
    return f"{row['task']:<24} {','.join(row['capture']):<28} {check:<17} {row['opening']}"


def _benchmark(overrides: Sequence[str], own: str | Path | None) -> Benchmark:
    from recurve_eval import app

    with app.initialised(own):
        return app.benchmark_of(overrides)


def task_ids(overrides: Sequence[str], own: Path | None) -> Sequence[str]:
    """The ids that may be shown, for completion; none where the benchmark cannot be read."""
    try:
        return _benchmark([word for word in overrides if "=" in word], own).task_ids()
    except RecurveError:
        return ()


# -- show -----------------------------------------------------------------------------------------


def show(arguments: list[str]) -> int:
    """One task's public half. Raises Leak where it would print held-out bytes."""
    made = parser("show", "Show one task as an agent gets it. Nothing held out is printed.")
    made.add_argument("id", help="the task's id")
    made.add_argument("overrides", nargs="*", help="task=NAME and its settings; default: the configured benchmark")
    made.add_argument("--files", action="store_true", help="print the public files too")
    options = made.parse_intermixed_args(arguments)
    if "=" in options.id:
        raise ConfigError("name the task first: recurve-eval task show ID [task=NAME]")
    found = _benchmark(options.overrides, options.config_dir)
    text = "\n".join(_shown(found, options.id, options.files)) + "\n"
    _refuse_held_out(found, options.id, text)
    print(text, end="")  # noqa: T201
    return EXIT_DONE


def _shown(found: Benchmark, task_id: str, files: bool) -> Iterator[str]:
    from recurve_eval.domain import Submission

    one = found.task(task_id)
    job = found.oracle_job(task_id, Submission.of_reference("none", {}))
    yield f"task           {one.id}  ({found.name})"
    paths = ", ".join(one.capture.paths) or "every file that differs"
    yield f"capture        {paths}, at most {one.capture.max_file_bytes} bytes each"
    yield f"visible check  {' '.join(_word(w) for w in one.visible_check) if one.visible_check else 'none'}"
    if one.protected:
        yield f"protected      {', '.join(one.protected)}"
    yield f"held out       {len(job.expected)} tests, {job.timeout_s:g} s for one run of them"
    if one.wall_s is not None:
        ending = f", gone {one.cancel_s:g} s after" if one.cancel_s is not None else ""
        yield f"agent          {one.wall_s:g} s{ending}"
    if one.network:
        yield f"network        {one.network}"
    yield f"libraries      {', '.join(job.preload) or 'none beyond what the oracle has'}"
    for name, value in sorted(found.pins().items()):
        yield f"pinned         {name} {value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
    for path, content in sorted(one.public.items()):
        yield f"public file    {path}, {len(content)} bytes"
    yield from ("", "statement", "---------", one.statement.rstrip())
    for path, content in sorted(one.public.items() if files else ()):
        yield from ("", path, "-" * len(path), content.decode("utf-8", "backslashreplace").rstrip())


def _word(word: str) -> str:
    return word if word.isprintable() and " " not in word else repr(word)


def _refuse_held_out(found: Benchmark, task_id: str, text: str) -> None:
    """What is printed is held against the held-out half, as a workspace is."""
    with tempfile.TemporaryDirectory(prefix="recurve-show-") as place:
        Path(place, "shown.txt").write_text(text, encoding="utf-8", errors="surrogateescape")
        if found.scanner(task_id).scan(Path(place)):
            raise Leak(f"task {task_id}: its public half holds held-out bytes, so it is not shown; mend the benchmark")
