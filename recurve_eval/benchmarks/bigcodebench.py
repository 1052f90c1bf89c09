"""BigCodeBench: functions that call many libraries, graded by unittest in the solution's own namespace.

Source: Zhuo et al., "BigCodeBench: Benchmarking Code Generation with Diverse Function Calls and Complex
Instructions", arXiv:2406.15877 (Apache-2.0), records of version 0.1.0.

How a submission is graded. A submission is the whole of ``solution.py``. The official harness puts
``code_prompt`` (the imports and the signature), a body of ``pass``, the solution and the tests into one
module, so a solution may lean on the prompt's imports, and on those of the tests. The same is done here:
the given part runs first, the captured bytes after it, the tests last, all in the module ``solution``.
Tests that share a namespace with what they judge can be forged by a sufficiently clever submission; rows
say so (``attestation.candidate`` is ``shared``).
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from recurve_eval.benchmarks import loading
from recurve_eval.benchmarks.common import check_timeouts, find, hollow_functions
from recurve_eval.benchmarks.source import Source
from recurve_eval.domain import JSON, CaptureSpec, OracleJob, Solutions, Submission, Task, digest
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.leak import HeldOutScanner

SOLUTION = "solution.py"
SUBMITTED = "submitted_solution.py"
GIVEN = "given_part.py"
CASE = "TestCases"
FILE = "bigcodebench/BigCodeBench.hf_data.jsonl.gz"
SHA256 = "33baf4f414eb34507f1a8fd55ef9bcd79c1f9b4c3e8e2544f023edac1b20afec"
PROMPTS = ("instruct", "complete")
FIELDS = ("task_id", "complete_prompt", "instruct_prompt", "canonical_solution", "code_prompt", "test", "entry_point")

# A body-only solution does not compile by itself; it continues the given function, as it does officially.
_LOADER = f"""
def _load(scope):
    import os
    import sys

    scope.pop("_load")
    scope.update(sys=sys, os=os, environ=os.environ)  # names that the official harness provides
    here = os.path.dirname(os.path.abspath(scope["__file__"]))

    def read(name):
        with open(os.path.join(here, name), "rb") as file:
            return file.read()

    given, submitted = read({GIVEN!r}), read({SUBMITTED!r})
    exec(compile(given, {GIVEN!r}, "exec", dont_inherit=True), scope)
    try:
        code = compile(submitted, {SOLUTION!r}, "exec", dont_inherit=True)
    except SyntaxError as error:
        try:
            code = compile(given + submitted.removeprefix(b"\\xef\\xbb\\xbf"), {SOLUTION!r}, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            raise error from None
    exec(code, scope)


_load(globals())
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """One record of the dataset. ``tests`` are the ids of its tests, ``libraries`` what they cannot run without."""

    task_id: str
    complete_prompt: str
    instruct_prompt: str
    canonical_solution: str
    code_prompt: str
    test: str
    entry_point: str
    tests: tuple[str, ...]
    libraries: tuple[str, ...]

    @property
    def given(self) -> str:
        return self.code_prompt + "\n    pass\n"

    @property
    def held_out(self) -> dict[str, bytes]:
        return {f"test_{self.task_id.lower().replace('/', '_')}.py": self.test.encode()}


@dataclass
class BigCodeBench:
    """The 1,140 tasks of BigCodeBench, or a named part of them.

    Attributes
    ----------
    name : str
        The benchmark's name in plans and rows.
    path : str, optional
        The dataset, as JSONL or JSONL.gz. ``None`` takes ``$RECURVE_DATA/bigcodebench/BigCodeBench.hf_data.jsonl.gz``,
        else ``url`` by way of the user's cache.
    url : str, optional
        ``http(s)://``, ``file://`` or ``hf://datasets/OWNER/NAME@REVISION/FILE``; ``None`` never downloads.
    sha256 : str, optional
        SHA-256 (hex) of the decompressed dataset; ``None`` accepts any.
    ids : str, optional
        JSON list of the task ids that make up this benchmark; a relative path is looked for below
        ``$RECURVE_DATA`` first. ``None`` takes all.
    ids_sha256 : str, optional
        SHA-256 (hex) of that file; ``None`` accepts any.
    count : int
        How many tasks this benchmark has.
    revision : str
        What this version of the dataset is called in rows.
    prompt : str
        What the agent is asked, not what is graded: ``instruct`` (prose) or ``complete`` (signature and docstring).
    preload : list of str
        Libraries that a warm grader imports once for all gradings; they must be in its image.
    download_timeout_s : float
        Seconds to wait for the server at each step of a download.
    timeout_s : float
        Wall-clock seconds for one run of a task's tests.
    timeouts_s : dict of str to float
        The same for tasks that need another limit.
    """

    name: str = "bigcodebench"
    path: str | None = field(default=None, metadata={"verdict": False})  # the content is pinned by its hash
    url: str | None = field(default=None, metadata={"verdict": False})
    sha256: str | None = SHA256
    ids: str | None = field(default=None, metadata={"verdict": False})
    ids_sha256: str | None = None
    count: int = 1140
    revision: str = "bigcodebench v0.1.0_hf"
    prompt: str = "instruct"
    preload: list[str] = field(default_factory=list)
    download_timeout_s: float = field(default=30.0, metadata={"verdict": False})
    timeout_s: float = 120.0
    timeouts_s: dict[str, float] = field(default_factory=dict)

    def pins(self) -> Mapping[str, JSON]:
        part = {"tasks": self._source.sha256_found, "ids": list(self.problems) if self.ids else None}
        return {"dataset_revision": self.revision, "dataset_hash": digest(part)}

    def task_ids(self) -> Sequence[str]:
        return tuple(self.problems)

    def task(self, task_id: str) -> Task:
        problem = self._find(task_id)
        start = problem.complete_prompt if self.prompt == "complete" else problem.code_prompt
        return Task(
            id=task_id,
            statement=_statement(problem, self.prompt),
            public={SOLUTION: start.encode()},
            capture=CaptureSpec((SOLUTION,)),
        )

    def solutions(self, task_id: str) -> Solutions:
        problem = self._find(task_id)
        canonical = f"{problem.complete_prompt}\n{problem.canonical_solution}\n"
        return Solutions(
            canonical={SOLUTION: canonical.encode()},
            known_bad=hollow_functions(SOLUTION, problem.entry_point),
        )

    def scanner(self, task_id: str) -> HeldOutScanner:
        task = self.task(task_id)
        return HeldOutScanner(self._find(task_id).held_out, {**task.public, "statement": task.statement.encode()})

    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob:
        problem = self._find(task_id)
        captured = submission.contents.get(SOLUTION)
        params: dict[str, JSON] = {"module": "solution", "case": CASE, "libraries": list(problem.libraries)}
        support = {}
        if captured is not None:
            params["given"] = GIVEN
            support = {SOLUTION: _LOADER.encode(), GIVEN: problem.given.encode(), SUBMITTED: captured}
        return OracleJob(
            task_id=task_id,
            submission=submission,
            held_out=problem.held_out,
            convention="namespace",
            params=params,
            expected=problem.tests,
            support=support,
            preload=tuple(self.preload),
            timeout_s=self.timeouts_s.get(task_id, self.timeout_s),
        )

    def _find(self, task_id: str) -> Problem:
        return find(self.problems, task_id, self.name)

    @cached_property
    def problems(self) -> Mapping[str, Problem]:
        """Every record by task id. Raises ConfigError on a malformed dataset, Drift on another one."""
        if self.prompt not in PROMPTS:
            raise UnknownName("prompt", self.prompt, PROMPTS, f"task.prompt of {self.name}")
        place = str(self._source.place)
        records = _records(self._source.content, place)
        check_timeouts(self.timeouts_s, records, self.name)
        chosen = self._chosen(records) if self.ids else list(records)
        self._source.check_count(len(chosen), self.count)
        return {task_id: _problem(*records[task_id], place) for task_id in chosen}

    def _chosen(self, known: Mapping[str, object]) -> list[str]:
        """The ids of this part, in the order of its list."""
        assert self.ids is not None
        place = loading.data_file(self.ids) or self.ids
        source = Source(f"{self.name} id list", self.ids, str(place), None, self.ids_sha256)
        try:
            listed = json.loads(source.content)
        except ValueError as error:
            raise ConfigError(f"{place}: not JSON: {error}") from None
        if not isinstance(listed, list) or not all(isinstance(task_id, str) for task_id in listed):
            raise ConfigError(f"{place}: expected a JSON list of task ids")
        if len(set(listed)) != len(listed):
            raise ConfigError(f"{place}: a task id stands twice")
        for task_id in listed:
            if task_id not in known:
                raise UnknownName("task", task_id, list(known)[:40], str(place))
        return listed

    @cached_property
    def _source(self) -> Source:
        return Source("BigCodeBench", FILE, self.path, self.url, self.sha256, self.download_timeout_s)


def _records(content: bytes, source: str) -> dict[str, tuple[int, dict[str, str]]]:
    """Line number and fields of every record, by task id."""
    found: dict[str, tuple[int, dict[str, str]]] = {}
    for line, record in loading.records(content, source):
        texts = {key: loading.text_field(record, key, source, line) for key in FIELDS}
        if texts["task_id"] in found:
            raise ConfigError(f"{source}, line {line}: task_id '{texts['task_id']}' is already that of an earlier line")
        found[texts["task_id"]] = (line, texts)
    return found


def _problem(line: int, texts: dict[str, str], source: str) -> Problem:
    where = f"{source}, line {line}"
    given = loading.python(texts["code_prompt"] + "\n    pass\n", f"{where}: 'code_prompt'")
    test = loading.python(texts["test"], f"{where}: 'test'")
    if not any(isinstance(n, ast.FunctionDef) and n.name == texts["entry_point"] for n in given.body):
        raise ConfigError(f"{where}: 'code_prompt' does not define entry_point '{texts['entry_point']}'")
    tests = tuple(_test_ids(test))
    if not tests:
        raise ConfigError(f"{where}: 'test' defines no test methods in a class {CASE}")
    libraries = tuple(sorted({*_imports(given), *_imports(test)} - sys.stdlib_module_names))
    return Problem(**texts, tests=tests, libraries=libraries)


def _test_ids(test: ast.Module) -> Iterator[str]:
    """Ids of the tests of the one class that counts, each once: of two methods with one name the last is the test."""
    for node in test.body:
        if isinstance(node, ast.ClassDef) and node.name == CASE:
            names = [m.name for m in node.body if isinstance(m, ast.FunctionDef) and m.name.startswith("test")]
            yield from (f"{CASE}.{name}" for name in dict.fromkeys(names))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _statement(problem: Problem, prompt: str) -> str:
    libraries = f" Of libraries, {', '.join(problem.libraries)} can be imported." if problem.libraries else ""
    where = (
        f"Write the whole program, imports included, to `{SOLUTION}` in the current directory; that file already holds "
        f"its beginning. Your work is judged by tests that call `{problem.entry_point}`, without a network."
        f"{libraries}\n"
    )
    if prompt == "complete":
        return f"Complete the Python function below.\n\n{where}\n```python\n{problem.complete_prompt.rstrip()}\n```\n"
    return f"{problem.instruct_prompt.rstrip()}\n\n{where}"
