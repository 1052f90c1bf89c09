"""Claude Code (``claude -p``) as an agent: its stream of events gives usage, served model, cost and turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from recurve_eval.agents._cli import Program, Retry, credentials, lacking, version_of
from recurve_eval.agents._meter import at
from recurve_eval.domain import JSON, CostSource, Turn, Usage
from recurve_eval.ports import Session, TurnRequest

BUSY = frozenset({408, 409, 429, 500, 502, 503, 504, 522, 524, 529})
_FLAGS = ("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--no-session-persistence",
          "--strict-mcp-config", "--permission-mode", "acceptEdits")  # fmt: skip


@dataclass
class ClaudeCodeAgent:
    """Its HOME is the cell's scratch directory, so no memory, login or plugin of the user or another cell is there.

    Fields
    ------
    program_path : name or path of the command, as the sandbox sees it.
    credentials : environment variables that its own commands get; nothing else of this process's reaches it.
    base_url : the endpoint (ANTHROPIC_BASE_URL); empty is the vendor's.
    tools : its tools that need no permission.
    web : whether it may search and fetch the web through its vendor, whatever the sandbox's network is.
    args : further arguments, such as ``[--effort, low]``.
    env : further environment variables (no secrets).
    attempts : starts at most, where its endpoint is busy, drops the connection or cannot be reached.
    backoff_s, max_backoff_s : seconds before the second start, doubling up to the most; not the agent's time.
    max_output_kb : KiB of its events that are kept as transcript.
    """

    name: str = "claude_code"
    program_path: str = "claude"
    credentials: list[str] = field(default_factory=lambda: ["ANTHROPIC_API_KEY"])
    base_url: str = ""
    tools: list[str] = field(default_factory=lambda: ["Bash", "Edit", "Read", "Write"])
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
            "version": self._version, "base_url": self.base_url, "tools": list(self.tools), "web": self.web,
            "args": list(self.args), "env": dict(self.env), "credentials": sorted(self.credentials),
        }  # fmt: skip

    def meters(self) -> str:
        return "cost"

    def check(self) -> str | None:
        return lacking(self.program_path, self.credentials, "@anthropic-ai/claude-code")

    def program(self) -> str | None:
        return self.program_path

    def run(self, request: TurnRequest, session: Session) -> Turn:
        program = Program(
            self._argv(request), self._environment(), ClaudeReader, self._retry(), self.max_output_kb * 1024
        )
        return program.turn(request, session)

    def _argv(self, request: TurnRequest) -> list[str]:
        words = [self.program_path, *_FLAGS, "--allowed-tools", ",".join(self.tools)]
        words += [] if self.web else ["--disallowed-tools", "WebSearch,WebFetch"]
        words += ["--model", request.model.id] if request.model.id else []
        usd = request.allowance.usd
        words += [] if usd is None else ["--max-budget-usd", f"{max(usd, 0.0001):.4f}"]
        return [*words, *self.args]

    def _environment(self) -> dict[str, str]:
        # Its own retries would hide attempts and waiting from the count, and its own updates would change the agent.
        quiet = {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_AUTOUPDATER": "1",
        }
        where = {"ANTHROPIC_BASE_URL": self.base_url} if self.base_url else {}
        return quiet | where | dict(self.env) | credentials(self.credentials)

    def _retry(self) -> Retry:
        return Retry(self.attempts, self.backoff_s, self.max_backoff_s)

    @cached_property
    def _version(self) -> str | None:
        return version_of(self.program_path)


class ClaudeReader:
    """The events of one start. Calls are told apart by message id; each states its usage as it begins and ends.

    The closing ``result`` has the sums over all models in ``modelUsage`` (its ``usage`` leaves repeated calls out) and
    the cost by the program's own price list. The model that served stands in the messages alone.
    """

    stuck = False

    def __init__(self) -> None:
        self.busy = self.refused = self.summary = ""
        self.spent_out = False
        self.model: str | None = None
        self._calls: dict[str, dict[str, int]] = {}
        self._open: dict[str | None, str] = {}
        self._result: dict[str, Any] | None = None

    def minor(self, event: dict[str, Any]) -> bool:
        return event.get("type") == "stream_event"

    def take(self, event: dict[str, Any]) -> None:
        kind, speaker = event.get("type"), event.get("parent_tool_use_id")
        inner = at(event, "event.type")
        if kind == "assistant" and isinstance(event.get("message"), dict):
            self._message(event["message"], speaker)
        elif kind == "stream_event" and inner == "message_start" and isinstance(at(event, "event.message"), dict):
            self._open[speaker] = str(at(event, "event.message.id"))
            self._message(event["event"]["message"], speaker)
        elif kind == "stream_event" and inner == "message_delta":
            self._count(self._open.get(speaker, ""), at(event, "event.usage"))
        elif kind == "stream_event" and inner == "message_stop":
            self._open.pop(speaker, None)
        elif kind == "result":
            self._end(event)

    def usage(self) -> Usage:
        if self._result is not None:
            return self._final(self._result)
        if self._open or not self._calls:
            return Usage()
        told = {k: sum(call[k] for call in self._calls.values()) for k in ("in", "out", "cached")}
        return Usage(told["in"], told["out"], told["cached"], steps=len(self._calls))

    def _message(self, message: dict[str, Any], speaker: str | None) -> None:
        model = message.get("model")
        if model == "<synthetic>":  # the program's own words, after no call at all
            return
        if speaker is None and isinstance(model, str) and model:
            self.model = model[:200]
        self._count(str(message.get("id")), message.get("usage"))

    def _count(self, call: str, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        held = self._calls.setdefault(call, {"in": 0, "out": 0, "cached": 0})
        cached = _tokens(usage.get("cache_read_input_tokens"))
        fresh = _tokens(usage.get("input_tokens")) + _tokens(usage.get("cache_creation_input_tokens"))
        for key, value in (("in", fresh + cached), ("out", _tokens(usage.get("output_tokens"))), ("cached", cached)):
            held[key] = max(held[key], value)

    def _end(self, event: dict[str, Any]) -> None:
        self._result, self._open = event, {}
        self.summary = str(event.get("result") or "")
        self.spent_out = event.get("subtype") == "error_max_budget_usd"
        if not event.get("is_error"):
            return
        status = event.get("api_error_status")
        lost = status is None and self.summary.startswith("API Error") and "onnection" in self.summary
        if status in BUSY or lost:
            self.busy = self.summary[:300]
        elif status in (401, 402, 403, 404):
            self.refused = self.summary[:300]

    def _final(self, event: dict[str, Any]) -> Usage:
        models = event.get("modelUsage")
        rows = [m for m in models.values() if isinstance(m, dict)] if isinstance(models, dict) else []

        def total(*names: str) -> int:
            return sum(_tokens(row.get(name)) for row in rows for name in names)

        cost = event.get("total_cost_usd")
        known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9
        return Usage(
            total("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"), total("outputTokens"),
            total("cacheReadInputTokens"), float(cost) if known and cost is not None else None,
            CostSource.REPORTED if known else CostSource.UNKNOWN, len(self._calls),
        )  # fmt: skip


def _tokens(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
