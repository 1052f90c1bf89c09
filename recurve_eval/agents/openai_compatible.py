"""Our own agent: a model behind any OpenAI-compatible or Anthropic endpoint, with tools inside the sandbox.

The loop runs here, so a budget is looked at before every call and no call is begun beyond it; the key never enters the
sandbox, and the sandbox needs no network. One process inside serves the tools of a turn and keeps the interpreter.
"""

from __future__ import annotations

import importlib.util
import json
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Any

from recurve_eval.agents._cli import Retry
from recurve_eval.agents._dialogue import Busy, Call, ChatCompletions, Declined, Dialogue, Late, Messages, Reply
from recurve_eval.agents._meter import Meter
from recurve_eval.agents._tools import Toolbox
from recurve_eval.domain import JSON, Turn, TurnStatus, Usage
from recurve_eval.errors import UnknownName
from recurve_eval.ports import Session, TurnRequest

APIS: dict[str, tuple[Any, str]] = {"openai": (ChatCompletions, "openai"), "anthropic": (Messages, "anthropic")}
SYSTEM = (
    "You work in a git repository, your working directory, on the task that the user states. Use the tools to look, "
    "edit and test. When you have ended, call finish and say truthfully whether the work is done."
)


@dataclass
class OpenAICompatibleAgent:
    """Fields
    ------
    api : ``openai`` (chat completions) or ``anthropic`` (messages).
    base_url : the endpoint; empty is the vendor's.
    credential : the environment variable with its key; empty where the endpoint needs none.
    system : what the model is told beside the task.
    step_cap : model calls of one turn at most, a fuse against running on; the turn then fails.
    max_tokens : output tokens of one call at most.
    options : further parameters of each call, such as ``{temperature: 0}``.
    paid : whether a call costs money; false must be said, and then a turn is known to cost 0 dollars.
    attempts, backoff_s, max_backoff_s : tries of one call where the endpoint is busy, and the doubling seconds between.
    max_output_kb : KiB of the dialogue that are kept as transcript.
    """

    name: str = "openai_compatible"
    api: str = "openai"
    base_url: str = ""
    credential: str = "OPENAI_API_KEY"
    system: str = SYSTEM
    step_cap: int = 60
    max_tokens: int = 4096
    options: dict[str, Any] = field(default_factory=dict)
    paid: bool = True
    attempts: int = 5
    backoff_s: float = 2.0
    max_backoff_s: float = 60.0
    max_output_kb: int = 256
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        if self.api not in APIS:
            raise UnknownName("api", self.api, APIS, "agent.api")
        self._retry()
        own = ("api", "base_url", "system", "step_cap", "max_tokens", "options")
        return {name: getattr(self, name) for name in own}

    def meters(self) -> str:
        return "tokens"

    def check(self) -> str | None:
        module = APIS[self.api][1] if self.api in APIS else ""
        if module and importlib.util.find_spec(module) is None:
            return f"agent '{self.name}' needs the package {module}: pip install 'recurve-eval[agents]'"
        if self.credential and self.credential not in os.environ:
            return f"agent.credential names {self.credential}, unset here: export it"
        return None

    def run(self, request: TurnRequest, session: Session) -> Turn:
        kind = APIS[self.api][0]
        key = os.environ.get(self.credential, "") if self.credential else "none"
        dialogue: Dialogue = kind(
            self.base_url, key, request.model.id, request.prompt, self.system, dict(self.options), self.max_tokens
        )
        conversation = _Conversation(self, request, dialogue)
        with Toolbox(session, request.allowance.wall_s) as tools:
            conversation.hold(tools)
        return conversation.turn(tools)

    def _retry(self) -> Retry:
        return Retry(self.attempts, self.backoff_s, self.max_backoff_s)


def _answer_into(answer: Future[Reply], dialogue: Dialogue, left: float) -> None:
    try:
        answer.set_result(dialogue.ask(left))
    except BaseException as error:  # noqa: BLE001 - raised again by whoever awaits the answer
        answer.set_exception(error)


