"""Any command as an agent: prompt on stdin, the workspace as its working directory, a run record if it likes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from recurve_eval.agents._extract import Extractor, check_paths
from recurve_eval.agents._meter import Meter, Poll
from recurve_eval.agents.record import RunRecord, read_record, turn_of
from recurve_eval.domain import JSON, Turn
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.ports import Command, Session, TurnRequest

REPORTS = ("nothing", "tokens", "cost")


@dataclass
class CommandAgent:
    """Fields
    ------
    argv : the command and its arguments; ``{python}`` stands for the sandbox's interpreter.
    command : instead of ``argv``, one line for ``/bin/sh -c``.
    env : further environment variables (no secrets here: name those in ``sandbox.pass_env``).
    paid : whether a turn costs money; false must be said, and then a turn is known to cost 0 dollars.
    reports : ``nothing``, ``tokens`` or ``cost``: what its run record or ``usage`` is sure to tell of each turn.
    usage : JSON paths of figures in its output: tokens_in (cached input included), tokens_out, tokens_cached,
        cost_usd, steps, model; ``where`` (PATH=VALUE) chooses the lines that count, ``add`` (last or sum) says whether
        each line is a total or a part, ``file`` names a JSON file below the workspace to read instead of stdout.
    max_output_kb : KiB of each output that is kept as transcript; the rest is read, counted and dropped.
    """

    name: str = "command"
    argv: list[str] = field(default_factory=list)
    command: str = ""
    env: dict[str, str] = field(default_factory=dict)
    paid: bool = True
    reports: str = "nothing"
    usage: dict[str, str | None] = field(default_factory=dict)
    max_output_kb: int = 256
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        return {"argv": self.words(), "env": dict(self.env), "usage": self._paths()}

    def meters(self) -> str:
        if self.reports not in REPORTS:
            raise UnknownName("report", self.reports, REPORTS, "agent.reports")
        return self.reports

    def _paths(self) -> dict[str, str]:
        """The paths that are given; none where only ``add`` is. Raises ConfigError."""
        given = {key: path for key, path in self.usage.items() if path}
        paths = given if set(given) - {"add"} else {}
        check_paths(paths)
        return paths

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
        meter = Meter(request.allowance, request.rates if self.paid else None)
        paths = self._paths()
        reader = Extractor(paths, meter) if paths else None
        poll = Poll(lambda: self._look(session, meter))
        streaming = reader is not None and "file" not in paths

        def watch(chunk: bytes) -> str | None:
            return (reader.feed(chunk) if reader is not None and streaming else None) or (None if reader else poll())

        done = session.run(
            Command(
                argv=tuple(self.words()),
                stdin=request.prompt.encode("utf-8", "surrogateescape"),
                env=told | dict(self.env),
                timeout_s=request.allowance.wall_s,
                max_output_bytes=self.max_output_kb * 1024,
                watch=watch,
            )
        )
        record = read_record(session)
        if reader is not None:
            record = _joined(record, reader.finish(done.stdout if streaming else self._file(session)))
        return turn_of(done, record, paid=self.paid)

    def _look(self, session: Session, meter: Meter) -> str | None:
        """The run record as it stands now: an agent may rewrite it as it goes, and half a record is none."""
        record = read_record(session)
        return meter.set(record.usage) if record.state == "ok" else None

    def _file(self, session: Session) -> bytes:
        """The file that ``usage`` names, read by a command of the sandbox, which cannot be led astray by a link."""
        words = ("/bin/sh", "-c", '[ -f "$0" ] && head -c 1048576 -- "$0"', str(self.usage["file"]))
        return session.run(Command(words, timeout_s=10.0, max_output_bytes=1 << 20)).stdout


def _joined(said: RunRecord, found: RunRecord) -> RunRecord:
    """The run record with the usage that was found in the program's output, where any was."""
    if found.state == "missing":
        return said
    return replace(said, state=found.state, usage=found.usage, model=found.model or said.model)
