"""What the agents that are other people's command-line programs share: starting, watching, retrying, counting."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from recurve_eval.agents._meter import JsonLines, Meter
from recurve_eval.agents.record import RunRecord, turn_of
from recurve_eval.domain import Turn, TurnStatus, Usage
from recurve_eval.errors import ConfigError
from recurve_eval.ports import Command, Completed, Session, TurnRequest

VERSION_SECONDS = 60.0
STUCK = "endpoint"


class Reader(Protocol):
    """Understands one program's events, of one start of it."""

    busy: str  # why its endpoint could not serve, where another start may help; else empty
    refused: str  # why its endpoint would not serve, where another start cannot help; else empty
    stuck: bool  # it waits for its endpoint without end
    spent_out: bool  # the program ended itself because of the dollars that it was allowed
    model: str | None
    summary: str

    def take(self, event: dict[str, Any]) -> None: ...
    def minor(self, event: dict[str, Any]) -> bool:
        """Whether an event is left out of the transcript."""

    def usage(self) -> Usage:
        """What the calls so far used; unknown as a whole where one of them is unfinished or untold."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a program is started when its endpoint is busy, and the seconds waited in between (doubling)."""

    attempts: int
    first_s: float
    most_s: float

    def __post_init__(self) -> None:
        if self.attempts < 1 or not 0 <= self.first_s <= self.most_s:
            raise ConfigError("agent.attempts must be at least 1, and 0 <= agent.backoff_s <= agent.max_backoff_s")

    def delay(self, attempt: int) -> float:
        return min(self.most_s, self.first_s * 2.0 ** (attempt - 1))


class Transcript:
    """The lines worth keeping, up to a bound; what came after is counted."""

    def __init__(self, reader: Reader, limit: int) -> None:
        self._reader, self._limit = reader, limit
        self.kept = bytearray()

    def add(self, line: bytes, event: dict[str, Any] | None) -> None:
        if (event is None or not self._reader.minor(event)) and len(self.kept) + len(line) < self._limit:
            self.kept += line + b"\n"


@dataclass
class Program:
    """One command line of the program, run as often as its endpoint makes necessary.

    ``marker`` and the bound of the transcript (bytes) are those of :class:`JsonLines` and :class:`Transcript`.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    reader: Callable[[], Reader]
    retry: Retry
    transcript_bytes: int
    marker: bytes = b""

    def turn(self, request: TurnRequest, session: Session) -> Turn:
        """Start it, and again after a wait where the endpoint was busy. All starts are one turn's usage."""
        meter = Meter(request.allowance, request.rates)
        waited, walls, said = 0.0, 0.0, bytearray()
        total: Usage | None = None
        for attempt in range(1, self.retry.attempts + 1):
            before, reader = total, self.reader()
            left = max(0.001, request.allowance.wall_s - walls)
            done, kept = self._start(request, session, reader, meter, before, left)
            used = reader.usage()
            total = used if before is None else before + used
            walls += done.wall_s
            said += kept
            if done.stopped == STUCK:
                done = replace(done, stopped=None, exit_code=1)
            again = bool(reader.busy) and done.exit_code is not None and not done.stopped and meter.over() is None
            if not again or attempt == self.retry.attempts or walls >= request.allowance.wall_s:
                break
            waited += self._wait(session, self.retry.delay(attempt))
        usage = total or Usage()
        record = RunRecord("missing" if usage == Usage() else "ok", usage, reader.model, None, reader.summary[:4000])
        turn = replace(
            turn_of(done, record, paid=True), wall_s=walls, attempts=attempt, waited_s=waited, stdout=bytes(said)
        )
        return _judged(turn, reader, attempt)

    def _start(
        self, request: TurnRequest, session: Session, reader: Reader, meter: Meter, before: Usage | None, left: float
    ) -> tuple[Completed, bytes]:
        transcript = Transcript(reader, self.transcript_bytes)

        def take(event: dict[str, Any]) -> str | None:
            reader.take(event)
            used = reader.usage()
            return meter.set(used if before is None else before + used) or (STUCK if reader.stuck else None)

        lines = JsonLines(take, self.marker, transcript.add)
        done = session.run(
            Command(
                tuple(self.argv), request.prompt.encode("utf-8", "surrogateescape"), dict(self.env), left,
                max_output_bytes=self.transcript_bytes, watch=lines.feed,
            )
        )  # fmt: skip
        lines.finish()
        return done, bytes(transcript.kept)

    def _wait(self, session: Session, seconds: float) -> float:
        """Wait inside the session, where a cancellation ends it."""
        started = time.monotonic()
        session.run(Command(("sleep", f"{seconds:.3f}"), timeout_s=seconds + 10.0))
        return time.monotonic() - started


def _judged(turn: Turn, reader: Reader, attempts: int) -> Turn:
    """Whose failure a failed turn is: the budget's, the endpoint's or the agent's."""
    if turn.status is not TurnStatus.FAILED:
        return turn
    if reader.spent_out:
        return replace(turn, status=TurnStatus.STOPPED, stopped_by="usd")
    if reader.busy or reader.refused:
        times = f" after {attempts} attempts" if attempts > 1 else ""
        return replace(turn, trouble=f"the model's endpoint failed{times}: {reader.busy or reader.refused}")
    return turn


def credentials(names: Sequence[str]) -> dict[str, str]:
    """The named environment variables of this process, for the agent's own commands alone."""
    return {name: os.environ[name] for name in names if name in os.environ}


def lacking(program: str, names: Sequence[str], package: str) -> str | None:
    """What a program needs and this machine lacks, with the remedy."""
    if shutil.which(program) is None:
        return f"'{program}' was not found: npm install -g {package}, or give agent.program_path"
    absent = [name for name in names if name not in os.environ]
    return f"agent.credentials names {', '.join(absent)}, unset here: export it" if absent else None


def version_of(program: str) -> str | None:
    """What ``program --version`` says, in a HOME of its own; None where it is not here or does not answer."""
    found = shutil.which(program)
    if found is None:
        return None
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "LANG": "C.UTF-8"}
        try:
            said = subprocess.run(
                [found, "--version"], env=environment, cwd=home, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=VERSION_SECONDS, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return None
    return said.stdout.decode(errors="replace").strip()[:200] or None
