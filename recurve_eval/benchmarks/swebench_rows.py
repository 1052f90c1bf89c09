"""Rows of a SWE-bench dataset: what they hold, and what follows from one alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval.benchmarks import loading
from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError


@dataclass(frozen=True)
class Instance:
    """One row of the dataset."""

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    patch: str
    test_patch: str
    version: str
    hints_text: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @property
    def expected(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.fail_to_pass, *self.pass_to_pass]))


def row_of(record: dict[str, JSON], source: str, line: int) -> Instance:
    keys = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch")
    texts = {key: loading.text_field(record, key, source, line) for key in keys}
    where = f"{source}, line {line}"
    broken, kept = (_ids(record.get(key), f"{where}: '{key}'") for key in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    if not broken:
        raise ConfigError(f"{where}: FAIL_TO_PASS is empty: nothing would tell good work from none")
    more = {key: str(record.get(key) or "") for key in ("version", "hints_text")}
    return Instance(**texts, **more, fail_to_pass=broken, pass_to_pass=kept)


def _ids(value: Any, where: str) -> tuple[str, ...]:
    """Test ids, which the datasets give as a list or as the JSON text of one."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(item, str) and item for item in found):
        raise ConfigError(f"{where} must be a list of test ids, or its JSON")
    return tuple(found)


def test_files(row: Instance, held_out: Mapping[str, bytes]) -> list[str]:
    """The files that the ids name; where ids are bare function names, the Python files of the test patch."""
    named = sorted({test.partition("::")[0] for test in row.expected if "::" in test})
    helpers = ("conftest.py", "__init__.py")
    files = named or [p for p in sorted(held_out) if p.endswith(".py") and Path(p).name not in helpers]
    if not files:
        raise ConfigError(f"task {row.instance_id}: neither its ids nor its test patch name a Python test file")
    return files


def added(patch: str) -> bytes:
    lines = [line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++ ")]
    return "\n".join(lines).encode()


def statement_of(row: Instance, hints: bool) -> str:
    said = f"\n\n<comments>\n{row.hints_text.strip()}\n</comments>" if hints and row.hints_text.strip() else ""
    return (
        f"The current directory is a checkout of the repository {row.repo}. Resolve the issue below by changing its "
        "source files; change as little else as you can. Your work is judged by tests of the repository that you do "
        "not see, run after you have finished; your own changes to test files are not part of it. Edit files in "
        "place: whatever differs from the checkout is taken, committed or not.\n\n"
        f"<issue>\n{row.problem_statement.strip()}\n</issue>{said}\n"
    )
