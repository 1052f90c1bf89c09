"""Pairs of a buggy and a correct program with their tests: public bug corpora that the user points at.

A directory of three directories, whose files belong together by their stem::

    buggy/NAME.py    correct/NAME.py    tests/NAME.json  (lines of [arguments, expected]; one argument may stand bare)
                                        tests/NAME.py    (or a module that defines check(candidate))

or JSON Lines of ``{"id", "buggy", "correct", "tests"}``, where ``tests`` is a list of ``[arguments, expected]`` or the
source of a module that defines ``check(candidate)``; ``entry_point`` names the function, which is else ``id``.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from recurve_eval.benchmarks.common import find
from recurve_eval.benchmarks.loading import read_content, records, text_field
from recurve_eval.domain import JSON, CaptureSpec, KnownBad, OracleJob, Solutions, Submission, Task, digest
from recurve_eval.errors import ConfigError, Drift
from recurve_eval.leak import HeldOutScanner

SOLUTION = "solution.py"
VISIBLE = "test_visible.py"
_CHECK = """CASES = {cases!r}


def plain(value):
    if isinstance(value, (str, bytes, dict, int, float, type(None))) or not hasattr(value, "__iter__"):
        return value
    return [plain(v) for v in value]


def check(candidate):
    for arguments, expected in CASES:
        found = plain(candidate(*arguments))
        if isinstance(expected, float):
            assert abs(found - expected) <= 1e-6 * max(1.0, abs(expected)), arguments
        else:
            assert found == plain(expected), arguments
