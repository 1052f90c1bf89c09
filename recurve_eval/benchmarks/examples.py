"""Visible examples as assert statements, and the script that runs them against a workspace."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Mapping, Sequence

from recurve_eval.benchmarks.loading import records, text_field
from recurve_eval.errors import ConfigError

_SCRIPT = '''"""The task's visible examples. Exit 0 when all hold; else 1, with one line for the first that does not."""

import sys

# What the task gives before the function: it precedes solution.py here exactly as it does in grading.
GIVEN = {given!r}

EXAMPLES = {examples}


def main():
    scope = {{"__name__": "solution"}}
    try:
        exec(GIVEN, scope)
        with open("solution.py", "rb") as file:
            exec(compile(file.read(), "solution.py", "exec", dont_inherit=True), scope)
    except BaseException as error:
        return report("solution.py does not run", error)
    for example in EXAMPLES:
        try:
            exec(example, scope)
        except BaseException as error:
            return report(example, error)
    print(f"GREEN: {{len(EXAMPLES)}} examples hold")
    return 0


def report(what, error):
    detail = f" ({{type(error).__name__}}: {{error}})" if str(error) else f" ({{type(error).__name__}})"
    print("RED:", " ".join((what + detail).split()))
    return 1


if __name__ == "__main__":
    sys.exit(main())
'''


def script(given: str, examples: Sequence[str]) -> bytes:
    """``test_visible.py``: runs ``given``, then solution.py, then each example, in one namespace."""
    listed = "[\n" + "".join(f"    {example!r},\n" for example in examples) + "]"
    return _SCRIPT.format(given=given, examples=listed).encode()


_SUITE = '''"""The task's visible tests. Exit 0 when all hold; else 1, with one line for the first that does not."""

import sys
import traceback

# What the task gives before the function: it precedes solution.py here exactly as it does in grading.
GIVEN = {given!r}

TESTS = {tests}


def main():
    scope = {{"__name__": "solution"}}
    try:
        exec(GIVEN, scope)
        with open("solution.py", "rb") as file:
            exec(compile(file.read(), "solution.py", "exec", dont_inherit=True), scope)
    except BaseException as error:
        return report("solution.py does not run", error)
    text = "\\n".join(TESTS)
    try:
        exec(compile(text, "visible tests", "exec", dont_inherit=True), scope)
    except BaseException as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == "visible tests"]
        return report(TESTS[frames[-1].lineno - 1] if frames else "the visible tests", error)
    print("GREEN: the visible tests hold")
    return 0


def report(what, error):
    detail = f" ({{type(error).__name__}}: {{error}})" if str(error) else f" ({{type(error).__name__}})"
    print("RED:", " ".join((what + detail).split()))
    return 1


if __name__ == "__main__":
    sys.exit(main())
'''


def suite_script(given: str, suite: str, entry_point: str) -> bytes:
    """``test_visible.py``: runs ``given``, then solution.py, then a suite of asserts or a ``check(candidate)``."""
    defined = {node.name for node in ast.parse(suite).body if isinstance(node, ast.FunctionDef)}
    call = [f"check({entry_point})"] if "check" in defined else []
    listed = "[\n" + "".join(f"    {line!r},\n" for line in [*suite.strip("\n").split("\n"), *call]) + "]"
    return _SUITE.format(given=given, tests=listed).encode()


def from_prompt(prompt: str, entry_point: str) -> tuple[str, ...]:
    """The examples of a prompt: of the function's docstring, or the assert lines of a prompt without a function."""
    tree = ast.parse(prompt)
    if any(isinstance(node, ast.FunctionDef) and node.name == entry_point for node in tree.body):
        return from_docstring(prompt, entry_point)
    return tuple(line.strip() for line in (ast.get_docstring(tree) or "").splitlines() if _is_assert(line.strip()))


def from_docstring(prompt: str, entry_point: str) -> tuple[str, ...]:
    """The ``>>>`` examples of a function's docstring, as asserts; empty where there is none to use.

    An example counts when its source is one expression and its wanted output a Python literal; a
    docstring that doctest cannot parse has none.
    """
    functions = [n for n in ast.parse(prompt).body if isinstance(n, ast.FunctionDef) and n.name == entry_point]
    text = ast.get_docstring(functions[-1]) if functions else None
    try:
        found = doctest.DocTestParser().get_examples(text or "")
    except ValueError:
        return ()
    return tuple(line for example in found if (line := _as_assert(example)) is not None)


def _as_assert(example: doctest.Example) -> str | None:
    try:
        call = ast.unparse(ast.parse(example.source.strip(), mode="eval"))
        want = ast.literal_eval(example.want.strip())
    except (SyntaxError, ValueError):
        return None
    return f"assert ({call}) == ({want!r})"


def from_records(content: bytes, source: str) -> dict[str, tuple[str, ...]]:
    """Task id to examples, from JSON Lines with ``task_id`` and ``visible_tests`` (a list of asserts).

    Records without ``visible_tests`` say nothing. Several records of one task must agree.

    Raises
    ------
    ConfigError
        A malformed record, an example that is not one assert statement, or two records that disagree.
    """
    found: dict[str, tuple[str, ...]] = {}
    for line, record in records(content, source):
        tests = record.get("visible_tests")
        if tests is None:
            continue
        task_id = text_field(record, "task_id", source, line)
        if not isinstance(tests, list) or not all(_is_assert(test) for test in tests):
            raise ConfigError(f"{source}, line {line}: 'visible_tests' must be a list of assert statements")
        if found.setdefault(task_id, tuple(tests)) != tuple(tests):
            raise ConfigError(f"{source}, line {line}: task {task_id} has other visible_tests than in an earlier line")
    return found


def _is_assert(test: object) -> bool:
    try:
        body = ast.parse(test).body if isinstance(test, str) else []
    except (SyntaxError, ValueError):
        return False
    return len(body) == 1 and isinstance(body[0], ast.Assert)


def pinned(examples: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The examples as plain JSON, for the dataset's hash: equal examples hash alike, whatever their source."""
    return {task_id: list(tests) for task_id, tests in sorted(examples.items())}
