"""Plays recorded submissions back. No model runs, so it is free and another turn could not differ."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from recurve_eval.agents._recorded_claims import recorded_claims
from recurve_eval.agents._script import SHELL, write_files
from recurve_eval.agents.record import RunRecord, turn_of
from recurve_eval.domain import JSON, Phase, Turn, TurnStatus, is_text
from recurve_eval.errors import ConfigError
from recurve_eval.ports import Command, Session, TurnRequest


@dataclass
class ReplayAgent:
    """Fields
    ------
    submissions : path of a JSONL file, plain or .gz; each line has task_id, attempt, model, solution.
    model : play only this recorded model; empty plays every line.

    Seed n plays attempt n. The solution becomes the first path that the task captures. In an author phase the line's
    ``authored_checks`` (assert statements by the same model), where there are any, become a claim.
    """

    name: str = "replay"
    submissions: str = "???"
    model: str = ""
    paid = False
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        digest = hashlib.sha256(self._bytes).hexdigest()
        return {"submissions_sha256": digest, "submissions": len(self._recorded), "model": self.model}

    def check(self) -> str | None:
        try:
            return None if self._recorded else f"{self.submissions} holds no submission of model '{self.model}'"
        except ConfigError as error:
            return str(error)

    def covers(self, task_ids: Iterable[str], seeds: Iterable[int]) -> list[str]:
        """What is asked for and not recorded, as ``TASK attempt N``. Raises ConfigError on a bad file."""
        wanted = [(task, seed) for task in task_ids for seed in seeds]
        return [f"{task} attempt {seed}" for task, seed in wanted if (task, seed) not in self._recorded]

    def run(self, request: TurnRequest, session: Session) -> Turn:
        try:
            model, solution, checks = self._recorded[request.task.id, request.seed]
        except KeyError:
            raise ConfigError(
                f"{self.submissions} holds no submission for task {request.task.id}, attempt {request.seed}"
            ) from None
        if not request.task.capture.paths:
            raise ConfigError(
                f"the replay agent writes one named file, and task {request.task.id} takes whatever differs in its "
                "workspace; use another agent"
            )
        path = request.task.capture.paths[0]
        authoring = request.phase is Phase.AUTHOR
        script = write_files(recorded_claims(path, solution, checks) if authoring else {path: solution})
        done = session.run(Command(SHELL, script, timeout_s=request.allowance.wall_s))
        turn = turn_of(done, RunRecord("missing", model=model, declared_done=True), paid=False)
        finished = turn.status is TurnStatus.COMPLETED
        return replace(turn, repairable=False, declared_done=finished, summary="recorded submission")

    @cached_property
    def _bytes(self) -> bytes:
        try:
            return Path(self.submissions).read_bytes()
        except OSError as error:
            raise ConfigError(f"agent.submissions: cannot read '{self.submissions}': {error.strerror}") from None

    @cached_property
    def _recorded(self) -> dict[tuple[str, int], tuple[str, bytes, tuple[str, ...]]]:
        data = self._bytes
        try:
            text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.submissions} is neither UTF-8 JSONL nor a gzip of it: {error}") from None
        recorded: dict[tuple[str, int], tuple[str, bytes, tuple[str, ...]]] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            key, model, solution, checks = self._line(line, number)
            if self.model and model != self.model:
                continue
            if key in recorded:
                where = f"{self.submissions}:{number}"
                raise ConfigError(f"{where}: task {key[0]}, attempt {key[1]} stands twice; agent.model=NAME picks one")
            recorded[key] = (model, solution, checks)
        return recorded

    def _line(self, line: str, number: int) -> tuple[tuple[str, int], str, bytes, tuple[str, ...]]:
        where = f"{self.submissions}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{where}: not JSON: {error}") from None
        fields = {"task_id": str, "attempt": int, "model": str, "solution": str}
        for name, kind in fields.items():
            value = row.get(name) if isinstance(row, dict) else None
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ConfigError(f"{where}: '{name}' must be {kind.__name__}; got {value!r}")
        for name in ("task_id", "model"):
            if not is_text(row[name]):
                raise ConfigError(f"{where}: '{name}' is not text (it holds half of a surrogate pair)")
        solution = row["solution"].encode("utf-8", "surrogatepass")
        checks = row.get("authored_checks") or []
        if not isinstance(checks, list) or not all(isinstance(check, str) for check in checks):
            raise ConfigError(f"{where}: 'authored_checks' must be a list of assert statements")
        return (row["task_id"], row["attempt"]), row["model"], solution, tuple(checks)
