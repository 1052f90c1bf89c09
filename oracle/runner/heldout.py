"""Held-out modules: compiled from memory under unguessable names, their comparisons watched.

In a process that the submission shares, each ``==``, ``!=``-free comparison and membership test of a
held-out module is compiled into a call that repeats it against values nobody can know, far and near, and against the
same one again, in an order nobody can know. An object that claims to be equal to one of the former, or that is
equal at one time and not at another, is lying, and the grading is tampered with.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
import sys
import types
import unittest
from typing import Any, Callable, Sequence

_ATOMS = (int, str, float, bool, bytes, type(None))


def below(count: int, urandom: Any = os.urandom, number: Any = int.from_bytes) -> int:
    """A number that nobody can guess, of functions that nobody can replace: the module random is Python."""
    return int(number(urandom(8), "big") % count)


def _noise(urandom: Any = os.urandom) -> str:
    return str(urandom(8).hex())


class Wrong:
    """An object nobody can guess: equal to itself alone, of no use as a number, text or container."""

    __slots__ = ("secret",)

    def __init__(self, urandom: Any = os.urandom) -> None:
        self.secret = urandom(16)


def twin(value: Any) -> Any:
    """Something of the same type that differs from ``value`` in a way nobody can guess."""
    kind, noise = type(value), _noise()
    if kind is int:
        return value + (1 << 40) + below(1 << 50)
    if kind is float and abs(value) < 1e300:
        return value * 3.0 + 1e9 + below(1 << 40)
    if kind is str:
        return value + noise
    if kind is bytes:
        return value + noise.encode()
    if kind is list or kind is tuple:
        return value + kind([noise])
    if kind is dict:
        return dict(value, **{noise: noise}) if all(type(key) is str for key in value) else Wrong()
    if kind is set or kind is frozenset:
        return value | {noise}
    return Wrong()


def near(value: Any) -> Any:
    """Something of the same type and about the same size that differs from ``value`` in a way nobody can guess."""
    kind = type(value)
    if kind is int:
        return value + (1 + below(99)) * (1 - 2 * below(2))
    if kind is float and abs(value) < 1e300:
        return value + (1.0 + abs(value)) * (1 + below(99)) / 100.0
    if kind is str and value:
        at = below(len(value))
        # Box drawing and block elements: no case, no digits, no letters.
        return value[:at] + chr(0x2500 + below(0x80) + 0x80 * (value[at] < chr(0x2580))) + value[at + 1 :]
    if (kind is list or kind is tuple) and value:
        at = below(len(value))
        return value[:at] + kind([near(value[at])]) + value[at + 1 :]
    if kind is dict and value:
        key = list(value)[below(len(value))]
        return {**value, key: near(value[key])}
    return twin(value)


def _is_true(verdict: Any) -> bool:
    return verdict is True or (type(verdict).__name__ in ("bool_", "bool") and bool(verdict))


def _claims(compare: Callable[[], Any]) -> bool:
    try:
        return _is_true(compare())
    except Exception:
        return False


def _holds(compare: Callable[[], Any]) -> bool | None:
    """Whether a comparison holds; None where it has no answer."""
    try:
        return bool(compare())
    except Exception:
        return None


class Watch:
    """Comparisons that catch a lying object in the act; ``accuse`` is told of it at once."""

    def __init__(self, accuse: Callable[[str], None]) -> None:
        self._accuse = accuse

    def equal(self, left: Any, right: Any) -> Any:
        if type(left) in _ATOMS and type(right) in _ATOMS:
            return left == right
        if below(2):
            self.cross_check(left, right)
            return left == right
        verdict = left == right
        self.cross_check(left, right, _is_true(verdict))
        return verdict

    def cross_check(self, left: Any, right: Any, found_equal: bool = False) -> None:
        """``found_equal``: they have just been found to be equal."""
        if type(left) in _ATOMS and type(right) in _ATOMS:
            return
        false = [
            lambda: left == twin(right),
            lambda: twin(left) == right,
            lambda: left == near(right),
            lambda: near(left) == right,
            lambda: left == Wrong(),
            lambda: Wrong() == right,
        ]
        true = [lambda: left == right, lambda: left == right]
        said = [True] if found_equal else []
        while false or true:
            chosen = below(len(false) + len(true))
            if chosen >= len(false):
                said.append(_holds(true.pop()))
            elif _claims(false.pop(chosen)):
                self._accuse("an object claims to be equal to an unguessable value")
                return
        if True in said and False in said:
            self._accuse("an object is equal to a value at one time and not at another")

    def contains(self, left: Any, right: Any) -> Any:
        if _claims(lambda: twin(left) in right and Wrong() in right):
            self._accuse("a container claims to hold an unguessable value")
        return left in right

    def below(self, left: Any, right: Any) -> Any:
        return self._ordered(left < right, lambda: right < left)

    def above(self, left: Any, right: Any) -> Any:
        return self._ordered(left > right, lambda: right > left)

    def _ordered(self, verdict: Any, reverse: Callable[[], Any]) -> Any:
        if _is_true(verdict) and _claims(reverse):
            self._accuse("an object claims to be both below and above another")
        return verdict


_OPERATIONS = {ast.Eq: "equal", ast.In: "contains", ast.Lt: "below", ast.Gt: "above"}


class _Instrument(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        method = _OPERATIONS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if method is None:
            return node
        watch = ast.Attribute(ast.Name(self._name, ast.Load()), method, ast.Load())
        return ast.copy_location(ast.Call(watch, [node.left, node.comparators[0]], []), node)


def compiled(source: bytes, label: str, watch_name: str | None) -> types.CodeType:
    if watch_name is None:
        return compile(source, label, "exec", dont_inherit=True)
    tree = ast.fix_missing_locations(_Instrument(watch_name).visit(ast.parse(source, label)))
    return compile(tree, label, "exec", dont_inherit=True)


_METHODS = {name for name, v in vars(unittest.TestCase).items() if callable(v) or isinstance(v, classmethod)}


class Methods:
    """The tests of a class, and what it has instead of unittest's own, when this was made; its data may change."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self._held = self._now()

    def _now(self) -> dict[str, Any]:
        names = vars(self.case).items()
        return {name: value for name, value in names if name.startswith("test") or name in _METHODS}

    def altered(self) -> bool:
        now = self._now()
        return now.keys() != self._held.keys() or any(now[name] is not value for name, value in self._held.items())


