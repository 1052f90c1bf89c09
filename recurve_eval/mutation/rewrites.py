"""Rewrites of Python that keep its meaning: a check of behaviour must not notice them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recurve_eval.mutation.mutants import modules

_LOOKS_AT_NAMES = {"locals", "globals", "vars", "dir", "eval", "exec", "super", "inspect", "sys"}
_MIRRORED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A solution rewritten; ``kind`` says how."""

    kind: str
    files: Mapping[str, bytes]


def rewrites(files: Mapping[str, bytes]) -> list[Rewrite]:
    """Each kind of rewrite that changes anything, applied wherever it applies; the same files give the same list.

    ``format`` drops comments and layout; ``rename`` renames local variables; ``reorder`` swaps neighbouring
    statements that cannot see each other; ``equivalent`` writes branches, comparisons and returns another way.
    """
    found = []
    plain = {path: ast.unparse(tree) for path, tree in modules(files)}
    for kind, act in _KINDS.items():
        changed = {path: _rewritten(files[path], act) for path in plain}
        if kind == "format":
            differs = any(text.encode() + b"\n" != files[path] for path, text in changed.items())
        else:
            differs = any(text != plain[path] for path, text in changed.items())
        if differs:
            found.append(Rewrite(kind, {**files, **{p: t.encode() + b"\n" for p, t in changed.items()}}))
    return found


def _rewritten(source: bytes, act: Callable[[ast.Module], object]) -> str:
    tree = ast.parse(source)
    act(tree)
    return ast.unparse(ast.fix_missing_locations(tree))


def _rename(tree: ast.Module) -> None:
    taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for number, function in enumerate(f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)):
        if not _renamable(function):
            continue
        names = {}
        for index, name in enumerate(sorted(_locals(function))):
            new = f"local_{number}_{index}"
            if new not in taken:
                names[name] = new
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in names:
                node.id = names[node.id]
            elif isinstance(node, ast.ExceptHandler) and node.name in names:
                node.name = names[node.name]


def _renamable(function: ast.FunctionDef) -> bool:
    """Whether every use of a local name stands in plain sight."""
    inner = list(ast.walk(function))[1:]
    hidden = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Global, ast.Nonlocal,
              ast.Match, ast.Import, ast.ImportFrom)  # fmt: skip
    if any(isinstance(n, hidden) for n in inner):
        return False
    return not any(isinstance(n, ast.Name) and n.id in _LOOKS_AT_NAMES for n in inner)


def _locals(function: ast.FunctionDef) -> set[str]:
    a = function.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *(x for x in (a.vararg, a.kwarg) if x is not None)]
    parameters = {p.arg for p in every}
    outside = [*a.defaults, *a.kw_defaults, *function.decorator_list]
    used_outside = {n.id for o in outside if o is not None for n in ast.walk(o) if isinstance(n, ast.Name)}
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    handled = {n.name for n in ast.walk(function) if isinstance(n, ast.ExceptHandler) and n.name}
    private = {name for name in stored | handled if not name.startswith("__")}
    return private - parameters - used_outside


def _reorder(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                _swap_neighbours(body)


def _swap_neighbours(body: list[ast.stmt]) -> None:
    index = 0
    while index + 1 < len(body):
        if _independent(body[index], body[index + 1]):
            body[index], body[index + 1] = body[index + 1], body[index]
            index += 2
        else:
            index += 1


def _independent(first: ast.stmt, second: ast.stmt) -> bool:
    one, two = _binds(first), _binds(second)
    return one is not None and two is not None and one != two


def _binds(statement: ast.stmt) -> str | None:
    """The one name that a statement binds, where it reads none, calls nothing and cannot fail; else None."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) and _literal(statement.value) else None
    if isinstance(statement, ast.FunctionDef) and not statement.decorator_list:
        a = statement.args
        noted = [x.annotation for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)] + [statement.returns]
        defaults = [d for d in (*a.defaults, *a.kw_defaults) if d is not None]
        plain = all(_literal(d) for d in defaults) and not any(n is not None for n in noted)
        return statement.name if plain else None
    return None


def _literal(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(_literal(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(k is not None and isinstance(k, ast.Constant) for k in node.keys) and all(map(_literal, node.values))
    return isinstance(node, ast.Constant)


class _Equivalent(ast.NodeTransformer):
    """Branches the other way round, comparisons of plain things mirrored."""

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if node.orelse and not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
            return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and type(node.ops[0]) in _MIRRORED and _plain(node.left) and _plain(node.comparators[0]):
            return ast.Compare(node.comparators[0], [_MIRRORED[type(node.ops[0])]()], [node.left])
        return node


def _plain(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Constant))


_KINDS: Mapping[str, Callable[[ast.Module], object]] = {
    "format": lambda tree: None,
    "rename": _rename,
    "reorder": _reorder,
    "equivalent": lambda tree: _Equivalent().visit(tree),
}
