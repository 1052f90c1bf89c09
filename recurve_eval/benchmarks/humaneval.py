"""HumanEval: 164 functions to complete, graded by each task's own ``check(candidate)``.

Source: Chen et al., "Evaluating Large Language Models Trained on Code", arXiv:2107.03374; the public
file of the openai/human-eval repository (MIT licence).

How a submission is graded. A submission is the whole of ``solution.py``. Upstream runs prompt,
completion and test in one namespace, so a function may use what the prompt gives before it (imports
and, in four tasks, helper functions) without repeating it. Here that part of the prompt, the *given*
part, runs first and the captured bytes run after it, unaltered, in the same module. What is graded is
the submission alone: a name that it defines replaces a given one, nothing of the function itself is
given, and without a captured ``solution.py`` there is nothing to import and the grading fails. The
held-out test likewise sees the given helpers (from the dataset, never from the submission) and, in the
one task whose test calls the function by its name, the candidate under that name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from recurve_eval.benchmarks import examples, loading
from recurve_eval.benchmarks.common import find, hollow_functions
from recurve_eval.benchmarks.completion import SOLUTION, composed, defines, given_part
from recurve_eval.benchmarks.source import Source
from recurve_eval.domain import JSON, CaptureSpec, OracleJob, Solutions, Submission, Task, digest
from recurve_eval.errors import ConfigError
from recurve_eval.leak import HeldOutScanner

VISIBLE = "test_visible.py"
FILE = "humaneval/HumanEval.jsonl.gz"
URL = "https://raw.githubusercontent.com/openai/human-eval/master/data/HumanEval.jsonl.gz"
SHA256 = "1d49078ba3e2b196b9344535bef34a43021f038fad9561d6ee7c53450609a6a2"

# Upstream's own example contradicts its canonical solution and its test: the median of
# [-10, 4, 6, 1000, 10, 20] is 8, and the docstring says 15. As a visible check it would reject good work.
WRONG_EXAMPLES = frozenset({"assert (median([-10, 4, 6, 1000, 10, 20])) == (15.0)"})

_BY_NAME = """

_check = check


def check(candidate):
    globals()[{entry!r}] = candidate
    _check(candidate)
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """One record of the dataset."""

    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str

    @property
    def given(self) -> str:
        """What the prompt holds before the function to complete: imports and helpers, or nothing."""
        return given_part(self.prompt, self.entry_point)

    @property
    def held_out(self) -> dict[str, bytes]:
        name = "check_" + re.sub(r"\W", "_", self.task_id).lower() + ".py"
        source = f"{self.given}\n\n{self.test}"
        if any(isinstance(n, ast.Name) and n.id == self.entry_point for n in ast.walk(ast.parse(self.test))):
            source += _BY_NAME.format(entry=self.entry_point)
        return {name: source.encode()}


