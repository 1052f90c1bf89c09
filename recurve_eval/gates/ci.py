"""A command as a gate component: the task's visible tests, or any CI command."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.domain import JSON, Finding, GateVerdict, Task
from recurve_eval.errors import ConfigError, InfraError, SandboxError
from recurve_eval.ports import Command, Completed, GateContext
from recurve_eval.workspace import remove

MAX_COPY_BYTES = 64 * 1024 * 1024
MAX_COPY_FILES = 20_000
MAX_COPY_DEPTH = 64
_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


@dataclass
class CommandCheck:
    """Runs a command on a copy of the work, in the agent's sandbox.

    Exit 0 is GREEN and any other exit RED. A command that outlives its time is BROKEN, which rejects as
    RED does and says so: what has not answered has not approved. The copy means that a check cannot
    alter the work it judges; the task's protected files are laid over it, so that weakened tests do
    not count.

    Attributes
    ----------
    command : list of str, optional
        The command's words; ``None`` takes the task's own visible check.
    timeout_s : float
        Seconds allowed to the command.
    binding : bool
        Whether the finding decides, or is only recorded.
    max_feedback_bytes : int
        How much of the command's output a rejection carries.
    """

    name: str = "ci"
    command: list[str] | None = None
    timeout_s: float = 30.0
    binding: bool = True
    max_feedback_bytes: int = 4096

    def __post_init__(self) -> None:
        if self.timeout_s <= 0:
            raise ConfigError(f"gate.checks.timeout_s must be positive; got {self.timeout_s}")
        if self.max_feedback_bytes < 0:
            raise ConfigError(f"gate.checks.max_feedback_bytes must not be negative; got {self.max_feedback_bytes}")
        if self.command is not None and not self.command:
            raise ConfigError(
                "gate.checks.command is empty; give the command's words, or null for the task's own check"
            )

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def argv(self, task: Task) -> tuple[str, ...]:
        return tuple(self.command) if self.command is not None else task.visible_check or ()

    def admits(self, task: Task) -> str | None:
        if self.argv(task):
            return None
        return (
            f"task {task.id} has no visible check for the gate component '{self.name}': leave the task out "
            "(task.select) or name a command (gate/checks=ci gate.checks.command=[...])"
        )

    def prepare(self, context: GateContext) -> None:
        pass

    def check(self, context: GateContext) -> Finding:
        started = time.perf_counter()
        problem, done = self._run(context)
        wall = time.perf_counter() - started
        if done is None:
            return Finding(self.name, GateVerdict.RED, problem, self.binding, wall, {"problem": problem})
        verdict, message = self._judge(done)
        evidence = {"exit_code": done.exit_code, "timed_out": done.timed_out, "check_wall_s": round(done.wall_s, 6)}
        (context.evidence / f"{self.name}.out").write_bytes(done.stdout + done.stderr)
        return Finding(self.name, verdict, message, self.binding, wall, evidence)

    def _run(self, context: GateContext) -> tuple[str, Completed | None]:
        with _copy_of(context.workspace, context.task) as copy:
            if isinstance(copy, str):
                return copy, None
            session = context.open_session(copy, self.name)
            try:
                return "", session.run(Command(self.argv(context.task), timeout_s=self.timeout_s))
            finally:
                session.close()

    def _judge(self, done: Completed) -> tuple[GateVerdict, str]:
        if done.cancelled:
            raise SandboxError(f"the check '{self.name}' was cancelled")
        if done.timed_out:
            return GateVerdict.BROKEN, f"the check '{self.name}' did not end within {self.timeout_s:g} s"
        if done.exit_code == 0:
            return GateVerdict.GREEN, ""
        output = (done.stdout + done.stderr)[-self.max_feedback_bytes :].decode("utf-8", "replace").strip()
        return GateVerdict.RED, f"RED: the check '{self.name}' exited {done.exit_code}\n{output}".strip()


@contextmanager
def _copy_of(workspace: Path, task: Task) -> Iterator[Path | str]:
    """A private copy of the work with the protected files restored, or why none could be made."""
    place = Path(tempfile.mkdtemp(prefix="recurve-check-", dir=workspace.parent))
    place.chmod(0o700)
    copy = place / "workspace"
    try:
        problem = _copy_or_say(workspace, copy, task)
        yield problem or copy
    finally:
        remove(place)


def _copy_or_say(workspace: Path, copy: Path, task: Task) -> str:
    """Make the copy, or say what about the workspace prevents it. Raises InfraError for this machine's trouble."""
    try:
        problem = _copy_tree(workspace, copy)
        if not problem:
            for path in task.protected:
                _lay(copy, path, task.public[path])
    except OSError as error:
        if error.errno in _OF_THE_MACHINE:
            raise InfraError(f"no copy of the workspace can be made: {error.strerror}") from error
        return f"RED: the workspace cannot be copied: {error.strerror}"
    return problem


def _lay(copy: Path, path: str, content: bytes) -> None:
    """Put a protected file in its place, whatever stands there or in its way."""
    target = copy / path
    for step in [*reversed(target.relative_to(copy).parents), target.relative_to(copy)]:
        here = copy / step
        if here == target and here.is_dir() and not here.is_symlink():
            shutil.rmtree(here)
        elif here.is_symlink() or (here.exists() and not here.is_dir()):
            here.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def _copy_tree(source: Path, target: Path) -> str:
    """Copy regular files and directories, never following a link; say why where that is refused.

    What an agent can do to its workspace is the agent's doing, so a tree that is beyond the bounds is
    rejected work and not trouble of the harness.
    """
    if not source.is_dir() or source.is_symlink():
        return "RED: the workspace is gone"
    left_bytes, left_files = MAX_COPY_BYTES, MAX_COPY_FILES
    for here, directories, files in os.walk(source, followlinks=False):
        inside = Path(here).relative_to(source)
        if len(inside.parts) > MAX_COPY_DEPTH:
            return f"RED: the workspace is nested deeper than {MAX_COPY_DEPTH} directories"
        left_files -= len(files) + len(directories)
        if left_files < 0:
            return f"RED: the workspace holds more than {MAX_COPY_FILES} files"
        (target / inside).mkdir(parents=True, exist_ok=True)
        directories[:] = [d for d in directories if d != ".git" and not (Path(here) / d).is_symlink()]
        for name in files:
            left_bytes -= _copy_file(Path(here) / name, target / inside / name, left_bytes)
            if left_bytes < 0:
                return f"RED: the workspace is larger than {MAX_COPY_BYTES // 2**20} MiB"
    return ""


def _copy_file(path: Path, target: Path, room: int) -> int:
    """Copy a regular, readable file that fits; its size. What cannot be read is left out of the copy."""
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        return 0
    if info.st_size <= room:
        with contextlib.suppress(PermissionError):
            target.write_bytes(path.read_bytes())
            target.chmod(0o700 if info.st_mode & stat.S_IXUSR else 0o600)
    return info.st_size
