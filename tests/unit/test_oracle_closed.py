"""Tests after which their interpreter is as it was, told from those that might leave something behind."""

from __future__ import annotations

import ast
import gzip
import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "oracle"))
from runner.closed import is_closed

CLOSED = {
    "literals": "assert candidate([1, 2.5], 'x') == {'a': (1, None)}",
    "loops": "for i in range(3):\n        x = [i]\n        x[0] += 1\n        assert candidate(x) == sorted(x)",
    "imports": "import math, random, copy\n    assert abs(candidate(random.random()) - math.sin(0)) < 1e-6",
    "raises": "try:\n        candidate(1)\n    except ValueError as error:\n        assert str(error).startswith('x')",
    "typing": "from typing import List\n    y: List[int] = list(map(int, '12'))\n    assert y",
    "formatting": "assert candidate('{}'.format(3)) == f'{4:03d}'",
}
OPEN = {
    "an attribute of a module": "import math\n    math.pi = 3",
    "a deleted attribute": "import math\n    del math.pi",
    "a function's attribute": "candidate.x = 1",
    "another module": "import os\n    os.environ['A'] = '1'",
    "a module by another": "import typing\n    typing.sys.setrecursionlimit(99)",
    "a module by its package": "import collections.abc",
    "sys": "import sys\n    sys.setrecursionlimit(100)",
    "builtins": "__builtins__['sum'] = max",
    "setattr": "import math\n    setattr(math, 'pi', 3)",
    "setattr by another name": "s = setattr",
    "globals": "globals()['x'] = 1",
    "vars": "import math\n    vars(math)['pi'] = 3",
    "eval": "eval('1')",
    "open": "open('x')",
    "import by function": "__import__('os')",
    "dunder": "import math\n    math.__dict__['pi'] = 3",
    "a class": "class A:\n        pass",
    "a frame": "g = (i for i in [1])\n    g.gi_frame",
    "a traceback's frame": "try:\n        1 / 0\n    except ZeroDivisionError as e:\n        e.tb_frame",
    "in a function inside": "import math\n    def inner():\n        math.pi = 3\n    inner()",
    "in a lambda inside": "f = lambda: open('x')",
}


def compiled(body: str) -> bool:
    source = f"METADATA = {{'a': 1}}\ndef check(candidate):\n    {body}\n"
    ast.parse(source)
    return is_closed(compile(source, "held-out", "exec", dont_inherit=True))


@pytest.mark.parametrize("name", CLOSED)
def test_closed(name: str) -> None:
    assert compiled(CLOSED[name])


@pytest.mark.parametrize("name", OPEN)
def test_open(name: str) -> None:
    assert not compiled(OPEN[name])


def test_an_import_whose_name_takes_more_than_a_byte_to_number() -> None:
    names = "".join(f"x{i} = 1\n" for i in range(300))
    assert is_closed(compile(names + "import math\n", "x", "exec")) is False
    assert is_closed(compile(names, "x", "exec")) is True


def test_nearly_all_of_humaneval_is_closed() -> None:
    file = Path(os.environ.get("RECURVE_DATA", "../shared/data")) / "humaneval" / "HumanEval.jsonl.gz"
    if not file.is_file():
        pytest.skip(f"{file} is not here")
    with gzip.open(file, "rt") as lines:
        tests = [json.loads(line)["test"] for line in lines]
    closed = [is_closed(compile(test, "x", "exec", dont_inherit=True)) for test in tests]
    assert len(closed) == 164 and sum(closed) >= 160