"""

_VISIBLE = '''"""Visible tests. Exit 0 when they hold."""

from solution import {entry}

{check}

check({entry})
'''


@dataclass(frozen=True, slots=True)
class Pair:
    """One program, wrong and right, and what tells them apart. ``cases`` are the tests where they are listed."""

    name: str
    entry_point: str
    buggy: bytes
    correct: bytes
    check: str
    cases: tuple[Any, ...] = ()


@dataclass
class Pairs:
    """Tasks made of pairs; the buggy program is the one known-bad solution.

    Attributes
    ----------
    path : str
        The directory, or a JSONL file, plain or gzip.
    buggy, correct, tests : str
        The three directories below ``path``.
    visible : int
        How many of the listed cases, the first ones, are visible tests too; a test module is never visible.
    sha256 : str, optional
        What every pair and its tests must hash to, as ``dataset_hash`` in a plan; None accepts any.
    timeout_s : float
        Wall-clock seconds for one run of a task's tests.
    """

    name: str = "pairs"
    path: str = field(default="???", metadata={"verdict": False})  # the content is pinned by its hash
    buggy: str = field(default="buggy", metadata={"verdict": False})
    correct: str = field(default="correct", metadata={"verdict": False})
    tests: str = field(default="tests", metadata={"verdict": False})
    visible: int = 1
    sha256: str | None = None
    timeout_s: float = 10.0

    def pins(self) -> Mapping[str, JSON]:
        return {"dataset_revision": None, "dataset_hash": _hash(self._pairs)}

    def task_ids(self) -> Sequence[str]:
        return tuple(self._pairs)

    def task(self, task_id: str) -> Task:
        pair = self._find(task_id)
        statement = f"Write the function `{pair.entry_point}` in `{SOLUTION}`.\n"
        public = {SOLUTION: b"# to be written\n"}
        if not self.visible or not pair.cases:
            return Task(task_id, statement, public, CaptureSpec((SOLUTION,)))
        check = _CHECK.format(cases=list(pair.cases[: self.visible]))
        public[VISIBLE] = _VISIBLE.format(entry=pair.entry_point, check=check).encode()
        return Task(task_id, statement, public, CaptureSpec((SOLUTION,)), ("{python}", "-B", VISIBLE), (VISIBLE,))

    def solutions(self, task_id: str) -> Solutions:
        pair = self._find(task_id)
        return Solutions({SOLUTION: pair.correct}, (KnownBad("the pair's bug", {SOLUTION: pair.buggy}),))

    def scanner(self, task_id: str) -> HeldOutScanner:
        return HeldOutScanner(self._held_out(self._find(task_id)), self.task(task_id).public)

    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob:
        pair = self._find(task_id)
        return OracleJob(
            task_id, submission, self._held_out(pair), "check",
            {"module": "solution", "entry_point": pair.entry_point}, ("check",), timeout_s=self.timeout_s,
        )  # fmt: skip

    def _held_out(self, pair: Pair) -> dict[str, bytes]:
        return {"check_pair.py": pair.check.encode()}

    def _find(self, task_id: str) -> Pair:
        return find(self._pairs, task_id, self.name)

    @cached_property
    def _pairs(self) -> Mapping[str, Pair]:
        place = Path(self.path).expanduser()
        pairs = list(self._of_directory(place) if place.is_dir() else _of_lines(place))
        if not pairs:
            raise ConfigError(f"{place} holds no pair with tests: see task.buggy, task.correct and task.tests")
        found = {p.name: p for p in pairs}
        if self.sha256 is not None and _hash(found) != self.sha256:
            raise Drift(f"{place}: the pairs hash to {_hash(found)}, but {self.sha256} is pinned (task.sha256)")
        if len(found) < len(pairs):
            raise ConfigError(f"{place}: an id stands twice")
        return found

    def _of_directory(self, place: Path) -> Iterator[Pair]:
        for part in (self.buggy, self.correct, self.tests):
            if not (place / part).is_dir():
                raise ConfigError(f"{place} has no directory '{part}': set task.buggy, task.correct, task.tests")
        for buggy in sorted((place / self.buggy).glob("*.py")):
            correct = place / self.correct / buggy.name
            tests = _tests_of(place / self.tests, buggy.stem)
            if correct.is_file() and tests is not None:
                yield _pair(buggy.stem, buggy.stem, buggy.read_bytes(), correct.read_bytes(), tests, str(buggy))


def _hash(pairs: Mapping[str, Pair]) -> str:
    return digest([[p.name, p.entry_point, p.buggy.hex(), p.correct.hex(), p.check] for p in pairs.values()])


def _tests_of(place: Path, stem: str) -> Any:
    """A list of cases, the source of a module, or None."""
    for name in (f"{stem}.json", f"{stem}.jsonl"):
        if (place / name).is_file():
            return [c for _, c in _json_lines(place / name)]
    if (place / f"{stem}.py").is_file():
        return _text(place / f"{stem}.py")
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{path}:{number}: not JSON: {error}") from None


def _of_lines(place: Path) -> Iterator[Pair]:
    for number, record in records(read_content(place), str(place)):
        where = f"{place}, line {number}"
        name, buggy, correct = (text_field(record, key, str(place), number) for key in ("id", "buggy", "correct"))
        entry = text_field({"entry_point": name, **record}, "entry_point", str(place), number)
        tests = record.get("tests")
        if isinstance(tests, str):
            tests = text_field(record, "tests", str(place), number)
        yield _pair(name, entry, buggy.encode(), correct.encode(), tests, where)


def _cases(tests: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(tests, list) or not tests or not all(isinstance(t, list) and len(t) == 2 for t in tests):
        raise ConfigError(f"{where}: tests must be pairs of [arguments, expected], or a module with check(candidate)")
    try:
        json.dumps(tests, allow_nan=False)
    except ValueError:
        raise ConfigError(f"{where}: a test has a number that is not finite, which no JSON value equals") from None
    return tuple((t[0] if isinstance(t[0], list) else [t[0]], t[1]) for t in tests)


def _pair(name: str, entry: str, buggy: bytes, correct: bytes, tests: Any, where: str) -> Pair:
    cases = () if isinstance(tests, str) else _cases(tests, where)
    check = tests if isinstance(tests, str) else _CHECK.format(cases=list(cases))
    for what, source in (("the correct program", correct), ("the tests", check.encode())):
        wanted = "check" if what == "the tests" else entry
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError) as error:
            raise ConfigError(f"{where}: {what}: not Python: {error}") from None
        if not any(isinstance(node, ast.FunctionDef) and node.name == wanted for node in tree.body):
            raise ConfigError(f"{where}: {what} of '{name}' does not define {wanted}()")
    return Pair(name, entry, buggy, correct, check, cases)
