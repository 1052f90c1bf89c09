"""First-order mutants of a solution: one small change each, chosen by a seed and nothing else."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from recurve_eval.domain import KnownBad

_COMPARE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_BINARY: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip

_REVERSED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip

MAX_DEPTH = 200  # nodes within one another: visitors take some three frames each, and the interpreter allows 1000


@dataclass(frozen=True, slots=True)
class _Site:
    """One possible change: which node of which file (by its place in the walk), and what is done to it."""

    path: str
    index: int
    line: int
    change: str


def mutants(files: Mapping[str, bytes], count: int, seed: int, task_id: str, thorough: bool = False) -> list[KnownBad]:
    """At most ``count`` distinct mutants of a solution's Python files.

    The same files, seed and task give the same mutants. ``thorough`` draws from more operators: removed statements,
    exchanged arguments, numbers off by one downwards, altered strings, cut slices and the like. A mutant may behave
    like the original: nobody can tell in general, which is why one that passes is a weakness to look at and not a
    failure.
    """
    sites = sorted(_sites(files, thorough), key=lambda s: _rank(seed, task_id, s))
    originals = {path: ast.unparse(tree) for path, tree in modules(files)}
    found: dict[tuple[str, str], KnownBad] = {}
    for site in sites:
        if len(found) >= count:
            break
        text = _apply(files[site.path], site)
        if text != originals[site.path] and (site.path, text) not in found:
            kind = f"{site.path}:{site.line} {site.change}"
            found[site.path, text] = KnownBad(kind, {**files, site.path: text.encode() + b"\n"})
    return list(found.values())


def _rank(seed: int, task_id: str, site: _Site) -> bytes:
    return hashlib.sha256(f"{seed}\0{task_id}\0{site.path}\0{site.index}\0{site.change}".encode()).digest()


def parse(source: bytes) -> ast.Module | None:
    """The module, or None where the bytes are not Python, or so deeply nested that no visitor would come back."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    return None


def modules(files: Mapping[str, bytes]) -> Iterator[tuple[str, ast.Module]]:
    """The files that are Python, parsed, in the order of their paths."""
    for path, source in sorted(files.items()):
        tree = parse(source) if path.endswith(".py") else None
        if tree is not None:
            yield path, tree


def _sites(files: Mapping[str, bytes], thorough: bool) -> Iterator[_Site]:
    for path, tree in modules(files):
        inert = _inert(tree)
        for index, node in enumerate(ast.walk(tree)):
            if id(node) not in inert:
                for change, _ in [*_changes(node), *(_further(node) if thorough else ())]:
                    yield _Site(path, index, getattr(node, "lineno", 0), change)


def _inert(tree: ast.Module) -> set[int]:
    """Nodes that no behaviour hangs on: annotations and string statements."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            roots.append(node)
        roots += [a for a in (getattr(node, "annotation", None), getattr(node, "returns", None)) if a is not None]
    return {id(inner) for root in roots for inner in ast.walk(root)}


def _apply(source: bytes, site: _Site) -> str:
    tree = ast.parse(source)
    node = next(n for index, n in enumerate(ast.walk(tree)) if index == site.index)
    next(act for change, act in [*_changes(node), *_further(node)] if change == site.change)()
    return ast.unparse(ast.fix_missing_locations(tree))


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """What can be done to a node: a name for it, and the function that does it in place."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        new = _COMPARE[type(node.ops[0])]
        yield f"{_word(node.ops[0])} to {new.__name__}", lambda: node.ops.__setitem__(0, new())
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        other = _BINARY[type(node.op)]
        yield f"{_word(node.op)} to {other.__name__}", lambda: setattr(node, "op", other())
    if isinstance(node, ast.BoolOp):
        flipped = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"{_word(node.op)} to {flipped.__name__}", lambda: setattr(node, "op", flipped())
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
        value = (not node.value) if isinstance(node.value, bool) else node.value + 1
        yield f"{node.value!r} to {value!r}", lambda: setattr(node, "value", value)
    if isinstance(node, (ast.If, ast.IfExp)):
        yield "condition negated", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "returns None", lambda: setattr(node, "value", ast.Constant(None))


def _further(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """What else can be done to a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _REVERSED:
        new = _REVERSED[type(node.ops[0])]
        yield f"{_word(node.ops[0])} to {new.__name__}", lambda: node.ops.__setitem__(0, new())
    if isinstance(node, ast.AugAssign) and type(node.op) in _BINARY:
        other = _BINARY[type(node.op)]
        yield f"{_word(node.op)} to {other.__name__}", lambda: setattr(node, "op", other())
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        less = node.value - 1
        yield f"{node.value!r} to {less!r}", lambda: setattr(node, "value", less)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = "" if node.value else "x"
        yield f"string {node.value[:20]!r} to {text!r}", lambda: setattr(node, "value", text)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield (
            f"{_word(node.op)} removed",
            lambda: (
                setattr(node, "op", ast.UAdd())
                if isinstance(node.op, ast.USub)
                else setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
            ),
        )
    if isinstance(node, ast.Call) and len(node.args) == 2 and not any(isinstance(a, ast.Starred) for a in node.args):
        yield "arguments exchanged", node.args.reverse
    if isinstance(node, ast.Slice):
        for bound in ("lower", "upper"):
            if getattr(node, bound) is not None:
                yield f"slice without its {bound} bound", lambda b=bound: setattr(node, b, None)  # type: ignore[misc]
    yield from _removals(node)


def _removals(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Statements of a body that can be left out, one at a time."""
    for name in ("body", "orelse"):
        body = getattr(node, name, None)
        for number, statement in enumerate(body if isinstance(body, list) else ()):
            if isinstance(statement, (ast.AugAssign, ast.Break, ast.Continue, ast.If)) or (
                isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            ):
                yield (
                    f"{_word(statement)} removed on line {statement.lineno}",
                    lambda b=body, n=number: b.__setitem__(n, ast.Pass()),  # type: ignore[misc]
                )


def _word(op: ast.AST) -> str:
    return type(op).__name__


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
