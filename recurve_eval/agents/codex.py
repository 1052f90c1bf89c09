"""Codex (``codex exec --json``) as an agent. Its events give the usage of a turn; its trace gives that of each call.

The JSON events name no model. The program's trace of its endpoint's own events does, call by call, so that trace is
switched on for this one module, read, and kept out of the transcript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from recurve_eval.agents._cli import Program, Retry, credentials, lacking, version_of
from recurve_eval.agents._meter import at
from recurve_eval.domain import JSON, Turn, Usage
from recurve_eval.ports import Session, TurnRequest

TRACE = "codex_api::sse::responses=trace"
MARKER = b"SSE event: "
VENDOR = "https://api.openai.com/v1"
BUSY = re.compile(
    r"\b(408|409|429|5\d\d)\b|stream disconnected|overloaded|error sending request|onnection|timed? ?out", re.IGNORECASE
)
REFUSED = re.compile(r"\b(401|402|403|404)\b|nauthorized|quota", re.IGNORECASE)
_FLAGS = ("exec", "--json", "--color", "never", "--skip-git-repo-check", "--ephemeral",
          "--dangerously-bypass-approvals-and-sandbox")  # fmt: skip


@dataclass
class CodexAgent:
    """Its HOME is the cell's scratch directory; its own sandbox is off, because ours is around it.

    Fields
    ------
    program_path : name or path of the command, as the sandbox sees it.
    credential : the environment variable that holds its key; nothing else of this process's reaches it.
    base_url : the endpoint of the responses API; empty is the vendor's.
    web : whether it may search the web through its vendor, whatever the sandbox's network is.
    args : further arguments, such as ``[-c, model_reasoning_effort=low]``.
    env : further environment variables (no secrets).
    attempts, backoff_s, max_backoff_s : starts where its endpoint is busy, and the doubling seconds between them, which
        are not counted as the agent's time.
    max_output_kb : KiB of its events that are kept as transcript.
    """

    name: str = "codex"
    program_path: str = "codex"
    credential: str = "OPENAI_API_KEY"
    base_url: str = ""
    web: bool = False
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    attempts: int = 5
    backoff_s: float = 2.0
    max_backoff_s: float = 60.0
    max_output_kb: int = 256
    paid = True
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        self._retry()
        return {
            "version": self._version, "base_url": self.base_url, "web": self.web, "args": list(self.args),
            "env": dict(self.env), "credential": self.credential,
        }  # fmt: skip

    def meters(self) -> str:
        return "tokens"

    def check(self) -> str | None:
        return lacking(self.program_path, [self.credential], "@openai/codex")

    def program(self) -> str | None:
        return self.program_path

    def run(self, request: TurnRequest, session: Session) -> Turn:
        # The trace goes to stderr; a budget is watched on stdout.
        argv = ["/bin/sh", "-c", 'exec "$0" "$@" 2>&1', self.program_path, *self._words(request), "-"]
        environment = dict(self.env) | {"RUST_LOG": TRACE} | credentials([self.credential])
        program = Program(argv, environment, CodexReader, self._retry(), self.max_output_kb * 1024, MARKER)
        return program.turn(request, session)

    def _words(self, request: TurnRequest) -> list[str]:
        # Its own retries would hide attempts and waiting from the count.
        provider = (
            f'{{name="study",base_url={json.dumps(self.base_url or VENDOR)},env_key={json.dumps(self.credential)},'
            'wire_api="responses",request_max_retries=0,stream_max_retries=0,supports_websockets=false}'
        )
        words = [*_FLAGS, "-c", 'model_provider="study"', "-c", f"model_providers.study={provider}"]
        words += [] if self.web else ["-c", 'web_search="disabled"']
        words += ["-m", request.model.id] if request.model.id else []
        return [*words, *self.args]

    def _retry(self) -> Retry:
        return Retry(self.attempts, self.backoff_s, self.max_backoff_s)

    @cached_property
    def _version(self) -> str | None:
        return version_of(self.program_path)


class CodexReader:
    """The events of one start: the program's own, and its endpoint's (``response.*``) from the trace."""

    spent_out = False

    def __init__(self) -> None:
        self.busy = self.refused = self.summary = ""
        self.model: str | None = None
        self._calls: list[Usage] = []
        self._open = self.stuck = False
        self._total: Usage | None = None

    def minor(self, event: dict[str, Any]) -> bool:
        return str(event.get("type")).startswith("response.")

    def take(self, event: dict[str, Any]) -> None:
        kind = str(event.get("type"))
        if kind.startswith("response."):
            self._endpoint(kind, event)
        elif kind == "turn.completed":
            self._total = _usage(event.get("usage"), "cached_input_tokens")
        elif kind in ("error", "turn.failed"):
            self._trouble(str(event.get("message") or at(event, "error.message") or ""))
        elif at(event, "item.type") == "agent_message":
            self.summary = str(at(event, "item.text") or "")

    def usage(self) -> Usage:
        steps = len(self._calls) or None
        if self._total is not None:
            return Usage(self._total.tokens_in, self._total.tokens_out, self._total.tokens_cached, steps=steps)
        if self._open or not self._calls:
            nothing_served = bool(self.busy or self.refused) and not self._open
            return Usage(0, 0, 0, steps=0) if nothing_served else Usage()
        total = self._calls[0]
        for call in self._calls[1:]:
            total = total + call
        return Usage(total.tokens_in, total.tokens_out, total.tokens_cached, steps=steps)

    def _endpoint(self, kind: str, event: dict[str, Any]) -> None:
        model = at(event, "response.model")
        if isinstance(model, str) and model:
            self.model = model[:200]
        if kind == "response.created":
            self._open = True
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._open = False
            self._calls.append(_usage(at(event, "response.usage"), "input_tokens_details.cached_tokens"))

    def _trouble(self, message: str) -> None:
        if REFUSED.search(message):
            self.refused = message[:300]
        elif BUSY.search(message):
            self.busy = message[:300]
        self.stuck = message.startswith("Reconnecting")


def _usage(told: Any, cached: str) -> Usage:
    """Usage in the responses API's words, where ``input_tokens`` counts the cached ones in."""
    if not isinstance(told, dict):
        return Usage()
    values = [at(told, key) for key in ("input_tokens", "output_tokens", cached)]
    if any(type(v) is not int or v < 0 for v in values[:2]):
        return Usage()
    return Usage(values[0], values[1], values[2] if type(values[2]) is int and values[2] >= 0 else None)
