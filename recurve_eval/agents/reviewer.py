"""A simulated reviewer of known character. It calls no model; its objections are real programs all the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from recurve_eval.agents._authoring import probe_text
from recurve_eval.agents._script import SHELL, put, quote
from recurve_eval.agents.record import read_record, turn_of
from recurve_eval.domain import JSON, Solutions, Turn
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.ports import Command, Session, TurnRequest

MOODS = ("honest", "agrees", "objects", "vague", "work_as_trap", "unreadable", "misled")


@dataclass
class ScriptedReviewer:
    """Fields
    ------
    served : the model that serves it, whatever was asked for; empty leaves its metadata silent.
    mood : ``honest`` reads the statement as it was meant; others show what the gate must withstand.
    catch : probability, 0 to 1, that an honest reviewer notices wrong work.
    seed : part of its draws.
    """

    name: str = "scripted_reviewer"
    served: str = "simulated-reviewer"
    mood: str = "honest"
    catch: float = 1.0
    seed: int = 0
    paid = False
    simulated = True

    def pins(self) -> Mapping[str, JSON]:
        if self.mood not in MOODS:
            raise UnknownName("mood", self.mood, MOODS, "reviewer.mood")
        return {"served": self.served, "mood": self.mood, "catch": self.catch, "seed": self.seed}

    def check(self) -> str | None:
        return None

    def run(self, request: TurnRequest, session: Session) -> Turn:
        if request.answers is None:
            raise ConfigError("the scripted reviewer plays from a task's solutions; this benchmark gives none")
        work = {path: self._read(path, session) for path in sorted(request.answers.canonical)}
        said = self._review(request, request.answers, work, self._read(".recurve/claims.yaml", session))
        text = "not a review" if said is None else json.dumps(said)
        record: dict[str, Any] = {"tokens": {"input": 300, "output": len(text) // 4}, "steps": 1, "cost_usd": 0.0}
        record |= {"model": self.served} if self.served else {}
        script = (
            b"printf '%s\\n' "
            + quote(text.encode())
            + b"\n"
            + put(json.dumps(record).encode(), b'"$RECURVE_RESULT_FILE"')
        )
        done = session.run(Command(SHELL, script, timeout_s=request.allowance.wall_s))
        return replace(turn_of(done, read_record(session), paid=False), detail=f"simulated: {self.mood} review")

    def _read(self, path: str, session: Session) -> bytes:
        return session.run(Command(("cat", "--", path), timeout_s=30)).stdout

    def _review(
        self, request: TurnRequest, answers: Solutions, work: Mapping[str, bytes], ledger: bytes
    ) -> dict[str, Any] | None:  # fmt: skip
        claim = json.loads(ledger)["claims"][0]["id"]
        right, wrong = _text(answers.canonical), _text(answers.known_bad[0].files if answers.known_bad else work)
        good = probe_text([answers.canonical])
        if self.mood == "unreadable":
            return None
        if self.mood == "agrees" or (self.mood == "honest" and not self._notices(request)):
            return {"verdict": "agree", "proposals": []}
        if self.mood == "vague":
            return {"verdict": "object", "reason": "I do not like it", "proposals": []}
        proposal = {
            "honest": {"probe": good, "wrong": wrong, "right": right, "reason": "the task asks for something else"},
            "objects": {"probe": "raise SystemExit(1)\n", "wrong": wrong, "reason": "it is wrong"},
            "work_as_trap": {"probe": "raise SystemExit(0)\n", "wrong": _text(work), "reason": "this is wrong"},
            "misled": {"probe": probe_text([answers.known_bad[0].files]), "right": wrong, "reason": "misread"}
            if answers.known_bad else {"probe": "raise SystemExit(1)\n", "reason": "misread"},
        }[self.mood]  # fmt: skip
        return {"verdict": "object", "proposals": [{"claim": claim, **proposal}]}

    def _notices(self, request: TurnRequest) -> bool:
        where = json.dumps([self.seed, self.served, request.task.id, request.cycle])
        return int.from_bytes(hashlib.sha256(where.encode()).digest()[:6]) / 2**48 < self.catch


def _text(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: content.decode("utf-8", "replace") for path, content in files.items()}
