"""The ``namespace`` convention: solution and tests in one namespace, as some benchmarks define their tests.

The held-out module runs inside the submission's own module, so its tests may use what the submission
imports and patch what it defines. Ids are ``Class.test_x``, of the one class that ``params["case"]``
names; ``params["libraries"]`` are the modules without which nobody's solution could run, ``params["given"]``
a file beside the submission that must run before it.

What the tests bound in that namespace is compared around each test; a submission that puts a forgery
there and takes it away in time is not seen. That is the price of one namespace.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import os
import sys
import types
import unittest
from typing import Any, Callable

from .conventions import CANARIES, HarnessFault, MustFail, Result, Stage
from .heldout import Methods, below
from .loading import describe

_AT_CLASS_LEVEL = ("setUpClass", "tearDownClass")


def run_namespace(stage: Stage, load_submission: Callable[[], Any]) -> None:
    stems = sorted(stage.held.code())
    if len(stems) != 1:
        raise HarnessFault("the namespace convention takes one held-out module, not %d" % len(stems))
    tree = ast.parse(stage.held.source(stems[0]))
    _demand(stage.params.get("libraries", ()))
    _rehearse(stage.params.get("given"))
    _settle()
    module = load_submission()
    own = _Own(tree, module)
    _accuse(stage, own.shadowed())
    # Threads of the submission get no turn, unless the tests wait for something, before they are remembered.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    stage.held.exec_module(module, stems[0])
    case = getattr(module, stage.params["case"])
    own.remember(case)
    tests = list(unittest.TestLoader().loadTestsFromTestCase(case))
    for test in tests:  # whatever becomes of the class, these methods are what runs
        setattr(test, test._testMethodName, getattr(test, test._testMethodName))
    sys.setswitchinterval(interval)
    watched = stage._replace(changed=lambda: stage.changed() or own.changed())
    unittest.TestSuite(_with_canaries(case, tests)).run(Result(watched))


def _demand(libraries: list[str]) -> None:
    """A grader without a library would fail every solution; that is no verdict on any of them."""
    missing = [name for name in libraries if name not in sys.modules and importlib.util.find_spec(name) is None]
    if missing:
        raise HarnessFault("this oracle lacks what the task imports: %s" % ", ".join(missing))


def _rehearse(given: str | None) -> None:
    """What the task itself gives must run here, before it is run with a submission: data may be missing too."""
    if given is None:
        return
    try:
        with open(given, "rb") as file:
            exec(compile(file.read(), given, "exec", dont_inherit=True), {"__name__": "given"})
    except BaseException as error:
        raise HarnessFault("what the task gives does not run on this oracle: " + describe(error)) from None


def _settle() -> None:
    """An empty working directory, and draws of this grading's own where a forked generator would repeat another's."""
    place = "run"
    while os.path.lexists(place):  # a submission's
        place += "_"
    os.mkdir(place, 0o700)
    os.chdir(place)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _accuse(stage: Stage, what: str | None) -> None:
    if what:
        stage.channel.tell("tamper", what=what)


class _Own:
    """What is the tests' own in a namespace that they share."""

    def __init__(self, tree: ast.Module, module: types.ModuleType) -> None:
        self._module, self._names = module, vars(module)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        self._builtins = {name for name in used & set(vars(builtins)) if not name.startswith("__")}
        declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
        self._bound = {name for node in tree.body for name in _binds(node)} - declared
        self._held: dict[str, Any] = {}
        self._methods: Methods | None = None

    def remember(self, case: Any) -> None:
        self._held = {name: self._names[name] for name in self._bound if name in self._names}
        self._methods = Methods(case)

    def changed(self) -> str | None:
        for name, value in self._held.items():
            if self._names.get(name) is not value:
                return "%s of the tests was replaced" % name
        if self._methods is not None and self._methods.altered():
            return "the test class was altered"
        return self.shadowed()

    def shadowed(self) -> str | None:
        """A submission may not decide what built-in names mean to the tests."""
        if self._names.get("__builtins__") not in (builtins, vars(builtins)):
            return "the namespace's builtins were replaced"
        for name in sorted(self._builtins & set(self._names) - self._bound):
            if not _of_a_library(name, self._names[name], self._module):
                return "the built-in %s of the tests was replaced" % name
        return None


def _binds(node: ast.stmt) -> list[str]:
    """Names that a statement at the top of a module binds."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _of_a_library(name: str, value: Any, submission: types.ModuleType) -> bool:
    """``from numpy import *`` replaces ``sum``, and means no harm."""
    if value is vars(builtins)[name]:
        return True
    home = sys.modules.get(str(getattr(value, "__module__", "")))
    return home is not None and home is not submission and vars(home).get(name) is value


def _with_canaries(case: Any, tests: list[Any]) -> list[Any]:
    """Between the tests, unless something is set up for all of them together."""
    plain = all(getattr(case, name).__func__ is getattr(unittest.TestCase, name).__func__ for name in _AT_CLASS_LEVEL)
    suites: list[Any] = list(tests) if plain else [unittest.TestSuite(tests)]
    for name in CANARIES:
        suites.insert(below(len(suites) + 1), MustFail(name))
    return suites
