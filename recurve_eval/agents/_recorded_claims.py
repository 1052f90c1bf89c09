"""Claims from recorded checks: what an author phase is to a recording that has the model's own assertions."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence

from recurve_eval.mutation.mutants import parse

_PROBE = '''"""The recorded model's own checks, all of them."""
import os, sys

CHECKS = {checks!r}

path = os.path.join(os.environ.get("TRAP_FIXTURE") or ".", {path!r})
scope = {{"__name__": "solution"}}
try:
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec", dont_inherit=True), scope)
except BaseException as error:
    print("RED: the work does not run:", type(error).__name__)
    sys.exit(1)
for check in CHECKS:
    try:
        exec(compile(check, "<check>", "exec", dont_inherit=True), scope)
    except BaseException as error:
        print("RED:", " ".join(check.split())[:200], "--", type(error).__name__)
        sys.exit(1)
print("GREEN")
'''


def recorded_claims(path: str, solution: bytes, checks: Sequence[str]) -> dict[str, bytes]:
    """Everything below ``.recurve/``: one claim whose probe is the whole set of checks.

    Its trap is the solution with every function returning None: nothing that a recording chose, and the least
    that checks of a value must reject. Without checks, or where the solution is not Python, there is no claim.
    """
    hollow = _hollow(solution)
    if not checks or hollow is None:
        return {}
    claim = {
        "id": "own-checks",
        "proposition": "the work passes the checks that the same model wrote for it",
        "probe": ".recurve/probes/own_checks.py",
        "traps": [".recurve/traps/returns_none"],
    }
    return {
        ".recurve/claims.yaml": json.dumps({"schema": 1, "claims": [claim]}, indent=1).encode() + b"\n",
        ".recurve/probes/own_checks.py": _PROBE.format(checks=list(checks), path=path).encode("utf-8", "replace"),
        f".recurve/traps/returns_none/{path}": hollow,
    }


def _hollow(solution: bytes) -> bytes | None:
    tree = parse(solution)
    if tree is None:
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Return(ast.Constant(None))]
    return ast.unparse(ast.fix_missing_locations(tree)).encode("utf-8", "replace") + b"\n"
