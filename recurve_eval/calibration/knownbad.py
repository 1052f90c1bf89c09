"""Wrong solutions that any task with a Python canonical solution has: empty, returning None, raising."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from recurve_eval.domain import KnownBad, Solutions
from recurve_eval.mutation.mutants import parse

EMPTY = "empty"


def basis_of(solutions: Solutions) -> Mapping[str, bytes]:
    """What wrong solutions are derived from: the canonical one, or the first attempt at an impossible task."""
    return solutions.known_bad[0].files if solutions.impossible else solutions.canonical


def known_bad_of(solutions: Solutions) -> list[KnownBad]:
    """A task's known-bad solutions: its own, and the generic kinds that it does not bring itself.

    A generic one that happens to be the canonical solution (a function that does nothing) is left out.
    """
    own, basis = {bad.kind for bad in solutions.known_bad}, basis_of(solutions)
    generic = [b for b in _generic(basis) if b.kind not in own and b.files != basis]
    return [*solutions.known_bad, *generic]


def _generic(canonical: Mapping[str, bytes]) -> list[KnownBad]:
    found = [KnownBad(EMPTY, dict.fromkeys(canonical, b""))]
    for kind, statement in (("none", "return None"), ("raises", "raise NotImplementedError")):
        files = {path: _hollow(path, source, statement) for path, source in canonical.items()}
        if files != dict(canonical):
            found.append(KnownBad(kind, files))
    return found


def _hollow(path: str, source: bytes, statement: str) -> bytes:
    """The module with every function and method doing nothing but ``statement``; as it was where it has none."""
    tree = parse(source) if path.endswith(".py") else None
    if tree is None or not _each_function(tree, lambda f: setattr(f, "body", _body(statement))):
        return source
    return ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"


def _body(statement: str) -> list[ast.stmt]:
    function = ast.parse(f"def f():\n    {statement}\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.body


def _each_function(tree: ast.Module | ast.ClassDef, change: Callable[[ast.AST], None]) -> int:
    count = 0
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            change(node)
            count += 1
        elif isinstance(node, ast.ClassDef):
            count += _each_function(node, change)
    return count
