"""A tiny git repository with a past and a future, and SWE-bench rows over it, all written by the tests themselves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval.benchmarks.swebench import SweBench

ENV = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
CALC = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a + a\n"
FIXED = CALC.replace("a - b", "a + b  # the sum that the issue asks for")
TEST_HEAD = "import unittest\n\nfrom calc import add, double\n\n\nclass Calc(unittest.TestCase):\n"
TEST_DOUBLE = "    def test_double(self):\n        self.assertEqual(double(2), 4)\n"
TEST_ADD = "\n    def test_adds_two_numbers(self):\n        self.assertEqual(add(20, 22), 42)\n"
SETTINGS = """\
repositories:
  tiny/calc:
    runner: {runner}
    tree: sent
"""


def git(place: Path, *words: str) -> str:
    env = {**os.environ, **ENV}
    done = subprocess.run(["git", *words], cwd=place, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(place: Path, message: str, files: dict[str, str]) -> str:
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", message)
    return git(place, "rev-parse", "HEAD")


@dataclass
class Tiny:
    """Where everything lies, and how to open it."""

    root: Path
    base: str
    fix: str

    def copied(self, root: Path) -> Tiny:
        shutil.copytree(self.root, root)
        return Tiny(root, self.base, self.fix)

    def bench(self, **changes: Any) -> SweBench:
        return SweBench(**self.fields() | changes)

    def fields(self) -> dict[str, Any]:
        names = {"path": "rows.jsonl", "repos": "repos", "settings": "settings.yaml", "images": "images.json"}
        return {key: str(self.root / file) for key, file in names.items()} | {
            "sha256": None, "count": None, "revision": "tiny", "timeout_s": 20.0,
        }  # fmt: skip

    def overrides(self) -> list[str]:
        return ["task=swebench", *(f"task.{k}={'null' if v is None else v}" for k, v in self.fields().items())]


def make(root: Path, image: str = "sha256:" + "0" * 64, runner: str = "unittest") -> Tiny:
    """Instance 1 is a real one; instance 2 asks for what the base already does, so an empty patch passes it."""
    place = root / "repos" / "tiny__calc"
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    commit(place, "past", {"calc.py": "", "tests/__init__.py": ""})
    base = commit(
        place, "base", {
            "calc.py": CALC, "tests/test_calc.py": TEST_HEAD + TEST_DOUBLE, ".gitignore": "*.log\n",
            "tests/old.py": "OLD = 1\n",
        },
    )  # fmt: skip
    git(place, "rm", "-q", "tests/old.py")
    fix = commit(place, "the future fix", {"calc.py": FIXED, "tests/test_calc.py": TEST_HEAD + TEST_DOUBLE + TEST_ADD})
    git(place, "tag", "v9")
    patch = git(place, "diff", base, fix, "--", "calc.py") + "\n"
    test_patch = git(place, "diff", base, fix, "--", "tests") + "\n"
    row = {
        "instance_id": "tiny__calc-1", "repo": "tiny/calc", "base_commit": base, "patch": patch, "test_patch": test_patch,
        "problem_statement": "add(20, 22) gives -2", "hints_text": "maybe the operator?", "version": "1.0",
        "FAIL_TO_PASS": json.dumps([_id(runner, "test_adds_two_numbers")]),
        "PASS_TO_PASS": json.dumps([_id(runner, "test_double")]),
    }  # fmt: skip
    lax = TEST_HEAD + TEST_DOUBLE + "\n    def test_nothing_new_at_all(self):\n        self.assertEqual(double(3), 6)\n"
    commit(place, "lax tests", {"tests/test_calc.py": lax})
    other = row | {
        "instance_id": "tiny__calc-2", "FAIL_TO_PASS": json.dumps([_id(runner, "test_nothing_new_at_all")]),
        "test_patch": git(place, "diff", base, "HEAD", "--", "tests/test_calc.py") + "\n",
    }  # fmt: skip
    (root / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in (row, other)))
    (root / "settings.yaml").write_text(SETTINGS.format(runner=runner))
    (root / "images.json").write_text(json.dumps({r["instance_id"]: image for r in (row, other)}))
    return Tiny(root, base, fix)


def _id(runner: str, test: str) -> str:
    return f"tests/test_calc.py::Calc::{test}" if runner == "pytest" else f"{test} (tests.test_calc.Calc)"