class _Conversation:
    """One turn under way."""

    def __init__(self, agent: OpenAICompatibleAgent, request: TurnRequest, dialogue: Dialogue) -> None:
        self._agent, self._request, self._dialogue = agent, request, dialogue
        self._retry = agent._retry()
        self._meter = Meter(request.allowance, request.rates if agent.paid else None)
        self._started = time.monotonic()
        self._waited = 0.0
        self._tries = 1
        self._lost = False  # a call may have used tokens that nobody counted
        self._status, self._stopped_by, self._trouble = TurnStatus.FAILED, "", ""
        self._model: str | None = None
        self._done: bool | None = None
        self._summary = self._detail = ""
        self._said = bytearray()

    def hold(self, tools: Toolbox) -> None:
        """Calls and tools until the model has ended or a bound is met."""
        for _ in range(self._agent.step_cap):
            reply = self._ask(tools)
            if reply is None or not self._answer(tools, reply):
                return
            over = self._meter.over()
            if over is not None:
                self._status, self._stopped_by = TurnStatus.STOPPED, over
                return
        self._detail = f"it had not ended after {self._agent.step_cap} calls (agent.step_cap)"

    def turn(self, tools: Toolbox) -> Turn:
        usage = Usage(steps=self._meter.usage.steps) if self._lost else self._meter.usage
        status, ended = self._status, tools.ended
        if ended is not None and (ended.cancelled or ended.timed_out) and status is TurnStatus.FAILED:
            status = TurnStatus.CANCELLED if ended.cancelled else TurnStatus.TIMED_OUT
        turn = Turn(
            status, 0 if status is TurnStatus.COMPLETED else None, usage, self._worked(), self._model, self._done,
            self._summary[:4000], "ok" if usage.tokens is not None else "missing", self._detail, bytes(self._said),
            ended.stderr if ended is not None else b"", stopped_by=self._stopped_by or None,
            attempts=self._tries, waited_s=self._waited, trouble=self._trouble,
        )  # fmt: skip
        return turn if self._agent.paid else replace(turn, usage=turn.usage.free())

    def _worked(self) -> float:
        return time.monotonic() - self._started - self._waited

    def _ask(self, tools: Toolbox) -> Reply | None:
        """One call, tried again where the endpoint is busy; None where the turn is over."""
        for attempt in range(1, self._retry.attempts + 1):
            left = self._request.allowance.wall_s - self._worked()
            if left <= 0 or tools.ended is not None:
                self._status = TurnStatus.TIMED_OUT if left <= 0 else TurnStatus.FAILED
                return None
            self._tries += attempt > 1
            try:
                reply = self._call(left, tools)
            except Declined as error:
                self._trouble = f"the model's endpoint refused: {error}"
                return None
            except Busy as error:
                self._lost = self._lost or error.spent
                self._trouble = f"the model's endpoint failed after {attempt} attempts: {error}"
                if attempt < self._retry.attempts:
                    self._wait(self._retry.delay(attempt), tools)
                continue
            except Late:
                self._lost, self._status = True, TurnStatus.TIMED_OUT
                return None
            if reply is None:
                self._lost = True
                return None
            self._trouble = ""
            self._model = reply.model or self._model
            self._meter.add(reply.usage)
            return reply
        return None

    def _call(self, left: float, tools: Toolbox) -> Reply | None:
        """The endpoint's reply, or None where the tools ended while it was awaited: nobody wants it any more."""
        answer: Future[Reply] = Future()
        threading.Thread(
            target=_answer_into, args=(answer, self._dialogue, left), name="model-call", daemon=True
        ).start()
        while tools.ended is None:
            if wait([answer], 0.05).done:
                return answer.result()
        return answer.result() if answer.done() else None

    def _wait(self, seconds: float, tools: Toolbox) -> None:
        until = time.monotonic() + seconds
        began = time.monotonic()
        while time.monotonic() < until and tools.ended is None:
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))
        self._waited += time.monotonic() - began

    def _answer(self, tools: Toolbox, reply: Reply) -> bool:
        """Run the tools that the model asks for; False where the turn is over."""
        self._note({"model": reply.model, "text": reply.text, "tokens": reply.usage.tokens})
        if not reply.calls:
            self._status, self._summary = TurnStatus.COMPLETED, reply.text
            return False
        answers = []
        for call in reply.calls:
            if call.tool == "finish" and call.arguments is not None:
                self._status, self._summary = TurnStatus.COMPLETED, str(call.arguments.get("summary", ""))
                self._done = call.arguments.get("done") is True
                return False
            text = self._run(tools, call)
            if text is None:
                self._detail = "its tools ended before it did"
                return False
            self._note({"tool": call.tool, "arguments": call.arguments, "answer": text})
            answers.append((call, text))
        self._dialogue.answer(answers)
        return True

    def _run(self, tools: Toolbox, call: Call) -> str | None:
        if call.arguments is None:
            return "the arguments are no JSON object"
        return tools.call(call.tool, call.arguments)

    def _note(self, event: Mapping[str, Any]) -> None:
        line = json.dumps(event, default=str).encode() + b"\n"
        if len(self._said) + len(line) <= self._agent.max_output_kb * 1024:
            self._said += line
