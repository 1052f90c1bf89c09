"""summary.md: one screen that answers the question, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from pathlib import PurePosixPath
from typing import Any

from recurve_eval.analysis.detail import ARM_HEADER, arm_row, details, interval_caption
from recurve_eval.analysis.format import (
    FREE,
    Data,
    Labels,
    change,
    defined,
    dollars,
    escape,
    listed,
    name,
    p_value,
    pair_name,
    plural,
    rate,
    table,
    times,
)  # fmt: skip
from recurve_eval.analysis.verdict import DECLARED, counts, figures_of, floor_of

MOST_HEADLINES = 6  # contrasts that get a sentence of their own; the table has the rest
PRICES = (("tokens", "tokens"), ("cost_usd", "dollars"), ("wall_s", "wall-clock"))

TERMS = (
    "Terms. P(ship bad): declared done though the oracle fails it, of all cells. FDR: the same, of those declared. "
    "Yield: declared done and good, of all. Noise floor: the control against itself. "
    "p: two-sided, for no change of P(ship bad); Holm: adjusted over the declared contrasts. "
    "Points: percentage points, minus is less. x: the treatment's mean over the baseline's. "
)


def render(data: Data, figures: Sequence[str] = ()) -> str:
    """The text of summary.md from the data of summary.json, linking to figures by relative path."""
    labels = Labels(data["study"])
    parts = [*_head(data, labels), *_headlines(data, labels), *_legend(data), *_arms(data, labels)]
    parts += [*_contrasts(data, labels), *_figures(figures), *_unscored(data, labels), *details(data, labels)]
    return "\n".join(parts).rstrip() + "\n"


def _head(data: Data, labels: Labels) -> Iterator[str]:
    yield f"# {escape(data['study']['name'])}: who shipped more bad work, and at what price"
    yield ""
    for caution in data["cautions"]:
        yield f"**{escape(caution)}**"
        yield ""
    yield _scope(data["study"], labels)
    yield ""
    for note in data["notes"]:
        yield f"- {escape(note)}"
    if data["notes"]:
        yield ""


def _scope(study: Data, labels: Labels) -> str:
    """``252 cells = 14 tasks x 2 models (...) x 3 arms (...) x 3 seeds; benchmark demo, ...``."""
    axes = [plural(study["tasks"], "task")]
    shown = {axis: _names(study, axis) for axis in ("models", "agents", "budgets")}
    axes += [f"{len(names)} {axis} ({', '.join(names)})" for axis, names in shown.items() if len(names) > 1]
    axes += [f"{plural(len(study['arms']), 'arm')} ({listed(study['arms'])})", plural(len(study["seeds"]), "seed")]
    full = study["tasks"] * prod(len(study[axis]) for axis in ("models", "agents", "budgets", "arms", "seeds"))
    cells = plural(study["cells"], "cell")
    start = f"{cells} = " if full == study["cells"] else f"{cells}, where a full grid has {full} = "
    fixed = [f"{axis} {_names(study, axis + 's')[0]}" for axis in labels.fixed]
    fixed += [f"benchmarks {listed(study['benchmarks'])}"] if len(study["benchmarks"]) > 1 else []
    return start + " x ".join(axes) + "".join(f"; {part}" for part in [", ".join(fixed)] if part) + "."


def _names(study: Data, axis: str) -> list[str]:
    return [name(v) + (_served(study["models_served"][v], v) if axis == "models" else "") for v in study[axis]]


def _served(served: Sequence[Data], label: str) -> str:
    """Who really answered, where it is known and not just the label in other letters."""
    known = [s["served"] for s in served if s["served"]]
    if not known or [_plain(k) for k in known] == [_plain(label)]:
        return ""
    unknown = sum(s["cells"] for s in served if not s["served"])
    gap = f"; unknown in {plural(unknown, 'cell')}" if unknown else ""
    return f" (served: {listed(known)}{gap})"


def _plain(text: str) -> str:
    return text.replace("_", "-").casefold()


def _headlines(data: Data, labels: Labels) -> Iterator[str]:
    """A sentence for the contrast that the study was made for; where none was declared, for the first few."""
    primary = [c for c in data["contrasts"] if c["role"] == "primary"]
    others = [c for c in data["contrasts"] if c["role"] == "declared"]
    explored = [c for c in data["contrasts"] if c["role"] == "exploratory"]
    chosen = (primary or others or explored)[:MOST_HEADLINES]
    for c in chosen:
        yield _headline(c, data, labels)
        yield ""
    floors = [c for c in data["contrasts"] if c["role"] == "noise_floor"]
    for c in floors:
        if c["verdict"]["finding"].startswith("suggests"):
            where = labels.of(c["stratum"])
            yield f"**{escape(c['verdict']['text'])}.**" + (f" {where[:1].upper()}{where[1:]}." if where else "")
            yield ""


def _headline(c: Data, data: Data, labels: Labels) -> str:
    found, where = c["verdict"], labels.of(c["stratum"])
    parts = [f"FDR {_rates(c)}", f"price: {_prices(c)}"]
    if found["finding"] not in ("no_effect_shown", "undetermined"):
        at = f"{where[:1].upper()}{where[1:]}: " if where else ""
        noise = [] if found["noise"] == "not_measured" else [_noise(c, data)]
        told = "; ".join([*noise, *parts])
        return f"**{escape(found['text'])}.** {at}{told if at else told[:1].upper() + told[1:]}."
    at = pair_name(c) + (f", {where}" if where else "")
    shown = [f"shipped bad {counts(c)} {figures_of(c)}"] if found["finding"] == "no_effect_shown" else []
    return f"**{escape(found['text'])}.** {at}: {'; '.join([*shown, _noise(c, data), *parts])}."


def _rates(c: Data) -> str:
    return " -> ".join(rate(c["fdr"][side]).split(" [")[0] for side in ("baseline", "treatment"))


def _prices(c: Data) -> str:
    return ", ".join(f"{label} {_ratio(c, key)}" for key, label in PRICES)


def _ratio(c: Data, key: str) -> str:
    r = c["price"]["ratios"][key]
    return dollars(r) if key == "cost_usd" else times(r["ratio"])


def _noise(c: Data, data: Data) -> str:
    floor = floor_of(c, data["contrasts"])
    if floor is None:
        return "noise floor not measured"
    return f"noise floor {pair_name(floor)} {change(floor['endpoints']['ship_bad']['effect'])}"


def _legend(data: Data) -> Iterator[str]:
    study = data["study"]
    said = [f"{name(arm)}: {escape(text)}." for arm, text in study["arm_descriptions"].items()]
    if said:
        yield "Arms. " + " ".join(said)
        yield ""
    yield TERMS + f"[ ]: {100 * data['analysis']['confidence']:g}% interval."
    yield ""


def _arms(data: Data, labels: Labels) -> Iterator[str]:
    yield "## Arms"
    yield ""
    header = [*labels.varying, *ARM_HEADER]
    yield from table(header, [[*labels.cells(a["stratum"]), *arm_row(a)] for a in data["arms"]])
    yield ""
    yield interval_caption(data["arms"])
    yield ""


def _contrasts(data: Data, labels: Labels) -> Iterator[str]:
    """The trade: for each contrast what was found, the change of FDR, and its price. Exploratory ones stand apart."""
    planned = [c for c in data["contrasts"] if c["role"] != "exploratory"]
    others = [c for c in data["contrasts"] if c["role"] == "exploratory"]
    yield "## Contrasts"
    yield ""
    if not data["contrasts"]:
        yield "One arm only: there is nothing to compare."
        yield ""
        return
    yield from _contrast_table(planned or others, labels)
    if planned and others:
        yield "## Exploratory contrasts"
        yield ""
        yield from _contrast_table(others, labels)


def _contrast_table(contrasts: Sequence[Data], labels: Labels) -> Iterator[str]:
    free = all(_ratio(c, "cost_usd") == FREE for c in contrasts)
    prices = [(key, label) for key, label in PRICES if not (free and key == "cost_usd")]
    said = ["found", "P(ship bad), points", "p", "FDR, points"]
    header = [*labels.varying, "contrast", *said, *(label for _, label in prices)]
    yield from table(header, [[*labels.cells(c["stratum"]), *_contrast_row(c, prices)] for c in contrasts])
    yield ""
    if free:
        yield f"Dollars: {FREE} arms of every contrast."
        yield ""
    why = _undefined(contrasts, labels)
    if why:
        yield "Undefined above: " + "; ".join(why) + "."
        yield ""


FOUND = {
    "less_bad": "less bad work",
    "more_bad": "more bad work",
    "suggests_less": "suggests less",
    "suggests_more": "suggests more",
    "no_effect_shown": "no effect shown",
    "undetermined": "no verdict",
}


def _contrast_row(c: Data, prices: Sequence[tuple[str, str]]) -> list[str]:
    test = c["endpoints"]["ship_bad"]["test"]
    p = f"{p_value(c['p_holm'])} (Holm)" if c["role"] in DECLARED and defined(c["p_holm"]) else p_value(test)
    return [
        f"{pair_name(c)} ({c['role'].replace('_', ' ')})",
        FOUND[c["verdict"]["finding"]],
        change(c["endpoints"]["ship_bad"]["effect"]),
        p,
        change(c["fdr"]["effect"]),
        *(_ratio(c, key) for key, _ in prices),
    ]


def _undefined(contrasts: Sequence[Data], labels: Labels) -> list[str]:
    """Every reason in the table with the columns and rows that it belongs to."""
    found: dict[str, dict[str, list[str]]] = {}
    for c in contrasts:
        where = labels.of(c["stratum"])
        row = pair_name(c) + (f" ({where})" if where else "")
        for column, values in _columns(c):
            reason = next((v["undefined"] for v in values if not defined(v)), None)
            if reason is not None:
                found.setdefault(reason, {}).setdefault(column, []).append(row)
    out = []
    for reason, columns in found.items():
        rows: dict[tuple[str, ...], list[str]] = {}
        for column, names in columns.items():
            rows.setdefault(tuple(names), []).append(column)
        at = [f"{', '.join(cols)} of {_all(names, len(contrasts))}" for names, cols in rows.items()]
        out.append(f"{' and '.join(at)}: {escape(reason)}")
    return out


def _all(rows: Sequence[str], of: int) -> str:
    return "every contrast" if len(rows) == of > 1 else ", ".join(rows)


def _columns(c: Data) -> Iterable[tuple[str, list[Any]]]:
    end, fdr = c["endpoints"]["ship_bad"], c["fdr"]["effect"]
    yield "P(ship bad)", [end["effect"]["value"], end["effect"]["interval"]]
    yield "p", [end["test"]]
    yield "FDR", [fdr["value"], fdr["interval"]]
    for key, label in PRICES:
        if not _ratio(c, key).startswith("$"):
            ratio = c["price"]["ratios"][key]["ratio"]
            yield label, [ratio["value"], ratio["interval"]]


def _figures(paths: Sequence[str]) -> Iterator[str]:
    if not paths:
        return
    yield "## Figures"
    yield ""
    for path in paths:
        yield f"![{PurePosixPath(path).stem.replace('_', ' ')}]({path})"
        yield ""


def _unscored(data: Data, labels: Labels) -> Iterator[str]:
    arms = [a for a in data["arms"] if a["unscored_cells"]]
    if not arms:
        return
    yield "## Unscored"
    yield ""
    header = [*labels.varying, "arm", "by reason", "P(ship bad), best to worst", "FDR, best to worst", "cells"]
    yield from table(header, [[*labels.cells(a["stratum"]), *_unscored_row(a)] for a in arms])
    yield ""


def _unscored_row(a: Data) -> list[str]:
    by = ", ".join(f"{name(k)} {v}" for k, v in a["unscored"].items())
    return [name(a["arm"]), by, _span(a["ship_bad_bounds"]), _span(a["fdr_bounds"]), listed(a["unscored_cells"], 5)]


def _span(b: Data) -> str:
    if not defined(b["low"]):
        return "undefined"
    return f"{100 * b['low']:.1f}% to {100 * b['high']:.1f}%"


def headline(markdown: str) -> str:
    """The first screen of a summary: everything up to the details of single contrasts."""
    lines = markdown.splitlines()
    headings = [n for n, line in enumerate(lines) if line.startswith("## ")]
    after = [n for n in headings if n > 0 and lines[n] not in ("## Arms", "## Contrasts")]
    return "\n".join(lines[: after[0]] if after else lines).rstrip()
