"""Usage out of any program's own JSON, by paths that the agent's YAML names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from recurve_eval.agents._meter import JsonLines, Meter, at
from recurve_eval.agents.record import RunRecord, count, model_name, money
from recurve_eval.domain import CostSource, Usage
from recurve_eval.errors import ConfigError, UnknownName

FIGURES: dict[str, Callable[[Any], Any]] = {
    "tokens_in": count, "tokens_out": count, "tokens_cached": count, "cost_usd": money, "steps": count,
}  # fmt: skip
KEYS = (*FIGURES, "model", "where", "add", "file")


def check_paths(usage: Mapping[str, str]) -> None:
    """Raises ConfigError, naming what is wrong with ``agent.usage``."""
    for key in usage:
        if key not in KEYS:
            raise UnknownName("key", f"agent.usage.{key}", [f"agent.usage.{k}" for k in KEYS])
    if usage and not any(key in usage for key in FIGURES):
        raise ConfigError(f"agent.usage names no figure: give the JSON path of one of {', '.join(FIGURES)}")
    if usage.get("add", "last") not in ("last", "sum"):
        raise UnknownName("way of adding", usage["add"], ("last", "sum"), "agent.usage.add")
    if usage.get("where") and "=" not in usage["where"]:
        raise ConfigError(f"agent.usage.where is PATH=VALUE, such as type=result; got {usage['where']!r}")


class Extractor:
    """Reads a stream of JSON lines, or one JSON document, for the figures that ``paths`` names.

    ``where`` (PATH=VALUE) chooses the objects that count; ``add: sum`` adds them up, ``last`` takes the latest. One
    figure that is no amount (negative, a fraction of a token, text) makes the usage unknown as a whole.
    """

    def __init__(self, paths: Mapping[str, str], meter: Meter) -> None:
        self._paths, self._meter = paths, meter
        self._sum = paths.get("add", "last") == "sum"
        self._lines = JsonLines(self._take)
        self._found = False
        self._trouble = ""
        self._model: str | None = None

    def feed(self, chunk: bytes) -> str | None:
        return self._lines.feed(chunk)

    def document(self, text: bytes) -> None:
        """One JSON document, where the lines of a stream held nothing: it may be spread over many lines."""
        if not self._found:
            JsonLines(self._take).feed(b" ".join(text.split(b"\n")) + b"\n")

    def finish(self, text: bytes) -> RunRecord:
        """What was found, once the program has ended; ``text`` is all of its output that was kept."""
        self._lines.finish()
        self.document(text)
        if self._trouble:
            return RunRecord(f"malformed: {self._trouble}", model=self._model)
        return RunRecord("ok" if self._found else "missing", self._meter.usage, self._model)

    def _take(self, found: dict[str, Any]) -> str | None:
        where, _, value = self._paths.get("where", "").partition("=")
        if where and str(at(found, where)) != value:
            return None
        figures = {name: at(found, self._paths[name]) for name in FIGURES if name in self._paths}
        if all(v is None for v in figures.values()):
            return None
        self._found = True
        try:
            usage = self._usage(figures)
            named = at(found, self._paths["model"]) if "model" in self._paths else None
            self._model = self._model if named is None else model_name(named)
        except ValueError as error:
            self._trouble = self._trouble or str(error)
            return None
        return self._meter.add(usage) if self._sum else self._meter.set(usage)

    def _usage(self, figures: Mapping[str, Any]) -> Usage:
        read: dict[str, Any] = {}
        for name, value in figures.items():
            try:
                read[name] = None if value is None else FIGURES[name](value)
            except ValueError as error:
                raise ValueError(f"'{self._paths[name]}' {error}") from None
        source = CostSource.UNKNOWN if read.get("cost_usd") is None else CostSource.REPORTED
        return Usage(**read, cost_source=source)
