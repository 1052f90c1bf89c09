"""The ids of a unittest module's tests, read from its source and never by running it.

An oracle's list of expected ids must not come from the process that also runs the submission: whoever
runs there could shorten the list. So the ids are derived from the held-out bytes alone.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

_BASES = ("TestCase", "IsolatedAsyncioTestCase")


def unittest_ids(source: bytes, name: str = "<held-out>") -> tuple[str, ...]:
    """``TestClass.test_method`` of every test of a module, in the order in which they are written.

    A class counts when it derives from ``unittest.TestCase``, directly or through classes of the same
    module, whose test methods it inherits. Only classes at the top of the module are read: what a
    module defines under a condition or builds at run time has no pinned id.

    Raises
    ------
    SyntaxError
        The source is not Python; ``name`` is given as its file name.
    ValueError
        One id is defined twice, so that the second would silently replace the first.
    """
    classes: dict[str, ast.ClassDef] = {}
    for node in ast.parse(source, filename=name).body:
        if isinstance(node, ast.ClassDef):
            if node.name in classes:
                raise ValueError(f"{name}: class {node.name} is defined twice")
            classes[node.name] = node
    ids = []
    for node in classes.values():
        if _is_test_case(node, classes):
            ids += [f"{node.name}.{method}" for method in _methods(node, classes, name)]
    return tuple(ids)


def _is_test_case(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], seen: tuple[str, ...] = ()) -> bool:
    for base in node.bases:
        last = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        if last in _BASES:
            return True
        if last in classes and last not in seen and _is_test_case(classes[last], classes, (*seen, last)):
            return True
    return False


def _methods(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], name: str, seen: tuple[str, ...] = ()
) -> list[str]:
    own: list[str] = []
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test"):
            if item.name in own:
                raise ValueError(f"{name}: {node.name}.{item.name} is defined twice")
            own.append(item.name)
    inherited: list[str] = []
    for base in node.bases:
        parent = getattr(base, "id", "")
        if parent in classes and parent not in seen:
            inherited += _methods(classes[parent], classes, name, (*seen, parent))
    return list(dict.fromkeys([*inherited, *own]))
