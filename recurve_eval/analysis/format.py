"""Numbers as words: one spelling each, whatever the locale."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Data = Mapping[str, Any]
FREE = "$0 in both"


def defined(value: Any) -> bool:
    return not (isinstance(value, Mapping) and "undefined" in value)


def rate(r: Data) -> str:
    """``7/164 = 4.3% [2.1, 8.6]``, or the empty fraction where undefined."""
    if not defined(r["value"]):
        return f"{r['count']}/{r['n']} undefined"
    return f"{r['count']}/{r['n']} = {100 * r['value']:.1f}% [{_percent(r['interval'])}]"


def _percent(interval: Data) -> str:
    return f"{100 * interval['low']:.1f}, {100 * interval['high']:.1f}"


def change(e: Data) -> str:
    """An effect in percentage points: ``-4.3 [-8.0, -0.6]``."""
    if not defined(e["value"]):
        return "undefined"
    if not defined(e["interval"]):
        return f"{signed(e['value'])} (no interval)"
    return f"{signed(e['value'])} [{signed(e['interval']['low'])}, {signed(e['interval']['high'])}]"


def signed(share: float) -> str:
    text = f"{100 * share:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def times(e: Data) -> str:
    """A ratio: ``x1.42 [1.30, 1.60]``."""
    if not defined(e["value"]):
        return "undefined"
    if not defined(e["interval"]):
        return f"x{e['value']:.2f} (no interval)"
    return f"x{e['value']:.2f} [{e['interval']['low']:.2f}, {e['interval']['high']:.2f}]"


def p_value(test: Any) -> str:
    """A p-value to three digits, from a test or a bare number."""
    if not defined(test):
        return "undefined"
    p = test["p_value"] if isinstance(test, Mapping) else test
    return "<0.0001" if p < 0.0001 else f"{p:.3g}" if p < 0.1 else f"{p:.2f}"


def p_is(test: Any) -> str:
    """``p = 0.25``, ``p < 0.0001`` or ``p undefined``."""
    said = p_value(test)
    if not defined(test):
        return f"p {said}"
    return f"p < {said[1:]}" if said.startswith("<") else f"p = {said}"


def points(e: Data) -> str:
    """An effect as ``-20.7 points [-27.5, -14.6]``."""
    value, _, interval = change(e).partition(" ")
    return f"{value} points {interval}".rstrip() if defined(e["value"]) else value


def dollars(r: Data) -> str:
    """A ratio of costs; costs known to be nothing are said to be so."""
    first, second = r["baseline_mean"], r["treatment_mean"]
    if not (defined(first) and defined(second)) or first > 0:
        return times(r["ratio"])
    return FREE if second <= 0 else f"$0 -> ${second:.3g}"


def share(value: Data | float) -> str:
    """A bare share as a percentage, or ``undefined``."""
    return f"{100 * value:.1f}%" if isinstance(value, float | int) else "undefined"


def number(value: Any, digits: int = 4) -> str:
    """A plain number with thousands separated, or ``undefined``."""
    if not defined(value):
        return "undefined"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def plural(n: int, noun: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{n} {noun}" + ("" if n == 1 else "s")


MARKUP = re.compile(
    r"[\\|`*]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # inside a word it emphasises nothing
    r"|<(?=[A-Za-z/!?])|(?<!-)>"
    r"|\](?=[(\[:])"  # brackets make a link only where a target, a label or a definition follows
)


def escape(text: Any) -> str:
    """Text for a cell of a table: task ids and arm names come from outside and may hold anything."""
    return MARKUP.sub(r"\\\g<0>", " ".join(str(text).split()))


def name(text: Any) -> str:
    """A name as it is if plain, as code if it holds an underscore or the like, escaped if it could break out."""
    if re.fullmatch(r"[A-Za-z0-9./:+ -]+", str(text)):
        return str(text)
    return f"`{text}`" if re.fullmatch(r"[\w ./:+(),=@-]+", str(text)) else escape(text)


def pair_name(c: Data) -> str:
    """``A1 against A0``."""
    return f"{name(c['treatment'])} against {name(c['baseline'])}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; cells are taken as they are."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def listed(items: Sequence[str], most: int = 20) -> str:
    """The first items and how many more there are."""
    shown = ", ".join(name(i) for i in items[:most])
    return shown + (f" and {len(items) - most} more (all in summary.json)" if len(items) > most else "")


OPTION = re.compile(r"([^\[\]]+)\[(.+)\]")
SETTING = re.compile(r"(^|,)(?:[\w/]+\.)+(\w+=)")
ENDING = re.compile(r"(?:\.[A-Za-z]\w*)+$")


def shortened(names: Sequence[str]) -> dict[str, str]:
    """Names of one axis less what they share.

    >>> list(shortened(["scripted[agent.noise=0.1]", "scripted[agent.noise=0.2]"]).values())
    ['noise=0.1', 'noise=0.2']
    >>> list(shortened(["replay[agent.file=by_opus.jsonl.gz]", "replay[agent.file=by_gpt-4.jsonl.gz]"]).values())
    ['opus', 'gpt-4']
    """
    parts = {n: OPTION.fullmatch(n) for n in names}
    short = {n: SETTING.sub(r"\1\2", found[2]) for n, found in parts.items() if found}
    alike = len(short) == len(parts) > 1 and len({found[1] for found in parts.values() if found}) == 1
    if not alike or len(set(short.values())) < len(short):
        return {n: n for n in names}
    return dict(zip(short, _told_apart(list(short.values())), strict=True))


def _told_apart(settings: list[str]) -> list[str]:
    """File names without the words and the endings that all have; other values as they are."""
    endings = {"".join(ENDING.findall(s)) for s in settings}
    if len(endings) > 1 or endings == {""}:
        return settings
    same = [len(set(column)) == 1 for column in zip(*settings, strict=False)]
    start = settings[0][: same.index(False)] if False in same else ""
    cut, end = start.rfind("_") + 1, len(endings.pop())
    cores = [s[cut:-end] for s in settings]
    return cores if cut and all(cores) else settings


class Labels:
    """Names a stratum by the axes that vary in the study, and says the rest once."""

    AXES = (("benchmark", "benchmarks"), ("model", "models"), ("agent", "agents"), ("budget", "budgets"))

    def __init__(self, study: Data) -> None:
        self.varying = [axis for axis, many in self.AXES if len(study[many]) > 1]
        self.fixed = {axis: study[many][0] for axis, many in self.AXES if len(study[many]) == 1}
        self._short = {axis: shortened(study[many]) for axis, many in self.AXES}

    def shown(self, stratum: Data) -> list[str]:
        """The labels that vary, as short as they can be told apart."""
        return [self._short[axis].get(str(stratum[axis]), str(stratum[axis])) for axis in self.varying]

    def cells(self, stratum: Data) -> list[str]:
        return [name(label) for label in self.shown(stratum)]

    def of(self, stratum: Data) -> str:
        named = zip(self.varying, self.cells(stratum), strict=True)
        return ", ".join(f"{axis} {label}" for axis, label in named)
