"""Plays recorded submissions back. No model runs, so it is free and another turn could not differ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from recurve_eval.agents._recorded_claims import recorded_claims
from recurve_eval.agents._script import SHELL, write_files
from recurve_eval.agents.record import RunRecord, turn_of
from recurve_eval.domain import JSON, Phase, Turn, TurnStatus
from recurve_eval.errors import ConfigError
from recurve_eval.ports import Command, Session, TurnRequest
from recurve_eval.recordings import Recording, read_file, recordings


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
            played = self._recorded[request.task.id, request.seed]
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
        claims = recorded_claims(path, played.solution, played.checks or ()) if authoring else None
        script = write_files({path: played.solution} if claims is None else claims)
        done = session.run(Command(SHELL, script, timeout_s=request.allowance.wall_s))
        turn = turn_of(done, RunRecord("missing", model=played.model, declared_done=True), paid=False)
        finished = turn.status is TurnStatus.COMPLETED
        return replace(turn, repairable=False, declared_done=finished, summary="recorded submission")

    @cached_property
    def _bytes(self) -> bytes:
        return read_file(self.submissions, "agent.submissions")

    @cached_property
    def _recorded(self) -> dict[tuple[str, int], Recording]:
        recorded: dict[tuple[str, int], Recording] = {}
        for where, record in recordings(self.submissions, self._bytes):
            if self.model and record.model != self.model:
                continue
            key = (record.task_id, record.attempt)
            if key in recorded:
                raise ConfigError(
                    f"{where}: task {record.task_id}, attempt {record.attempt} stands twice; agent.model=NAME picks one"
                )
            recorded[key] = record
        return recorded
