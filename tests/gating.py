"""A real workspace, sandbox and gate for tests: claims are written as an agent would write them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recurve_eval.domain import CaptureSpec, Finding, Solutions, Task, Turn
from recurve_eval.ports import GateContext, GateRecord, Offline, Session
from recurve_eval.rounds import Rounds
from recurve_eval.workspace import materialize
from tests.sandboxes import make, sandbox

STUB = b"def double(x):\n    raise NotImplementedError\n"
GOOD = b"def double(x):\n    return 2 * x\n"
BAD = b"def double(x):\n    return x\n"
TASK = Task("double", "Write double(x).", {"solution.py": STUB}, CaptureSpec(("solution.py",)))

PROBE = """import os, sys
sys.path.insert(0, os.environ.get("TRAP_FIXTURE") or ".")
try:
    from solution import double
    good = double(3) == 6
except Exception as error:
    print("RED:", type(error).__name__)
    sys.exit(1)
print("GREEN" if good else "RED: double(3) is not 6")
sys.exit(0 if good else 1)
"""
LEDGER = """schema: 1
claims:
  - id: doubles
    proposition: double(3) is 6
    probe: .recurve/probes/doubles.py
    traps: [.recurve/traps/identity]
"""
CLAIMS: Mapping[str, str | bytes] = {
    ".recurve/claims.yaml": LEDGER,
    ".recurve/probes/doubles.py": PROBE,
    ".recurve/traps/identity/solution.py": BAD,
}


def write(workspace: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@dataclass
class Gated:
    """One cell's gate with its workspace; ``author`` and ``sculpt`` play the agent's turns."""

    rounds: Rounds
    workspace: Path
    session: Session
    record: GateRecord
    told: list[str] = field(default_factory=list)

    def turn(self, files: Mapping[str, str | bytes] | None = None, script: str = "") -> tuple[Finding, ...]:
        """A turn that writes files (from outside the walls) or runs a shell script (inside them)."""
        self.told.append(self.rounds.before())
        if files:
            write(self.workspace, files)
        if script:
            from recurve_eval.ports import Command

            self.session.run(Command(("/bin/sh", "-c", script), timeout_s=30))
        self.rounds.after()
        findings = self.rounds.judge()
        self.rounds.advance(findings)
        return findings

    def author(self, changes: Mapping[str, str | bytes] | None = None) -> Finding:
        return self.turn({**CLAIMS, **(changes or {})})[-1]

    def sculpt(self, content: bytes = GOOD, script: str = "") -> Finding:
        return refusal(self.turn({"solution.py": content}, script))


def refusal(findings: tuple[Finding, ...]) -> Finding:
    """The finding that refused, else the first."""
    return next((f for f in findings if f.binding and f.verdict != "GREEN"), findings[0])


ARMS: dict[str, tuple[str, ...]] = {
    "A2": ("checks/claims", "boundary/enforced"),
    "A3": ("checks/claims", "traps/red_first", "boundary/enforced"),
    "A4": ("checks/claims", "traps/red_first", "boundary/enforced", "hardening/enforce"),
    "A5": ("checks/claims", "traps/red_first", "boundary/open"),
}


@contextmanager
def gated(
    place: Path, parts: str | tuple[Any, ...] = "A3", walls: str = "process", task: Task = TASK, **more: Any
) -> Iterator[Gated]:
    """The gate of an arm (or of given parts) over a fresh workspace."""
    made = sandbox(walls)
    workspace, scratch, evidence = place / "cell/workspace", place / "cell/scratch", place / "evidence"
    for directory in (scratch, evidence):
        directory.mkdir(parents=True)
    materialize(task, workspace)
    session = made.open(workspace, scratch, f"gating-{os.getpid()}")
    offline = made.offline() if isinstance(made, Offline) else made
    opened: list[Session] = []

    def open_session(copy: Path, label: str) -> Session:
        extra = copy.parent / "scratch"
        extra.mkdir(exist_ok=True)
        opened.append(offline.open(copy, extra, f"gating-{os.getpid()}.{label}"))
        return opened[-1]

    components = [
        make("gate/" + p.split("/")[0], p.split("/")[1]) if isinstance(p, str) else p
        for p in (ARMS[parts] if isinstance(parts, str) else parts)
    ]
    record = more.pop("record", GateRecord())
    context = GateContext(task, workspace, session, evidence, open_session, record, **more)
    rounds = Rounds(components, (), context, lambda finding: None)
    try:
        rounds.open()
        yield Gated(rounds, workspace, session, record)
    finally:
        session.close()


def consulting(answers: Solutions) -> Callable[..., Turn]:
    """``GateContext.consult`` for tests: one turn of a reviewing agent on a directory, in the process sandbox."""

    def consult(agent: Any, request: Any, directory: Path, purpose: str) -> Turn:
        scratch = directory.parent / "review-scratch"
        scratch.mkdir(exist_ok=True)
        session = make("sandbox", "process").open(directory, scratch, f"gating-{os.getpid()}.{purpose}")
        try:
            return agent.run(replace(request, answers=answers), session)  # type: ignore[no-any-return]
        finally:
            session.close()

    return consult