@dataclass
class HumanEval:
    """The 164 HumanEval tasks.

    Attributes
    ----------
    name : str
        The benchmark's name in plans and rows.
    path : str, optional
        The dataset, as JSONL or JSONL.gz. ``None`` takes ``$RECURVE_DATA/humaneval/HumanEval.jsonl.gz``,
        else the copy in the user's cache, else downloads ``url`` into that cache.
    url : str, optional
        Where to download from; ``None`` never downloads.
    sha256 : str, optional
        SHA-256 (hex) of the decompressed dataset; ``None`` accepts any.
    count : int
        How many tasks the dataset has.
    revision : str
        What this version of the dataset is called in rows.
    visible_tests : str, optional
        JSONL or JSONL.gz with ``task_id`` and ``visible_tests`` (assert statements). Tasks that it does
        not cover use the ``>>>`` examples of their docstring; a task with neither has no visible check.
    download_timeout_s : float
        Seconds to wait for the server at each step of a download.
    timeout_s : float
        Wall-clock seconds for one run of a task's test.
    """

    name: str = "humaneval"
    path: str | None = field(default=None, metadata={"verdict": False})  # the content is pinned by its hash
    url: str | None = field(default=URL, metadata={"verdict": False})
    sha256: str | None = SHA256
    count: int = 164
    revision: str = "openai/human-eval@master (2021-07)"
    visible_tests: str | None = field(default=None, metadata={"verdict": False})  # so are the examples
    download_timeout_s: float = field(default=30.0, metadata={"verdict": False})
    timeout_s: float = 10.0

    def pins(self) -> Mapping[str, JSON]:
        return {
            "dataset_revision": self.revision,
            "dataset_hash": digest(
                {"tasks": self._source.sha256_found, "visible": examples.pinned(self.visible_examples)}
            ),
        }

    def task_ids(self) -> Sequence[str]:
        return tuple(self.problems)

    def task(self, task_id: str) -> Task:
        problem, visible = self._find(task_id), self.visible_examples[task_id]
        public = {SOLUTION: problem.prompt.encode()}
        if visible:
            public[VISIBLE] = examples.script(problem.given, visible)
        return Task(
            id=task_id,
            statement=_statement(problem, bool(visible)),
            public=public,
            capture=CaptureSpec((SOLUTION,)),
            visible_check=("{python}", "-B", VISIBLE) if visible else None,
            protected=(VISIBLE,) if visible else (),
        )

    def solutions(self, task_id: str) -> Solutions:
        problem = self._find(task_id)
        return Solutions(
            canonical={SOLUTION: (problem.prompt + problem.canonical_solution).encode()},
            known_bad=hollow_functions(SOLUTION, problem.entry_point),
        )

    def scanner(self, task_id: str) -> HeldOutScanner:
        return HeldOutScanner(self._find(task_id).held_out, self.task(task_id).public)

    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob:
        problem = self._find(task_id)
        return OracleJob(
            task_id=task_id,
            submission=submission,
            held_out=problem.held_out,
            convention="check",
            params={"module": "solution", "entry_point": problem.entry_point},
            expected=("check",),
            support=composed(problem.given, submission),
            timeout_s=self.timeout_s,
        )

    def _find(self, task_id: str) -> Problem:
        return find(self.problems, task_id, self.name)

    @cached_property
    def problems(self) -> Mapping[str, Problem]:
        """Every record by task id. Raises ConfigError on a malformed dataset, Drift on another one."""
        found = _read(self._source.content, str(self._source.place))
        self._source.check_count(len(found), self.count)
        return found

    @cached_property
    def visible_examples(self) -> Mapping[str, tuple[str, ...]]:
        """The visible examples of every task, perhaps none."""
        recorded: dict[str, tuple[str, ...]] = {}
        if self.visible_tests:
            path = Path(self.visible_tests).expanduser()
            recorded = examples.from_records(loading.read_content(path), str(path))
        return {
            task_id: recorded.get(task_id)
            or tuple(e for e in examples.from_docstring(p.prompt, p.entry_point) if e not in WRONG_EXAMPLES)
            for task_id, p in self.problems.items()
        }

    @cached_property
    def _source(self) -> Source:
        return Source("HumanEval", FILE, self.path, self.url, self.sha256, self.download_timeout_s)


def _read(content: bytes, source: str) -> dict[str, Problem]:
    found: dict[str, Problem] = {}
    for line, record in loading.records(content, source):
        keys = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
        problem = Problem(**{key: loading.text_field(record, key, source, line) for key in keys})
        if problem.task_id in found:
            raise ConfigError(f"{source}, line {line}: task_id '{problem.task_id}' is already that of an earlier line")
        if not defines(problem.prompt, problem.entry_point):
            raise ConfigError(f"{source}, line {line}: 'prompt' does not define entry_point '{problem.entry_point}'")
        for key, text in (("prompt", problem.prompt), ("test", problem.test)):
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError) as error:
                raise ConfigError(f"{source}, line {line}: '{key}' is not Python: {error}") from None
        if not any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body):
            raise ConfigError(f"{source}, line {line}: 'test' does not define check(candidate)")
        found[problem.task_id] = problem
    return found


def _statement(problem: Problem, visible: bool) -> str:
    check = f" `python {VISIBLE}` runs the visible examples." if visible else ""
    return (
        f"Complete the Python function `{problem.entry_point}` below.\n\n"
        f"Write the whole function, with everything it needs, to `{SOLUTION}` in the current directory; that file "
        f"already holds the text below as a start.{check} Your work is judged by other tests, which import "
        f"`{problem.entry_point}` from `{SOLUTION}`. Use the standard library only.\n\n"
        f"```python\n{problem.prompt.rstrip()}\n```\n"
    )
