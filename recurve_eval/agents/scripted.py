"""A simulated agent of stated skill. It calls no model, costs nothing, and every report says so.

Its draws are hashes of (agent seed, task, model name, seed, stream, cycle), so a run repeats exactly, paired arms start
from the same first draft, and another stream is an independent repetition. It works like a real agent does: through
commands in the sandbox, leaving a run record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from recurve_eval.agents._appetite import Appetite
from recurve_eval.agents._appetite import script as hunger
from recurve_eval.agents._authoring import STYLES, claims_files
from recurve_eval.agents._cheating import attack, cheated
from recurve_eval.agents._hostile import BEHAVIOURS, script_of
from recurve_eval.agents._script import SHELL, put, write_files
from recurve_eval.agents.record import read_record, turn_of
from recurve_eval.domain import JSON, KnownBad, Phase, Solutions, Turn
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.ports import Command, Session, TurnRequest


@dataclass
class ScriptedAgent:
    """Fields
    ------
    seed : part of every draw; another seed is another agent of the same skill.
    overconfidence : probability, 0 to 1, that it declares wrong work done.
    repair : probability, 0 to 1, that a rejection fed back turns wrong work into right work on the next cycle.
    noise : probability, 0 to 1, that a later cycle spoils right work.
    cheat : where its work is wrong, the attack on its grader that it puts in front: a name of oracle/exploits.
    appetite_tokens : tokens that it burns in simulated model calls before it writes anything; 0 for none.
    call_tokens : tokens of one of those calls, and ``call_s`` its seconds; each is reported as it ends.
    behaviour : ``honest``, or one of the ways to misbehave that the harness has to survive.
    check_quality : probability, 0 to 1, that its probe rejects a known-bad solution; each is drawn by itself.
    answers_contests : whether it holds its ground where a reviewer contests a claim, and says so.
    checks : ``honest``, or one of the ways in which authored claims have been seen to be worthless.
    """

    name: str = "scripted"
    seed: int = 0
    overconfidence: float = 1.0
    repair: float = 0.5
    noise: float = 0.0
    cheat: str = ""
    appetite_tokens: int = 0
    call_tokens: int = 8000
    call_s: float = 0.02
    behaviour: str = "honest"
    check_quality: float = 1.0
    checks: str = "honest"
    answers_contests: bool = False
    paid = False
    simulated = True

    def pins(self) -> Mapping[str, JSON]:
        for field in ("overconfidence", "repair", "noise", "check_quality"):
            _probability(f"agent.{field}", getattr(self, field))
        if self.appetite_tokens < 0 or self.call_tokens < 1 or not self.call_s >= 0:
            raise ConfigError("agent.appetite_tokens and call_s must not be negative, and call_tokens at least 1")
        if self.behaviour != "honest" and self.behaviour not in BEHAVIOURS:
            raise UnknownName("behaviour", self.behaviour, ["honest", *BEHAVIOURS], "agent.behaviour")
        if self.checks not in STYLES:
            raise UnknownName("style of checks", self.checks, STYLES, "agent.checks")
        return {
            "seed": self.seed,
            "overconfidence": self.overconfidence,
            "repair": self.repair,
            "noise": self.noise,
            "cheat": {k: hashlib.sha256(v).hexdigest() for k, v in attack(self.cheat).items()} if self.cheat else {},
            "appetite": [self.appetite_tokens, self.call_tokens, self.call_s],
            "behaviour": self.behaviour,
            "check_quality": self.check_quality,
            "checks": self.checks,
            "answers_contests": self.answers_contests,
        }

    def check(self) -> str | None:
        return None

    def run(self, request: TurnRequest, session: Session) -> Turn:
        if request.answers is None:
            raise ConfigError("the scripted agent plays from a task's solutions; this benchmark gives none")
        if request.answers.program:
            raise ConfigError(
                f"the scripted agent writes files, and the solution of {request.task.id} is a program that runs in its "
                "container; use another agent"
            )
        if request.phase is Phase.AUTHOR:
            return self._author(request, request.answers, session)
        right = not request.answers.impossible and self._is_right(request, request.cycle)
        kind, files = ("canonical", request.answers.canonical) if right else self._wrong(request, request.answers)
        if self.cheat and not right:
            kind, files = f"cheating ({self.cheat})", cheated(self.cheat, files)
        done = right or self._draw(request, "declare", request.cycle) < self.overconfidence
        record = self._record(request, files, done, kind)
        script = write_files({**files, **self._answer(request.prompt)}) + put(record, b'"$RECURVE_RESULT_FILE"')
        if self.behaviour != "honest":
            script += script_of(self.behaviour, (*request.task.capture.paths, *files)[0])
        if self.appetite_tokens:
            script = hunger(self.appetite_tokens, self.call_tokens, self.call_s) + script
        appetite = Appetite(request)
        watch = appetite.watch if self.appetite_tokens else None
        finished = session.run(Command(SHELL, script, timeout_s=request.allowance.wall_s, watch=watch))
        turn = turn_of(finished, appetite.joined(read_record(session)), paid=False)
        return replace(turn, detail=f"simulated: {kind} solution {turn.detail}".strip())

    def _answer(self, prompt: str) -> dict[str, bytes]:
        """An answer to each contest that the prompt tells of, where this agent holds its ground."""
        asked = re.findall(r"say in (\.recurve/answers/[\w.-]+) why", prompt) if self.answers_contests else []
        return dict.fromkeys(asked, b"The task says what the work does; the counterexample misreads it.\n")

    def _author(self, request: TurnRequest, answers: Solutions, session: Session) -> Turn:
        """State claims; a second turn, after a refusal, states the same."""

        def catches(bad: KnownBad) -> bool:
            return self._draw(request, f"catch {bad.kind}", 1) < self.check_quality

        stub = {path: request.task.public.get(path, b"") for path in answers.canonical}
        files = claims_files(answers, stub, self.checks, catches)
        script = write_files(files) + put(self._record(request, files, False, "claims"), b'"$RECURVE_RESULT_FILE"')
        finished = session.run(Command(SHELL, script, timeout_s=request.allowance.wall_s))
        return replace(turn_of(finished, read_record(session), paid=False), detail="simulated: claims")

    def _is_right(self, request: TurnRequest, cycle: int) -> bool:
        """Whether the work is right after ``cycle``: right work stays right, wrong work may be repaired."""
        skill = request.model.skill
        if skill is None:
            raise ConfigError(f"model '{request.model.name}' states no skill: a scripted agent needs model.skill")
        _probability("model.skill", skill)
        if cycle > 1 and self._draw(request, "noise", cycle) < self.noise:
            return False
        if self._draw(request, "solve", 1) < skill:
            return True
        return any(self._draw(request, "repair", later) < self.repair for later in range(2, cycle + 1))

    def _wrong(self, request: TurnRequest, answers: Solutions) -> tuple[str, Mapping[str, bytes]]:
        if not answers.known_bad:
            return "unfinished", dict.fromkeys(answers.canonical, b"raise NotImplementedError\n")
        pick = int(self._draw(request, "wrong", request.cycle) * len(answers.known_bad))
        bad = answers.known_bad[pick]
        return bad.kind, bad.files

    def _record(self, request: TurnRequest, files: Mapping[str, bytes], done: bool, kind: str) -> bytes:
        written = sum(map(len, files.values()))
        thought = int(400 * self._draw(request, "tokens", request.cycle))
        record = {
            "simulated": True,
            "model": request.model.id or request.model.name,
            "tokens": {"input": 400 + len(request.prompt) // 4, "output": written // 4 + thought, "cached": 0},
            "cost_usd": 0.0,
            "steps": 1,
            "declared_done": done,
            "summary": f"simulated: wrote the {kind}" + ("" if kind == "claims" else " solution"),
        }
        return json.dumps(record).encode()

    def _draw(self, request: TurnRequest, purpose: str, cycle: int) -> float:
        """A number in [0, 1), uniform over its coordinates."""
        where = [purpose, self.seed, request.task.id, request.model.name, request.seed, request.stream, cycle]
        return int.from_bytes(hashlib.sha256(json.dumps(where).encode()).digest()[:6]) / 2**48


def _probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"{name} is a probability from 0 to 1; got {value}")
