"""A command as a gate component: the task's visible tests, or any CI command."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from recurve_eval.domain import JSON, Finding, GateVerdict, Task
from recurve_eval.errors import ConfigError, InfraError, SandboxError
from recurve_eval.gates.copies import copy_of
from recurve_eval.gates.probes import asked_twice
from recurve_eval.ports import Command, Completed, GateContext


@dataclass
class CommandCheck:
    """Runs a command on a copy of the work, in the agent's sandbox.

    Exit 0 is GREEN and any other exit RED. A command that outlives its time is asked once more, in a fresh
    copy, because the machine may have stood still; one that does so twice is BROKEN, which rejects as RED
    does and says so: what has not answered has not approved. The copy means that a check cannot alter the
    work it judges; the task's protected files are laid over it, so that weakened tests do not count.

    Attributes
    ----------
    command : list of str, optional
        The command's words; ``None`` takes the task's own visible check.
    prepare_command : list of str, optional
        Run once in the workspace, inside the agent's sandbox, before the agent starts: to install a hook, say. A
        failure is the machinery's.
    timeout_s : float
        Seconds allowed to each asking of a command.
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
    prepare_command: list[str] | None = None

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
        if not self.prepare_command:
            return
        done = context.session.run(Command(tuple(self.prepare_command), timeout_s=self.timeout_s))
        if done.exit_code != 0:
            said = (done.stdout + done.stderr)[-400:].decode("utf-8", "replace").strip()
            how = f"did not end within {self.timeout_s:g} s" if done.timed_out else f"exited {done.exit_code}"
            raise InfraError(f"gate.checks.prepare_command of '{self.name}' {how}: {said}")

    def check(self, context: GateContext) -> Finding:
        started = time.perf_counter()
        problem, askings = self._ask(context)
        wall = time.perf_counter() - started
        if problem:
            return Finding(self.name, GateVerdict.RED, problem, self.binding, wall, {"problem": problem})
        done, own_s = askings[-1], sum(a.wall_s for a in askings)
        verdict, message = self._judge(done)
        if len(askings) > 1:
            context.record.retried.append(asked_twice(self.name, self.timeout_s, verdict, own_s))
        evidence = {
            "exit_code": done.exit_code, "timed_out": done.timed_out, "asked": len(askings),
            "check_wall_s": round(own_s, 6),
        }  # fmt: skip
        (context.evidence / f"{self.name}.out").write_bytes(done.stdout + done.stderr)
        return Finding(self.name, verdict, message, self.binding, wall, evidence)

    def _ask(self, context: GateContext) -> tuple[str, list[Completed]]:
        """What about the work prevents an answer, or how each asking ended: two where the first timed out."""
        askings: list[Completed] = []
        while not askings or (askings[-1].timed_out and len(askings) < 2):
            problem, done = self._run(context)
            if done is None:
                return problem, []
            askings.append(done)
        return "", askings

    def _run(self, context: GateContext) -> tuple[str, Completed | None]:
        with copy_of(context.workspace, context.task) as copy:
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
            return GateVerdict.BROKEN, f"the check '{self.name}' timed out twice (limit {self.timeout_s:g} s)"
        if done.exit_code == 0:
            return GateVerdict.GREEN, ""
        output = (done.stdout + done.stderr)[-self.max_feedback_bytes :].decode("utf-8", "replace").strip()
        return GateVerdict.RED, f"RED: the check '{self.name}' exited {done.exit_code}\n{output}".strip()
