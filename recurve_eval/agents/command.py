"""Any command as an agent: prompt on stdin, the workspace as its working directory, a run record if it likes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from recurve_eval.agents.record import read_record, turn_of
from recurve_eval.domain import JSON, Turn
from recurve_eval.errors import ConfigError
from recurve_eval.ports import Command, Session, TurnRequest


@dataclass
class CommandAgent:
    """Fields
    ------
    argv : the command and its arguments; ``{python}`` stands for the sandbox's interpreter.
    command : instead of ``argv``, one line for ``/bin/sh -c``.
    env : further environment variables (no secrets here: name those in ``sandbox.pass_env``).
    paid : whether a turn costs money; false must be said, and then a turn is known to cost 0 dollars.
    max_output_kb : KiB of each output that is kept as transcript; the rest is read, counted and dropped.
    """

    name: str = "command"
    argv: list[str] = field(default_factory=list)
    command: str = ""
    env: dict[str, str] = field(default_factory=dict)
    paid: bool = True
    max_output_kb: int = 256
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        return {"argv": self.words(), "env": dict(self.env)}

    def words(self) -> list[str]:
        """The command as the sandbox runs it. Raises ConfigError unless exactly one of argv and command is given."""
        if bool(self.argv) == bool(self.command):
            raise ConfigError(
                "agent command: give either agent.argv or agent.command, e.g. agent.command='my-agent -p'"
            )
        return list(self.argv) or ["/bin/sh", "-c", self.command]

    def check(self) -> str | None:
        try:
            program = self.words()[0]
        except ConfigError as error:
            return str(error)
        relative = "/" in program and not program.startswith("/")  # it will be looked for in the workspace
        if program == "{python}" or relative or shutil.which(program):
            return None
        return f"agent command '{program}' was not found: install it, or give agent.argv an absolute path"

    def program(self) -> str | None:
        first = self.argv[0] if self.argv else ""
        return first if first and first != "{python}" and not first.startswith(".") else None

    def run(self, request: TurnRequest, session: Session) -> Turn:
        told = {
            "RECURVE_MODEL": request.model.id or request.model.name,
            "RECURVE_SEED": str(request.seed),
            "RECURVE_CYCLE": str(request.cycle),
            "RECURVE_TASK_ID": request.task.id,
        }
        done = session.run(
            Command(
                argv=tuple(self.words()),
                stdin=request.prompt.encode("utf-8", "surrogateescape"),
                env=told | dict(self.env),
                timeout_s=request.allowance.wall_s,
                max_output_bytes=self.max_output_kb * 1024,
            )
        )
        return turn_of(done, read_record(session), paid=self.paid)
