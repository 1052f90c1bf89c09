"""summary.md: one screen that answers the question, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from recurve_eval.analysis.detail import details
from recurve_eval.analysis.format import (
    Data,
    Labels,
    change,
    defined,
    escape,
    listed,
    p_value,
    plural,
    rate,
    reasons,
    table,
    times,
)  # fmt: skip


def render(data: Data) -> str:
    """The text of summary.md from the data of summary.json."""
    labels = Labels(data["study"])
    parts = [*_head(data, labels), *_headlines(data, labels), *_arms(data, labels), *_contrasts(data, labels)]
    parts += [*_unscored(data, labels), *details(data, labels)]
    return "\n".join(parts).rstrip() + "\n"


def _head(data: Data, labels: Labels) -> Iterator[str]:
    study = data["study"]
    yield f"# {escape(study['name'])}: who shipped more bad work, and at what price"
    yield ""
    if study["simulated"] == "all":
        yield "**The agents of this study are simulated: nothing here is evidence about a real model.**"
        yield ""
    elif study["simulated"] == "some":
        yield f"**Simulated, and no evidence about a real model: {listed(study['simulated_models'])}.**"
        yield ""
    fixed = "; ".join(f"{axis} {escape(value)}" for axis, value in labels.fixed.items())
    yield (
        f"{plural(study['cells'], 'cell')}: {plural(study['tasks'], 'task')}, arms {listed(study['arms'])}, "
        f"{plural(len(study['seeds']), 'seed')}" + (f"; {fixed}." if fixed else ".")
    )
    yield ""
    for note in data["notes"]:
        yield f"- {escape(note)}"
    if data["notes"]:
        yield ""


def _headlines(data: Data, labels: Labels) -> Iterator[str]:
    primary = [c for c in data["contrasts"] if c["role"] == "primary"]
    for c in primary:
        yield _headline(c, data, labels)
        yield ""


def _headline(c: Data, data: Data, labels: Labels) -> str:
    where = labels.of(c["stratum"])
    names = f"**{escape(c['treatment'])} against {escape(c['baseline'])}" + (f", {where}" if where else "") + ":**"
    end, fdr = c["endpoints"]["ship_bad"], c["fdr"]
    if not defined(end["effect"]["value"]):
        return (
            f"{names} no effect size ({end['effect']['value']['undefined']}). FDR {rate(fdr['baseline'])} -> "
            f"{rate(fdr['treatment'])}; price of trust {_prices(c)}."
        )
    return (
        f"{names} P(ship bad) changes by {change(end['effect'])} points over {plural(c['tasks'], 'task')} "
        f"({end['test']['method']} p = {p_value(end['test'])}, Holm {p_value(c['p_holm'])}; {_noise(c, data)}). "
        f"FDR {rate(fdr['baseline'])} -> {rate(fdr['treatment'])}. Price of trust: {_prices(c)}."
    )


def _prices(c: Data) -> str:
    ratios = c["price"]["ratios"]
    names = (("tokens", "tokens"), ("cost_usd", "dollars"), ("wall_s", "wall-clock"))
    return ", ".join(f"{label} {times(ratios[name]['ratio'])}" for name, label in names)


def _floor(c: Data, data: Data) -> Data | None:
    found: list[Data] = [n for n in data["contrasts"] if n["role"] == "noise_floor" and n["stratum"] == c["stratum"]]
    return found[0] if found else None


def _noise(c: Data, data: Data) -> str:
    floor = _floor(c, data)
    if floor is None:
        return "noise floor not measured"
    effect = floor["endpoints"]["ship_bad"]["effect"]
    return f"noise floor {escape(floor['treatment'])} against {escape(floor['baseline'])} {change(effect)}"


def _arms(data: Data, labels: Labels) -> Iterator[str]:
    yield "## Arms"
    yield ""
    rates = ("P(ship bad)", "FDR", "yield P(ship good)", "P(withheld given good)")
    header = [*labels.varying, "arm", "n", "declared", *rates]
    yield from table(header, [[*labels.cells(a["stratum"]), *_arm_row(a)] for a in data["arms"]])
    yield ""
    if data["arms_all_strata"]:
        yield "All of the above together, by arm; descriptive, no contrast is tested on it:"
        yield ""
        yield from table(header[len(labels.varying) :], [_arm_row(a) for a in data["arms_all_strata"]])
        yield ""
    yield ("Fractions are of cells with a verdict; intervals are 95% Wilson's, with tasks and not seeds as units.")
    yield ""


def _arm_row(a: Data) -> list[str]:
    unscored = sum(a["unscored"].values())
    n = f"{a['n']}" + (f" ({unscored} unscored)" if unscored else "")
    measures = (a["ship_bad"], a["fdr"], a["yield_good"], a["false_rejection"])
    return [escape(a["arm"]), n, str(a["declared"]), *(rate(m) for m in measures)]


def _contrasts(data: Data, labels: Labels) -> Iterator[str]:
    yield "## Contrasts"
    yield ""
    if not data["contrasts"]:
        yield "One arm only: there is nothing to compare."
        yield ""
        return
    header = [
        *labels.varying, "contrast", "role", "tasks", "change of P(ship bad), points", "p", "Holm p", "noise floor",
        "change of FDR, points", "p (FDR)", "tokens", "dollars",
    ]  # fmt: skip
    yield from table(header, [[*labels.cells(c["stratum"]), *_contrast_row(c, data)] for c in data["contrasts"]])
    yield ""
    why = reasons(
        v for c in data["contrasts"] for v in (
            c["endpoints"]["ship_bad"]["effect"]["value"], c["endpoints"]["ship_bad"]["effect"]["interval"],
            c["fdr"]["effect"]["value"], c["fdr"]["effect"]["interval"], c["fdr"]["test"],
            *(r["ratio"][k] for r in c["price"]["ratios"].values() for k in ("value", "interval")),
        )
    )  # fmt: skip
    if why:
        yield "Undefined above: " + "; ".join(escape(w) for w in why) + "."
        yield ""
    yield (
        "Minus is better for the treatment. Holm covers the primary and declared contrasts of all strata; "
        "everything marked exploratory was not declared before the run, and its p-values are unadjusted."
    )
    yield ""


def _contrast_row(c: Data, data: Data) -> list[str]:
    end = c["endpoints"]["ship_bad"]
    floor = _floor(c, data)
    noise = change(floor["endpoints"]["ship_bad"]["effect"]) if floor else "not measured"
    return [
        f"{escape(c['treatment'])} against {escape(c['baseline'])}",
        c["role"].replace("_", " "),
        str(c["tasks"]),
        change(end["effect"]),
        p_value(end["test"]),
        p_value(c["p_holm"]) if c["role"] in ("primary", "declared") else "-",
        "(itself)" if c["role"] == "noise_floor" else noise,
        change(c["fdr"]["effect"]),
        p_value(c["fdr"]["test"]),
        times(c["price"]["ratios"]["tokens"]["ratio"]),
        times(c["price"]["ratios"]["cost_usd"]["ratio"]),
    ]


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
    by = ", ".join(f"{escape(k)} {v}" for k, v in a["unscored"].items())
    return [escape(a["arm"]), by, _span(a["ship_bad_bounds"]), _span(a["fdr_bounds"]), listed(a["unscored_cells"], 5)]


def _span(b: Data) -> str:
    if not defined(b["low"]):
        return "undefined"
    return f"{100 * b['low']:.1f}% to {100 * b['high']:.1f}%"
