"""The write boundary: claims are written before the work and not again, work is written after the claims."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.domain import JSON, Finding, GateVerdict, Phase, Task
from recurve_eval.errors import InfraError
from recurve_eval.gates.copies import CACHES, MAX_COPY_BYTES
from recurve_eval.gates.ledger import HOME
from recurve_eval.ports import GateContext, Guarded
from recurve_eval.workspace import remove

ANSWERS = f"{HOME}/answers"
Files = dict[str, tuple[int, bytes]]


class _Boundary:
    """What both boundaries share: they have no say in the verdict."""

    name: str
    author_turns = 0
    binding = False

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def admits(self, task: Task) -> str | None:
        return None

    def admit(self, context: GateContext) -> Finding:
        return self._finding(context, Phase.AUTHOR)

    def check(self, context: GateContext) -> Finding:
        return self._finding(context, Phase.SCULPT)

    def _finding(self, context: GateContext, phase: Phase) -> Finding:
        facts = {"mode": context.record.boundary, "violations": list(context.record.violations)}
        return Finding(self.name, GateVerdict.GREEN, "", False, 0.0, facts, phase)


@dataclass
class EnforcedBoundary(_Boundary):
    """A read-only mount where the sandbox can, and in any case a comparison after each turn that restores.

    While authoring, only ``.recurve/`` may change; afterwards only the work may (and ``.recurve/answers/``,
    where the agent answers a reviewer).
    """

    name: str = "boundary"

    def prepare(self, context: GateContext) -> None:
        context.record.boundary = "mount" if isinstance(context.session, Guarded) else "restore"

    def before(self, context: GateContext) -> str:
        _make_homes(context)
        context.record.state["guarded"] = guarded_files(context.workspace, context.record.phase)
        if isinstance(context.session, Guarded):
            if context.record.phase is Phase.AUTHOR:
                context.session.guard(read_only=("",), writable=(HOME,))
            else:
                context.session.guard(read_only=(HOME,), writable=(ANSWERS,))
        return ""

    def after(self, context: GateContext) -> None:
        phase, before = context.record.phase, context.record.state["guarded"]
        changed = changed_paths(context.workspace, phase, before)
        if changed:
            context.record.violations += [f"{phase.value}: {path}" for path in changed][:50]
            restore(context.workspace, phase, before, changed)
            if changed_paths(context.workspace, phase, before):
                raise InfraError(f"the write boundary cannot be restored: {changed[0]}")


@dataclass
class OpenBoundary(_Boundary):
    """No boundary: whatever the agent changes stays changed. What it changed is on record all the same."""

    name: str = "boundary_open"

    def prepare(self, context: GateContext) -> None:
        context.record.boundary = "open"

    def before(self, context: GateContext) -> str:
        context.record.state["guarded"] = guarded_files(context.workspace, context.record.phase)
        return ""

    def after(self, context: GateContext) -> None:
        phase = context.record.phase
        changed = changed_paths(context.workspace, phase, context.record.state["guarded"])
        context.record.violations += [f"{phase.value}: {path}" for path in changed][:50]


def _make_homes(context: GateContext) -> None:
    """Real directories for the claims and the answers; what stands in their place is removed, and on record."""
    for name in (HOME, ANSWERS):
        place = context.workspace / name
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            place.unlink()
            context.record.violations.append(f"{context.record.phase.value}: {name} was replaced")
        place.mkdir(parents=True, exist_ok=True)


def guarded_files(workspace: Path, phase: Phase) -> Files:
    """Mode and content of every file that this phase must leave alone. Links are kept as their target."""
    top = workspace if phase is Phase.AUTHOR else workspace / HOME
    found: Files = {}
    room = MAX_COPY_BYTES
    if top.is_symlink() or not top.is_dir():
        return {"": (0, b"")}
    for path in _walk(workspace, top, phase):
        info = path.lstat()
        name = str(path.relative_to(workspace))
        if stat.S_ISLNK(info.st_mode):
            found[name] = (stat.S_IFLNK, bytes(path.readlink()))
        elif not stat.S_ISREG(info.st_mode):
            found[name] = (stat.S_IFMT(info.st_mode), b"")
        else:
            room -= info.st_size
            if room < 0:
                found[name] = (stat.S_IFREG, f"beyond {MAX_COPY_BYTES} bytes: {info.st_size}".encode())
                continue
            found[name] = (info.st_mode & 0o111, _content(path))
    return found


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        return f"unreadable: {error.errno}".encode()


def _walk(workspace: Path, top: Path, phase: Phase) -> list[Path]:
    skip = {workspace / ".git", workspace / HOME} if phase is Phase.AUTHOR else {workspace / ANSWERS}
    found: list[Path] = []
    waiting = [top]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path in skip or path.name in CACHES:
                continue
            if path.is_dir() and not path.is_symlink():
                waiting.append(path)
            else:
                found.append(path)
    return found


def changed_paths(workspace: Path, phase: Phase, before: Files) -> list[str]:
    """Guarded paths that are not as they were, sorted."""
    now = guarded_files(workspace, phase)
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def restore(workspace: Path, phase: Phase, before: Files, changed: list[str]) -> None:
    """Put guarded paths back as they were."""
    top = workspace if phase is Phase.AUTHOR else workspace / HOME
    if top.is_symlink() or not top.is_dir():
        remove(top)
        top.mkdir()
    for name in filter(None, [*changed, *before]):  # the unnamed one is the top itself, which stands by now
        path = workspace / name
        if name not in before:
            remove(path)
            continue
        mode, content = before[name]
        if stat.S_IFMT(mode) not in (0, stat.S_IFLNK):
            continue
        _clear_way(workspace, path)
        if stat.S_IFMT(mode) == stat.S_IFLNK:
            path.symlink_to(content.decode("utf-8", "surrogateescape"))
        else:
            path.write_bytes(content)
            path.chmod(0o644 | mode)


def _clear_way(workspace: Path, path: Path) -> None:
    """Remove what stands at the path, and what is no directory on the way to it; make the way."""
    for parent in reversed([p for p in path.parents if p.is_relative_to(workspace) and p != workspace]):
        if parent.is_symlink() or (parent.exists() and not parent.is_dir()):
            parent.unlink()
    if path.is_symlink() or path.exists():
        remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