class HeldOut(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads held-out sources from memory. They find each other by file name; nobody else is told any."""

    def __init__(self, files: dict[str, bytes], watch: Watch | None) -> None:
        self._watch, self._watch_name = watch, "_" + os.urandom(8).hex() if watch else None
        self.data = {path: content for path, content in files.items() if not path.endswith(".py")}
        self._sources = {os.path.basename(path)[:-3]: source for path, source in files.items() if path.endswith(".py")}
        self._code: dict[str, types.CodeType] = {}
        self._cases: list[Methods] = []

    def code(self) -> dict[str, types.CodeType]:
        """Compile everything. Raises SyntaxError, which is the harness's fault and not the submission's."""
        if not self._code:
            self._code = {
                stem: compiled(source, "<held-out %s>" % stem, self._watch_name)
                for stem, source in self._sources.items()
            }
        return self._code

    def forget_sources(self) -> None:
        """They have been compiled, and a submission shall not find them."""
        self._sources = dict.fromkeys(self._sources, b"")

    def compiled(self) -> list[types.CodeType]:
        """What was compiled so far."""
        return list(self._code.values())

    def source(self, stem: str) -> bytes:
        return self._sources[stem]

    def load(self, stem: str, **names: Any) -> types.ModuleType:
        module = types.ModuleType("m" + os.urandom(12).hex())
        module.__dict__.update(names)
        sys.modules[module.__name__] = module
        self.exec_module(module, stem)
        kinds = [value for value in vars(module).values() if isinstance(value, type)]
        cases = [kind for kind in kinds if kind.__module__ == module.__name__ and issubclass(kind, unittest.TestCase)]
        self._cases += map(Methods, cases)
        return module

    def altered(self) -> str | None:
        """Name a class of tests whose methods are no longer what they were, or None."""
        for methods in self._cases:
            if methods.altered():
                return "a method of the tests' class %s was replaced" % methods.case.__name__
        return None

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if name in self._sources else None

    def exec_module(self, module: types.ModuleType, stem: str = "") -> None:
        if self._watch_name is not None:
            module.__dict__[self._watch_name] = self._watch
        exec(self._code[stem or module.__name__], module.__dict__)
