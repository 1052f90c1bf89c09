"""The ``namespace`` convention: solution and tests in one namespace, as some benchmarks define their tests.

The held-out module runs inside the submission's own module, so its tests may use what the submission
imports and patch what it defines. Ids are ``Class.test_x``, of the one class that ``params["case"]``
names; ``params["libraries"]`` are the modules without which nobody's solution could run.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import os
import sys
import types
import unittest
from typing import Any, Callable, Iterator

from .conventions import CANARIES, HarnessFault, MustFail, Result, Stage, dice


def run_namespace(stage: Stage, load_submission: Callable[[], Any]) -> None:
    stems = sorted(stage.held.code())
    if len(stems) != 1:
        raise HarnessFault("the namespace convention takes one held-out module, not %d" % len(stems))
    _demand(stage.params.get("libraries", ()))
    _settle()
    module = load_submission()
    _accuse(stage, module, stems[0])
    stage.held.exec_module(module, stems[0])
    case = getattr(module, stage.params["case"])
    unittest.TestSuite(_with_canaries(case)).run(Result(stage))


def _demand(libraries: list[str]) -> None:
    """A grader without a library would fail every solution; that is no verdict on any of them."""
    missing = [name for name in libraries if name not in sys.modules and importlib.util.find_spec(name) is None]
    if missing:
        raise HarnessFault("this oracle lacks what the task imports: %s" % ", ".join(missing))


def _settle() -> None:
    """An empty working directory, and draws of this grading's own where a forked generator would repeat another's."""
    os.mkdir("run", 0o700)
    os.chdir("run")
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _accuse(stage: Stage, module: types.ModuleType, stem: str) -> None:
    """The tests resolve names in the submission's namespace: it may not decide what built-in names mean to them."""
    names = vars(module)
    if names.get("__builtins__") not in (builtins, vars(builtins)):
        stage.channel.tell("tamper", what="the namespace's builtins were replaced")
    for name in sorted(_used(stage.held.source(stem)) & set(vars(builtins)) & set(names)):
        if not _of_a_library(name, names[name], module):
            stage.channel.tell("tamper", what="the built-in %s of the tests was replaced" % name)


def _used(source: bytes) -> set[str]:
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return {name for name in names if not name.startswith("__")}


def _of_a_library(name: str, value: Any, submission: types.ModuleType) -> bool:
    """``from numpy import *`` replaces ``sum``, and means no harm."""
    if value is vars(builtins)[name]:
        return True
    home = sys.modules.get(str(getattr(value, "__module__", "")))
    return home is not None and home is not submission and vars(home).get(name) is value


def _with_canaries(case: Any) -> list[Any]:
    suites: list[Any] = list(_split(case))
    for name in CANARIES:
        suites.insert(dice.randrange(len(suites) + 1), MustFail(name))
    return suites


def _split(case: Any) -> Iterator[Any]:
    """The tests one by one where nothing is set up for all of them together, else as one suite."""
    suite = unittest.TestLoader().loadTestsFromTestCase(case)
    shared = [getattr(case, name).__func__ for name in ("setUpClass", "tearDownClass")]
    plain = [getattr(unittest.TestCase, name).__func__ for name in ("setUpClass", "tearDownClass")]
    if shared == plain:
        yield from suite
    else:
        yield suite
