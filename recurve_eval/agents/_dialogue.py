"""Model calls by the vendors' own libraries: the same dialogue over chat completions or over the messages API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from recurve_eval.agents._tools import TOOLS, schema
from recurve_eval.domain import Usage


class Busy(Exception):
    """The endpoint could not serve; ``spent`` says that the call may have used tokens that nobody counted."""

    def __init__(self, reason: str, spent: bool) -> None:
        super().__init__(reason[:300])
        self.spent = spent


class Late(Exception):
    """The call did not end within its time."""


class Declined(Exception):
    """The endpoint will not serve this request at all."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model asks for. ``arguments`` is None where they are no JSON object."""

    id: str
    tool: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said in one call, and what that call used."""

    text: str
    calls: tuple[Call, ...]
    usage: Usage
    model: str | None


class Dialogue(Protocol):
    def ask(self, timeout_s: float) -> Reply:
        """One model call. Raises Busy, Late or Declined."""

    def answer(self, answers: Sequence[tuple[Call, str]]) -> None:
        """Give the results of all tool calls of the latest reply."""


@dataclass
class ChatCompletions:
    """Any OpenAI-compatible endpoint. Its reply's ``prompt_tokens`` count the cached ones in."""

    base_url: str
    key: str
    model: str
    prompt: str
    system: str
    options: Mapping[str, Any]
    max_tokens: int
    _messages: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        import openai

        self._sdk = openai
        self._client = openai.OpenAI(api_key=self.key, base_url=self.base_url or None, max_retries=0)
        self._messages = [{"role": "system", "content": self.system}, {"role": "user", "content": self.prompt}]

    def ask(self, timeout_s: float) -> Reply:
        tools: list[Any] = [
            {"type": "function", "function": {"name": n, "description": d, "parameters": schema(p, r)}}
            for n, d, p, r in TOOLS
        ]
        options: dict[str, Any] = {"max_tokens": self.max_tokens, **self.options}
        done = _guarded(
            self._sdk,
            lambda: self._client.chat.completions.create(
                model=self.model,
                messages=self._messages,
                tools=tools,
                timeout=timeout_s,
                **options,
            ),
        )
        if not getattr(done, "choices", None):
            raise Busy("the endpoint answered without a choice", spent=True)
        message = done.choices[0].message
        self._messages.append(message.model_dump(exclude_none=True))
        calls = tuple(Call(c.id, c.function.name, _object(c.function.arguments)) for c in message.tool_calls or ())
        return Reply(message.content or "", calls, self._usage(done.usage), done.model or None)

    def _usage(self, told: Any) -> Usage:
        if told is None:
            return Usage(steps=1)
        details = getattr(told, "prompt_tokens_details", None)
        return Usage(told.prompt_tokens, told.completion_tokens, getattr(details, "cached_tokens", None) or 0, steps=1)

    def answer(self, answers: Sequence[tuple[Call, str]]) -> None:
        self._messages += [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in answers]


@dataclass
class Messages:
    """The messages API. Its reply's ``input_tokens`` leave out what was read from or written to a cache."""

    base_url: str
    key: str
    model: str
    prompt: str
    system: str
    options: Mapping[str, Any]
    max_tokens: int
    _messages: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        import anthropic

        self._sdk = anthropic
        self._client = anthropic.Anthropic(api_key=self.key, base_url=self.base_url or None, max_retries=0)
        self._messages = [{"role": "user", "content": self.prompt}]

    def ask(self, timeout_s: float) -> Reply:
        tools: list[Any] = [{"name": n, "description": d, "input_schema": schema(p, r)} for n, d, p, r in TOOLS]
        done = _guarded(
            self._sdk,
            lambda: self._client.messages.create(
                model=self.model, system=self.system, messages=self._messages, tools=tools, timeout=timeout_s,
                max_tokens=self.max_tokens, **self.options,
            ),
        )  # fmt: skip
        if not getattr(done, "content", None):
            raise Busy("the endpoint answered without content", spent=True)
        self._messages.append({"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in done.content]})
        text = "".join(b.text for b in done.content if b.type == "text")
        calls = tuple(Call(b.id, b.name, dict(b.input)) for b in done.content if b.type == "tool_use")
        used, cached = done.usage, done.usage.cache_read_input_tokens or 0
        total = used.input_tokens + cached + (used.cache_creation_input_tokens or 0)
        return Reply(text, calls, Usage(total, used.output_tokens, cached, steps=1), done.model or None)

    def answer(self, answers: Sequence[tuple[Call, str]]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in answers]
        self._messages.append({"role": "user", "content": blocks})


def _guarded(sdk: Any, call: Any) -> Any:
    """Make a call of a vendor's library, whose errors bear the same names in both. Raises Busy, Late or Declined."""
    try:
        return call()
    except sdk.APIStatusError as error:
        if error.status_code in (408, 409, 429) or error.status_code >= 500:
            raise Busy(str(error), spent=False) from None
        raise Declined(str(error)[:300]) from None
    except sdk.APITimeoutError as error:
        raise Late(str(error)) from None
    except sdk.APIConnectionError as error:
        raise Busy(f"{error} {error.__cause__ or ''}".strip(), spent=True) from None
    except (sdk.APIError, ValueError) as error:
        raise Busy(f"the endpoint's answer cannot be read: {error}", spent=True) from None


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
