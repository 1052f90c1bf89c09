"""For a process that the submission shares with its tests: what is watched, and what is not to be had.

The watched set is compared before and after each test by identity of every attribute and of every
function's code; a replaced one is tampering. An audit hook, which Python code cannot remove, denies
the submission's own code the ways to other frames, to the heap and to raw memory. Both raise the price
of a forgery; neither is a proof, which is what a candidate in its own process is for.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import time
import types
import unittest
import unittest.case
import unittest.loader
import unittest.result
import unittest.suite
import unittest.util
from typing import Any, Callable, Iterator

from .bindings import Bindings
from .bodies import Bodies
from .heldout import Wrong

_MODULES = (builtins, time, contextlib, unittest, unittest.util)
_OPTIONAL = ("numpy", "numpy.testing", "numpy.testing._private.utils", "numpy._core.numeric", "numpy.core.numeric",
             "pandas._testing", "pandas.testing")  # fmt: skip
_DENIED = frozenset({
    "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile", "sys.addaudithook",
    "gc.get_objects", "gc.get_referrers", "gc.get_referents", "cpython._PySys_ClearAuditHooks",
    "ctypes.dlopen", "ctypes.dlsym", "ctypes.string_at", "ctypes.cdata", "ctypes.call_function",
})  # fmt: skip
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
_WATCHED = _DENIED | {"sys._getframe", "object.__getattr__", "object.__setattr__", "object.__delattr__", "import",
                      "open", "os.listdir", "os.scandir"}  # fmt: skip
_INTERNALS = frozenset({"__code__", "__defaults__", "__kwdefaults__", "__bases__", "__class__"})
_GIVERS = frozenset({"currentframe", "stack", "trace", "getouterframes", "getinnerframes", "walk_stack", "walk_tb",
                     "getframeinfo", "_get_stack", "get_stack"})  # fmt: skip


# What nothing writes to while it is graded: the machinery between a test and its report.
_STILL = (unittest.case, unittest.suite, unittest.loader, unittest.result)


def _attributes(module: types.ModuleType) -> Iterator[tuple[Any, dict[str, Any]]]:
    names = dict(vars(module))
    yield module, {name: value for name, value in names.items() if callable(value)}
    kinds = [value for value in names.values() if isinstance(value, type) and value.__module__ == module.__name__]
    if module.__name__.startswith(_WITH_CLASSES):
        for value in kinds:
            yield value, {name: value for name, value in vars(value).items() if name not in _CHANGING}


_WITH_CLASSES = ("unittest", "runner.")


# What unittest itself sets on its classes, and anybody may: how much a message says.
_CHANGING = frozenset({"__doc__", "_classSetupFailed", "_class_cleanups", "_module_cleanups", "maxDiff", "longMessage"})


class Pristine:
    """A snapshot of what tests rest upon, taken before any submission is loaded.

    ``still`` modules, their classes too, are written to by nobody.
    """

    def __init__(self, modules: tuple[types.ModuleType, ...], still: tuple[types.ModuleType, ...]) -> None:
        for module in still:  # a warning would write this
            vars(module).setdefault("__warningregistry__", {})
        moving = [each for module in modules for each in _attributes(module)]
        unmoved = [each for module in still for each in _attributes(module)]
        # Classes of tests: unittest remembers in them what became of their set-up.
        tests = [each for each in unmoved if isinstance(each[0], type) and issubclass(each[0], unittest.TestCase)]
        unmoved = [each for each in unmoved if each not in tests]
        places = [*moving, *tests, *unmoved]
        functions = {id(v): v for _, names in places for v in names.values() if type(v) is types.FunctionType}
        self._bindings = [Bindings(moving), Bindings(tests), Bindings(unmoved, still=True)]
        self._bodies = Bodies(list(functions.values()))
        self._modules = {module.__name__: module for module in modules}

    def changed(self) -> str | None:
        """Name the first thing that is no longer what it was, or None."""
        for bindings in self._bindings:
            replaced = bindings.changed()
            if replaced:
                return "%s was replaced" % replaced
        rewritten = self._bodies.rewritten()
        if rewritten:
            return "%s was rewritten" % rewritten
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                return "the module %s was replaced" % name
        return None


def arm(trusted: tuple[str, ...], private: tuple[str, ...]) -> None:
    """Deny from now on. ``trusted`` are path prefixes of code that may look around; ``private`` are
    paths under /proc and the runner's own that nobody may open."""
    getframe = sys._getframe
    busy = [False]

    def outsider(depth: int) -> bool:
        frame: Any = getframe(depth)
        if frame is None or not frame.f_code.co_filename.startswith(trusted):
            return True
        caller = frame.f_back
        gives = frame.f_code.co_name in _GIVERS
        return gives and caller is not None and not caller.f_code.co_filename.startswith(trusted)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _WATCHED or busy[0] or not _interesting(event, arguments, private):
            return
        busy[0] = True
        try:
            refuse = outsider(2)
        finally:
            busy[0] = False
        if refuse:
            raise PermissionError("not available to code that is being graded: %s" % event)

    sys.addaudithook(hook)


