"""One item before every layer: its workspace, the components' own findings, what they add up to."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recurve_eval.domain import (
    JSON,
    NO_USAGE,
    Finding,
    GateVerdict,
    Phase,
    Solutions,
    Task,
    Turn,
    TurnStatus,
    digest,
)  # fmt: skip
from recurve_eval.errors import InfraError
from recurve_eval.interception.items import Asked, Claimed, Claims, Item
from recurve_eval.interception.layers import Layer
from recurve_eval.ports import Agent, GateContext, GateRecord, Guarded, Offline, Sandbox, Session, Staged, TurnRequest
from recurve_eval.workspace import remove

PASSED, BLOCKED, UNABLE, FAILED = "passed", "blocked", "unable", "failed"


@dataclass(frozen=True, slots=True)
class Own:
    """What one layer by itself says of an item.

    ``passed`` and ``blocked`` are decisions (``outcome`` is the gate's word: GREEN, RED or BROKEN). ``unable``: it has
    nothing to judge by, and ``why`` says so. ``failed``: the machinery failed, so there is no decision.
    """

    decision: str
    outcome: str = "none"
    why: str = ""
    wall_s: float = 0.0
    facts: Mapping[str, JSON] = field(default_factory=dict)


@dataclass
class Bench:
    """Where items are judged. Threads may share it.

    Attributes
    ----------
    root : Path
        A directory of this process's own, in which workspaces come and go.
    label : str
        Opens the label of every sandbox session.
    answers : callable
        The solutions of a task, for simulated reviewers alone.
    """

    layers: Sequence[Layer]
    sandbox: Sandbox
    claims: Claims
    asked: Asked
    root: Path
    label: str
    answers: Callable[[str], Solutions]
    on_session: Callable[[Session], Any] = lambda session: None

    def __post_init__(self) -> None:
        self._unplugged = self.sandbox.offline() if isinstance(self.sandbox, Offline) else self.sandbox
        self._admitted: dict[tuple[str, str, str], str] = {}
        self._busy: dict[tuple[str, str, str], threading.Lock] = {}
        self._lock = threading.Lock()

    def before(self, task: Task, item: Item) -> Sitting:
        """The sitting over one item; a context manager."""
        return Sitting(self, task, item)

    def ask(self, layer: Layer, task: Task, claimed: Claimed, room: _Room) -> Own:
        started = time.perf_counter()
        try:
            why = self._cannot(layer, task, claimed)
            if why:
                return Own(UNABLE, why=why, wall_s=time.perf_counter() - started)
            return _added_up(room.round(layer))
        except InfraError as error:
            return Own(FAILED, why=f"{type(error).__name__}: {error}"[:500], wall_s=time.perf_counter() - started)

    def _cannot(self, layer: Layer, task: Task, claimed: Claimed) -> str:
        """Why a layer cannot judge a task by these claims; empty where it can."""
        for component in layer.components:
            problem = component.admits(task)
            if problem:
                return problem
        if not layer.needs_claims:
            return ""
        return claimed.why_none or self._admission(layer, task, claimed)

    def _admission(self, layer: Layer, task: Task, claimed: Claimed) -> str:
        """Why the layer does not admit the claims, asked once for each task and claims; empty where it does."""
        key = (layer.name, task.id, digest({p: c.hex() for p, c in claimed.files.items()}))
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            if key not in self._admitted:
                with _Room(self, task, {**task.public, **claimed.files}, f"admission-{layer.name}") as room:
                    refused = [f for f in room.admission(layer) if f.verdict is not GateVerdict.GREEN]
                said = f"its claims are not admitted: {refused[0].message}"[:500] if refused else ""
                self._admitted[key] = said
            return self._admitted[key]

    def author(self, task: Task, work: Callable[[Path, Session], Any]) -> dict[str, bytes]:
        """Let somebody work in a fresh workspace; what stands below ``.recurve/`` afterwards."""
        with _Room(self, task, dict(task.public), "author") as room:
            work(room.workspace, room.session)
            home = room.workspace / ".recurve"
            found = sorted(p for p in home.rglob("*") if p.is_file() and not p.is_symlink()) if home.is_dir() else []
            return {str(p.relative_to(room.workspace)): p.read_bytes() for p in found if p.stat().st_size < 1 << 20}


class Sitting:
    """One item, asked about layer by layer. Its workspace is made when the first layer is asked."""

    def __init__(self, bench: Bench, task: Task, item: Item) -> None:
        self._bench, self._task, self._item = bench, task, item
        self._room: _Room | None = None
        self._claimed: Claimed | None = None

    def __enter__(self) -> Sitting:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._room is not None:
            self._room.__exit__(*exc)

    @property
    def claims_by(self) -> str:
        """Who stated the claims that were looked at so far."""
        return self._claimed.author if self._claimed is not None else ""

    def ask(self, layer: Layer) -> Own:
        """What the layer by itself says of the item."""
        if layer.needs_claims and self._claimed is None:
            self._claimed = self._bench.claims.claims(self._task, self._item, self._bench.asked)
            if self._room is not None:
                self._room.lay(self._claimed.files)
        claimed = self._claimed or Claimed()
        if self._room is None:
            files = {**self._task.public, **self._item.files, **claimed.files}
            self._room = _Room(self._bench, self._task, files, self._item.id, self._item.author).__enter__()
        return self._bench.ask(layer, self._task, claimed, self._room)


def _added_up(findings: Sequence[Finding]) -> Own:
    verdicts = {f.verdict for f in findings if f.binding}
    outcome = next((v for v in (GateVerdict.BROKEN, GateVerdict.RED) if v in verdicts), GateVerdict.GREEN)
    refusal = next((f for f in findings if f.binding and f.verdict is not GateVerdict.GREEN), None)
    why = refusal.message.splitlines()[0][:300] if refusal is not None and refusal.message else ""
    facts = {f.component: _short(f.evidence) for f in findings}
    wall = sum(f.wall_s for f in findings)
    return Own(BLOCKED if refusal is not None else PASSED, outcome.value if findings else "none", why, wall, facts)


def _short(evidence: Mapping[str, JSON]) -> dict[str, JSON]:
    """Of a component's evidence, what a report uses: the verdict lines of probes, and what hardening measured."""
    kept: dict[str, JSON] = {k: v for k, v in evidence.items() if isinstance(v, (bool, int, str)) and "wall" not in k}
    runs = evidence.get("runs")
    if isinstance(runs, list):
        kept["runs"] = [[r["claim"], r["on"], r["verdict"], r["line"][:200]] for r in runs[:20]]
    return kept


class _Room:
    """A workspace with its files and a session, gone afterwards."""

    def __init__(
        self, bench: Bench, task: Task, files: Mapping[str, bytes], purpose: str, author: str = ""
    ) -> None:  # fmt: skip
        self._bench, self._task, self._files, self._purpose = bench, task, files, purpose
        wrote = Turn(TurnStatus.COMPLETED, 0, NO_USAGE, 0.0, model_served=author)
        self._turns = (wrote,) if author else ()  # what a reviewer's identity is held against

    def __enter__(self) -> _Room:
        self.place = Path(tempfile.mkdtemp(prefix="item-", dir=self._bench.root))
        self.workspace = self.place / "workspace"
        self.workspace.mkdir()  # passable: a sandbox enters it before it takes on its own user id
        for name in ("scratch", "evidence"):
            (self.place / name).mkdir(mode=0o700)
        self.lay(self._files)
        self._label = f"{self._bench.label}.{self._purpose}"
        self.session = self._bench.sandbox.open(self.workspace, self.place / "scratch", self._label)
        self._bench.on_session(self.session)
        self.record = GateRecord()
        self._prepared: set[int] = set()
        self._found: dict[int, Finding] = {}
        return self

    def lay(self, files: Mapping[str, bytes]) -> None:
        """Write files into the workspace."""
        for path, content in files.items():
            target = self.workspace / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o755 if content.startswith(b"#!") else 0o644)

    def __exit__(self, *exc: object) -> None:
        try:
            self.session.close()
        finally:
            remove(self.place)

    @property
    def _context(self) -> GateContext:
        return GateContext(
            self._task, self.workspace, self.session, self.place / "evidence", self._open, self.record,
            self._turns, self._consult,
        )  # fmt: skip

    def round(self, layer: Layer) -> list[Finding]:
        """The layer's findings up to its first binding refusal. What layers share is asked once."""
        self._prepare(layer)
        self.record.phase = Phase.SCULPT
        found: list[Finding] = []
        for component in layer.components:
            if id(component) not in self._found:
                self._found[id(component)] = component.check(self._context)
            found.append(self._found[id(component)])
            if found[-1].binding and found[-1].verdict is not GateVerdict.GREEN:
                break
        return found

    def admission(self, layer: Layer) -> list[Finding]:
        """What the layer's components say of the claims on the untouched work."""
        self._prepare(layer)
        self.record.phase = Phase.AUTHOR
        return [c.admit(self._context) for c in layer.components if isinstance(c, Staged)]

    def _prepare(self, layer: Layer) -> None:
        for component in layer.components:
            if id(component) not in self._prepared:
                self._prepared.add(id(component))
                component.prepare(self._context)

    def _consult(self, agent: Agent, request: TurnRequest, workspace: Path, purpose: str) -> Turn:
        """One turn of a reviewing agent, which sees the snapshot and nothing else."""
        answers = self._bench.answers(self._task.id) if agent.simulated else None
        session = self._open(workspace, purpose)
        try:
            if isinstance(session, Guarded):
                session.guard(read_only=("",))
            turn = agent.run(replace(request, answers=answers), session)
        finally:
            session.close()
        if turn.trouble:
            raise InfraError(turn.trouble)
        return turn

    def _open(self, workspace: Path, purpose: str) -> Session:
        scratch = workspace.parent / "scratch"
        scratch.mkdir(mode=0o700, exist_ok=True)
        session = self._bench._unplugged.open(workspace, scratch, f"{self._label}.{purpose}")
        self._bench.on_session(session)
        return session
