"""An agent's hunger for tokens, played out: one line of usage on stdout after each simulated model call."""

from __future__ import annotations

from dataclasses import replace

from recurve_eval.agents._extract import Extractor
from recurve_eval.agents._meter import Meter
from recurve_eval.agents.record import RunRecord
from recurve_eval.ports import TurnRequest

PATHS = {"tokens_in": "call.input", "tokens_out": "call.output", "steps": "call.steps", "add": "sum"}


def script(tokens: int, call_tokens: int, call_s: float) -> bytes:
    """A shell loop of ``call_tokens`` each until ``tokens`` are used; a call takes ``call_s`` seconds."""
    calls = -(-tokens // call_tokens)
    told = f'{{"call": {{"input": {call_tokens - call_tokens // 10}, "output": {call_tokens // 10}, "steps": 1}}}}'
    return f"n=0; while [ $n -lt {calls} ]; do sleep {call_s}; n=$((n+1)); echo '{told}'; done\n".encode()


class Appetite:
    """Watches the calls as they are made, and adds them to what the run record says of the rest."""

    def __init__(self, request: TurnRequest) -> None:
        self._reader = Extractor(PATHS, Meter(request.allowance, request.rates))
        self.watch = self._reader.feed

    def joined(self, said: RunRecord) -> RunRecord:
        found = self._reader.finish(b"")
        if found.state == "missing":
            return said
        rest = said.usage if said.state == "ok" else replace(found.usage, tokens_in=0, tokens_out=0, steps=0)
        return replace(said, state="ok", usage=found.usage + rest)
