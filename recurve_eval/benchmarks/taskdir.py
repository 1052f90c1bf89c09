"""Task directories: their layout, and the reader that holds every file of a task to it.

::

    <root>/<any name>/
      task.yaml            what the task is; the keys are the fields of TaskSheet
      public/              files laid into the workspace: a starter, visible tests (test_*.py), data
      held_out/            unittest modules that import the submission; only the oracle reads them
      solution/            the canonical solution, below the capture paths
      known_bad/<kind>/    a wrong solution each, and why.txt for the reader (not part of the solution)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.benchmarks.common import below
from recurve_eval.benchmarks.sheet import TaskSheet, lines_of, read_sheet
from recurve_eval.domain import CaptureSpec, KnownBad, Solutions, Task
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.testids import unittest_ids

PARTS = ("public", "held_out", "solution", "known_bad")
MAX_FILE_BYTES = 8 * 1024 * 1024
_TEST = re.compile(r"(.*/)?test_[^/]*\.py")


# The work comes last on the path, so that a file of it named like a library's module shadows nothing.
_VISIBLE = "import sys, unittest; sys.path.append('.'); unittest.main(module=None, argv=['visible', *sys.argv[1:]])"


@dataclass(frozen=True, slots=True)
class TaskDirectory:
    """One task, read whole. ``files`` maps paths below the task's directory to bytes."""

    sheet: TaskSheet
    where: Path
    files: Mapping[str, bytes]
    expected: tuple[str, ...]  # ids of the held-out tests

    def part(self, name: str) -> dict[str, bytes]:
        """The files below one of the parts, by their path in it."""
        return below(self.files, name)

    def at(self, key: str) -> str:
        """Where task.yaml says ``key``, as FILE:LINE."""
        line = lines_of(self.files["task.yaml"]).get(key)
        return f"{self.where}/task.yaml" + (f":{line}" if line else "")

    @property
    def visible_tests(self) -> tuple[str, ...]:
        return tuple(sorted(path for path in self.part("public") if _TEST.fullmatch(path)))

    @property
    def support(self) -> dict[str, bytes]:
        """Public files that a submission may need beside it: all but the tests and what it replaces."""
        apart = {*self.visible_tests, *self.sheet.capture}
        return {path: data for path, data in self.part("public").items() if path not in apart}

    def task(self) -> Task:
        tests = self.visible_tests
        return Task(
            id=self.sheet.id,
            statement=self.sheet.statement,
            public=self.part("public"),
            capture=CaptureSpec(self.sheet.capture, self.sheet.max_file_bytes),
            visible_check=("{python}", "-I", "-B", "-c", _VISIBLE, *tests) if tests else None,
            protected=tests,
        )

    def solutions(self) -> Solutions:
        bad = [(kind, self.part(f"known_bad/{kind}")) for kind in self.sheet.faults]
        return Solutions(
            canonical=self.part("solution"),
            known_bad=tuple(KnownBad(k, {p: d for p, d in files.items() if p != "why.txt"}) for k, files in bad),
        )


def read_set(root: Path) -> dict[str, TaskDirectory]:
    """Every task below ``root``, by id, in the order of their directories' names; ``root`` may be a task itself.

    Raises
    ------
    ConfigError
        ``root`` is not a directory, holds no task, or a task in it is malformed; the message names the
        file, the key and what would be right.
    """
    tasks: dict[str, TaskDirectory] = {}
    for folder in folders_of(root):
        task = read_task(folder)
        if task.sheet.id in tasks:
            other = tasks[task.sheet.id].where
            raise ConfigError(f"{folder / 'task.yaml'}: id '{task.sheet.id}' is already the id of {other}")
        tasks[task.sheet.id] = task
    if not tasks:
        raise ConfigError(f"{root} holds no task: expected one directory a task, each with a task.yaml")
    return tasks


def folders_of(root: Path) -> list[Path]:
    """The task directories of a set, sorted: those below ``root``, or ``root`` where it has a task.yaml itself.

    Raises ConfigError where it is no directory.
    """
    if not root.is_dir():
        raise ConfigError(f"{root} is not a directory of tasks")
    if (root / "task.yaml").is_file():
        return [root]
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))