def _interesting(event: str, arguments: tuple[Any, ...], private: tuple[str, ...]) -> bool:
    if event in _DENIED or event == "sys._getframe":
        return True
    if event == "object.__getattr__":
        return arguments[1] in _FRAMES
    if event in ("object.__setattr__", "object.__delattr__"):
        return arguments[1] in _INTERNALS
    if event == "import":
        return arguments[0] in ("_ctypes", "ctypes", "_testcapi", "_testinternalcapi", "_xxsubinterpreters")
    if event in ("open", "os.listdir", "os.scandir"):
        return _named(arguments[0]).startswith(private)
    return False


def _named(path: Any) -> str:
    if isinstance(path, bytes):
        path = path.decode("utf-8", "replace")
    return os.path.normpath(path) if type(path) is str else ""


_snapshots: dict[str, Pristine] = {}
_cross_check: list[Callable[[Any, Any, bool], None]] = []


def take_snapshot() -> None:
    """Once, in the zygote: wrap the assertions and remember everything, so that a grading only compares."""
    _wrap_assertions()
    optional = tuple(sys.modules[name] for name in _OPTIONAL if name in sys.modules)
    own = tuple(module for name, module in sys.modules.items() if name.startswith("runner."))
    _snapshots["check"] = Pristine((*_MODULES[:2], *optional), own)
    _snapshots["unittest"] = Pristine((*_MODULES, *optional), (*_STILL, *own))


def snapshot(convention: str) -> Pristine:
    return _snapshots["check" if convention == "check" else "unittest"]


def forget_snapshots() -> None:
    """Whoever goes on comparing holds one already; a submission shall not find it."""
    _snapshots.clear()


def set_cross_check(cross_check: Callable[[Any, Any, bool], None]) -> Callable[[], str | None]:
    """Arm the wrapped assertions of this process with ``cross_check``; return what says so if they are not any more."""
    _cross_check[:] = [cross_check]
    armed = _cross_check

    def disarmed() -> str | None:
        return None if len(armed) == 1 and armed[0] is cross_check else "the cross-check of assertions was removed"

    return disarmed


def _wrap_assertions() -> None:
    """Have the comparing assertions of TestCase cross-checked against unguessable values."""
    for name in ("assertEqual", "assertListEqual", "assertTupleEqual", "assertDictEqual", "assertSetEqual",
                 "assertSequenceEqual", "assertMultiLineEqual", "assertAlmostEqual", "assertCountEqual"):  # fmt: skip
        setattr(unittest.TestCase, name, _cross_checked(getattr(unittest.TestCase, name)))
    for name in ("assertIn", "assertLess", "assertGreater", "assertLessEqual", "assertGreaterEqual"):
        setattr(unittest.TestCase, name, _reversed_checked(getattr(unittest.TestCase, name), name))


def _cross_checked(original: Callable[..., None]) -> Callable[..., None]:
    armed, exact = _cross_check, original.__name__ == "assertEqual"

    def assertion(self: Any, first: Any, second: Any, *rest: Any, **options: Any) -> None:
        original(self, first, second, *rest, **options)
        for cross_check in armed:
            cross_check(first, second, exact)

    assertion.__name__ = original.__name__
    return assertion


def _reversed_checked(original: Callable[..., None], name: str) -> Callable[..., None]:
    def assertion(self: Any, first: Any, second: Any, *rest: Any, **options: Any) -> None:
        original(self, first, second, *rest, **options)
        try:
            lying = (Wrong() in second) if name == "assertIn" else (first < second and first > second)
        except Exception:
            return
        if lying is True:
            self.fail("an object claims to hold or to exceed everything")

    assertion.__name__ = original.__name__
    return assertion
