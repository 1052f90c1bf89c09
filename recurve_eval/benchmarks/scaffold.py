"""The files of a new task directory: a small task that is whole, to be rewritten piece by piece."""

from __future__ import annotations

import re
from pathlib import Path

from recurve_eval.commands import command
from recurve_eval.errors import ConfigError, Refused

_SHEET = """\
schema: 1
id: {id}
title: Round a price up to a step
module: solution # the held-out tests import it
entry_point: round_price
capture: [solution.py] # what the submission is
timeout_s: 10.0 # seconds for one run of the held-out tests
difficulty: easy # easy, medium, hard
tags: [example]
faults: [hard_coded, rounds_down] # each a directory in known_bad/
statement: |
  Write `round_price(cents, step)` in `solution.py`.

  Return the smallest multiple of `step` that is not below `cents`. Both are whole numbers of cents, `cents` is never
  negative. A `step` that is not positive raises `ValueError`.
"""
_STARTER = '''\
def round_price(cents, step):
    """The smallest multiple of step that is not below cents."""
    raise NotImplementedError
'''
_VISIBLE = """\
import unittest

from solution import round_price


class Examples(unittest.TestCase):
    def test_between_two_steps(self):
        self.assertEqual(round_price(101, 5), 105)


if __name__ == "__main__":
    unittest.main()
"""
_HELD_OUT = """\
# Only the oracle reads this. It may check nothing that the statement does not say.
import unittest

from solution import round_price


class Rounding(unittest.TestCase):
    def test_between_two_steps(self):
        self.assertEqual(round_price(102, 5), 105)
        self.assertEqual(round_price(1, 25), 25)

    def test_on_a_step(self):
        self.assertEqual(round_price(100, 5), 100)

    def test_nothing_to_pay(self):
        self.assertEqual(round_price(0, 5), 0)

    def test_amounts_beyond_the_precision_of_a_float(self):
        self.assertEqual(round_price(10**18 + 1, 10), 10**18 + 10)


class Steps(unittest.TestCase):
    def test_a_step_must_be_positive(self):
        for step in (0, -5):
            with self.assertRaises(ValueError):
                round_price(100, step)


if __name__ == "__main__":
    unittest.main()
"""
_SOLUTION = '''\
def round_price(cents, step):
    """The smallest multiple of step that is not below cents."""
    if step <= 0:
        raise ValueError(f"step must be positive, got {step}")
    return -(-cents // step) * step
'''
_HARD_CODED = '''\
def round_price(cents, step):
    """The smallest multiple of step that is not below cents."""
    return 105
'''
_DOWN = '''\
def round_price(cents, step):
    """The smallest multiple of step that is not below cents."""
    if step <= 0:
        raise ValueError(f"step must be positive, got {step}")
    return cents // step * step
'''
_README = """\
A task directory. Rewrite each part, then run: {check}

task.yaml       the statement and what is captured; it must say everything that held_out/ checks
public/         laid into the agent's workspace: a starter, visible tests (test_*.py), data
held_out/       unittest modules; only the oracle reads them
solution/       the canonical solution: it must pass
known_bad/      wrong solutions, one directory each, with why.txt for people: each must fail
"""


def scaffold(path: Path) -> list[Path]:
    """Write a new task directory, named as its task's id; the files written, sorted.

    Raises
    ------
    ConfigError
        The directory's name is no task id, or something that is no directory stands in the way.
    Refused
        The directory exists and is not empty.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", path.name):
        raise ConfigError(f"a task's name may hold letters, digits, '.', '_' and '-'; got {path.name!r}")
    files = {
        "README.md": _README.format(check=command("task", "check", path)),
        "task.yaml": _SHEET.format(id=path.name),
        "public/solution.py": _STARTER,
        "public/test_visible.py": _VISIBLE,
        "held_out/test_held_out.py": _HELD_OUT,
        "solution/solution.py": _SOLUTION,
        "known_bad/hard_coded/solution.py": _HARD_CODED,
        "known_bad/hard_coded/why.txt": "Answers the visible example by heart.\n",
        "known_bad/rounds_down/solution.py": _DOWN,
        "known_bad/rounds_down/why.txt": "Rounds to the step below.\n",
    }
    try:
        if path.is_dir() and any(path.iterdir()):
            raise Refused(f"{path} exists and is not empty: choose another name")
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text, encoding="utf-8")
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"{path}: a file stands in the way") from None
    return sorted(path / name for name in files)