def read_task(folder: Path) -> TaskDirectory:
    """One task directory, checked. Raises ConfigError as ``read_set`` does."""
    sheet_file = folder / "task.yaml"
    if not sheet_file.is_file():
        raise ConfigError(f"{folder} has no task.yaml (each directory of a task set is a task)")
    files = dict(_read_files(folder))
    sheet = read_sheet(files["task.yaml"], sheet_file)
    held_out = {p.removeprefix("held_out/"): data for p, data in files.items() if p.startswith("held_out/")}
    task = TaskDirectory(sheet, folder, files, _expected(held_out, folder))
    _check_layout(task)
    _check_solutions(task)
    return task


def _read_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if "__pycache__" in inside.parts:
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ConfigError(f"{path} is not a regular file: a task's content is its own bytes, so links are refused")
        if path.is_dir():
            continue
        if inside.parts[0] not in PARTS and inside.as_posix() not in ("task.yaml", "README.md"):
            raise UnknownName("entry", inside.parts[0], (*PARTS, "task.yaml", "README.md"), str(folder))
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        yield inside.as_posix(), path.read_bytes()


def _expected(held_out: Mapping[str, bytes], folder: Path) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for path, source in sorted(held_out.items()):
        if "/" in path or not path.endswith(".py"):
            raise ConfigError(f"{folder}: held_out/{path}: only Python modules, side by side, are read there")
        try:
            ids = unittest_ids(source, f"held_out/{path}")
        except (SyntaxError, ValueError) as error:
            line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            raise ConfigError(f"{folder}/held_out/{path}{line}: cannot be read: {error}") from None
        for test in ids:
            if test in found:
                raise ConfigError(f"{folder}: test {test} stands both in held_out/{found[test]} and in held_out/{path}")
            found[test] = path
    if not found:
        raise ConfigError(
            f"{folder} has no held-out tests: held_out/*.py must define unittest.TestCase classes with test methods"
        )
    return tuple(found)


def _check_layout(task: TaskDirectory) -> None:
    sheet, where = task.sheet, task.where
    stem = sheet.module.replace(".", "/")
    if not {f"{stem}.py", f"{stem}/__init__.py"} & set(sheet.capture):
        raise ConfigError(f"{task.at('module')}: module '{sheet.module}' is not captured; capture must name {stem}.py")
    public = task.part("public")
    contents = {hashlib.sha256(data).digest(): path for path, data in public.items() if data.strip()}
    for path, data in task.part("held_out").items():
        twin = path if path in public else contents.get(hashlib.sha256(data).digest())
        if twin is not None:
            raise ConfigError(f"{where}: held_out/{path} also stands in public/{twin}, where the agent would read it")
    if f"{sheet.module}.py" in task.part("held_out"):
        raise ConfigError(f"{where}: held_out/{sheet.module}.py has the name of the submission's module")
    for path in task.visible_tests:
        if path in sheet.capture:
            raise ConfigError(
                f"{task.at('capture')}: capture names {path}, a visible test; a submission is not its tests"
            )


def _check_solutions(task: TaskDirectory) -> None:
    where, solutions = task.where, task.solutions()
    if not any(data.strip() for data in solutions.canonical.values()):
        raise ConfigError(f"{where} has no canonical solution: solution/ must hold {', '.join(task.sheet.capture)}")
    public = task.part("public")
    if all(public.get(path) == data for path, data in solutions.canonical.items()):
        raise ConfigError(f"{where}: public/ already holds the canonical solution")
    kinds = {path.split("/")[0] for path in task.part("known_bad")}
    for kind in sorted(kinds ^ set(task.sheet.faults)):
        lack = "is not among faults in task.yaml" if kind in kinds else "is named in faults but has no directory"
        raise ConfigError(f"{task.at('faults')}: known_bad/{kind} {lack}")
    parts = {"solution": solutions.canonical, **{f"known_bad/{bad.kind}": bad.files for bad in solutions.known_bad}}
    for label, files in parts.items():
        if not files:
            raise ConfigError(f"{where}: {label} holds no solution")
        for path in sorted(set(files) - set(task.sheet.capture)):
            names = ", ".join(task.sheet.capture)
            raise ConfigError(f"{where}: {label}/{path} would never be captured; capture names {names}")
