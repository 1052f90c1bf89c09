"""Who states the claims that probe layers judge by: nobody, checks on record, or an agent."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from recurve_eval.domain import JSON, Task
from recurve_eval.errors import ConfigError
from recurve_eval.interception.items import Asked, Claimed, Item
from recurve_eval.ports import Agent
from recurve_eval.recordings import Recording, read_recordings, recordings_hash

_PROBE = '''"""The author's checks of the work. Exit 0 when all of them hold, else 1."""

import os
import sys

GIVEN = {given!r}
CHECKS = {checks!r}


def main():
    scope = {{"__name__": "solution"}}
    try:
        exec(GIVEN, scope)
        with open(os.path.join(os.environ.get("TRAP_FIXTURE") or ".", {path!r}), "rb") as file:
            exec(compile(file.read(), "solution.py", "exec", dont_inherit=True), scope)
    except BaseException as error:
        print("RED: the work does not run:", type(error).__name__)
        return 1
    failed = []
    for number, check in enumerate(CHECKS):
        try:
            exec(check, scope)
        except BaseException:
            failed.append(number)
    print("RED" if failed else "GREEN", "checks", len(CHECKS), "failed", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
'''


@dataclass
class NoClaims:
    """Nobody states any; layers that need claims cannot judge, and say so."""

    name: str = "none"
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def claims(self, task: Task, item: Item, asked: Asked) -> Claimed:
        return Claimed(why_none="nobody has stated claims (claims=none)")


@dataclass
class RecordedChecks:
    """Checks on record (``authored_checks``), as one claim with one probe and one trap: functions that return None.

    Work of the checks' own author is judged by the checks of that very attempt; any other work by the checks of the
    first attempt at its task that has any.

    Attributes
    ----------
    path : str
        JSONL, plain or gzip, of lines with task_id, attempt, model, solution, authored_checks.
    most : int, optional
        Use so many checks of each set at most, the first ones; None uses all.
    """

    name: str = "recorded"
    path: str = "???"
    most: int | None = None
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        if self.most is not None and self.most < 1:
            raise ConfigError(f"claims.most must be at least 1; got {self.most}")
        if not any(r.checks for r in self._recordings):
            raise ConfigError(f"claims.path: {self.path} has no line with authored_checks")
        return {"checks": recordings_hash([self.path], "claims.path")}

    def claims(self, task: Task, item: Item, asked: Asked) -> Claimed:
        record = self._own.get((item.author, task.id, item.attempt)) or self._first.get(task.id)
        if record is None or not record.checks:
            return Claimed(
                author=record.model if record else "", why_none=f"no checks are on record for task {task.id}"
            )
        return Claimed(check_files(task, record.checks[: self.most]), record.model)

    @cached_property
    def _recordings(self) -> list[Recording]:
        return read_recordings([self.path], "claims.path")

    @cached_property
    def _own(self) -> dict[tuple[str, str, int], Recording]:
        return {(r.model, r.task_id, r.attempt): r for r in self._recordings if r.checks is not None}

    @cached_property
    def _first(self) -> dict[str, Recording]:
        found: dict[str, Recording] = {}
        for r in sorted(self._recordings, key=lambda r: r.attempt):
            if r.checks:
                found.setdefault(r.task_id, r)
        return found


@dataclass
class AgentClaims:
    """The configuration's agent states claims once for each task, in an author phase of its own. Free agents only."""

    name: str = "agent"
    simulated = True

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def refuse_paid(self, agent: Agent) -> None:
        """Raises ConfigError for an agent that costs money."""
        if agent.paid:
            raise ConfigError(
                f"claims=agent would pay agent '{agent.name}' outside any spend gate: run a study with arm=A3 and "
                "replay it (source=replay claims=stored), or choose a free agent"
            )

    def claims(self, task: Task, item: Item, asked: Asked) -> Claimed:
        author: Callable[[Task], Mapping[str, bytes]] = asked.author  # type: ignore[assignment]
        files = author(task)
        return Claimed(files, asked.agent.name, "" if files else f"agent '{asked.agent.name}' stated none")


def check_files(task: Task, checks: tuple[str, ...]) -> dict[str, bytes]:
    """A claim, its probe and its trap for a set of checks, by path below the workspace."""
    path = task.capture.paths[0]
    stub = task.public.get(path, b"")
    probe = _PROBE.format(given=given_part(stub), checks=list(checks), path=path)
    claim = {
        "id": "checks", "proposition": f"the work passes its author's {len(checks)} checks",
        "probe": ".recurve/probes/checks.py", "traps": [".recurve/traps/none"],
    }  # fmt: skip
    ledger = json.dumps({"schema": 1, "claims": [claim]}, indent=1) + "\n"
    return {
        ".recurve/claims.yaml": ledger.encode(),
        ".recurve/probes/checks.py": probe.encode(),
        f".recurve/traps/none/{path}": hollow(stub),
    }


def hollow(stub: bytes) -> bytes:
    """An untouched file whose functions do nothing but return None: the least that any set of checks must refuse."""
    try:
        tree = ast.parse(stub)
    except (SyntaxError, ValueError, RecursionError):
        return b"# nothing\n"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [ast.Return(ast.Constant(None))]
    return ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"


def given_part(stub: bytes) -> str:
    """What an untouched file gives before its last function: imports and helpers, which a submission may lean on."""
    try:
        tree = ast.parse(stub)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    functions = [n for n, node in enumerate(tree.body) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    kept = tree.body[: functions[-1]] if functions else []
    return "\n".join(ast.unparse(node) for node in kept)
