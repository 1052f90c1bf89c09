"""A directory of many trivial tasks, for measuring the harness and not the work."""

from __future__ import annotations

from pathlib import Path

SHEET = """schema: 1
id: {name}
title: A constant
module: solution
capture: [solution.py]
faults: [off_by_one]
statement: |
  Write x = 1 in solution.py. This is task {name}.
"""
HELD_OUT = """import unittest
from solution import x


class Test(unittest.TestCase):
    def test_x(self):
        self.assertEqual(x, 1)
"""


def write_tasks(root: Path, count: int) -> Path:
    """``count`` task directories below ``root``."""
    for number in range(count):
        task = root / f"t{number:05d}"
        for part, name, text in (
            ("public", "README.md", "Write x = 1.\n"),
            ("held_out", "test_held_out.py", HELD_OUT),
            ("solution", "solution.py", "x = 1\n"),
            ("known_bad/off_by_one", "solution.py", "x = 2\n"),
        ):
            (task / part).mkdir(parents=True)
            (task / part / name).write_text(text, encoding="utf-8")
        (task / "task.yaml").write_text(SHEET.format(name=task.name), encoding="utf-8")
    return root
