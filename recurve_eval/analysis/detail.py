"""The second half of summary.md: the counts and alternatives behind each number of the first."""

from __future__ import annotations

from collections.abc import Iterator

from recurve_eval.analysis.format import (
    Data,
    Labels,
    change,
    defined,
    escape,
    listed,
    number,
    p_value,
    plural,
    rate,
    signed,
    table,
    times,
)  # fmt: skip


def details(data: Data, labels: Labels) -> Iterator[str]:
    """Lines of Markdown below the headline screen."""
    for c in data["contrasts"]:
        yield from _contrast(c, labels)
    yield from _omnibus(data, labels)
    yield from _interactions(data)
    yield from _withheld(data, labels)
    yield from _attempts(data, labels)
    yield from _corrected(data, labels)
    yield from _distributions(data, labels)


def _contrast(c: Data, labels: Labels) -> Iterator[str]:
    first, second = escape(c["baseline"]), escape(c["treatment"])
    where = labels.of(c["stratum"])
    yield f"## {second} against {first}" + (f", {where}" if where else "") + f" ({c['role'].replace('_', ' ')})"
    yield ""
    yield (
        f"{plural(c['pairs'], 'matched pair')}, {c['scored_pairs']} with both verdicts, "
        f"on {plural(c['tasks'], 'task')}; design: {c['design']}."
    )
    yield ""
    yield from _pair_table(c, first, second)
    yield from _endpoint_table(c)
    yield from _alternatives(c)
    yield from _price(c, first, second)
    yield from _fate(c, first)
    yield from _missing(c)
    yield f"Design: {_detectable(c['detectable'])}"
    yield ""


def _pair_table(c: Data, first: str, second: str) -> Iterator[str]:
    t = c["endpoints"]["ship_bad"]["table"]
    seeds = "" if c["design"] == "one seed a task" else " (all seeds; for reading, not tested as independent)"
    yield f"Pairs by shipped bad{seeds}:"
    yield ""
    yield from table(
        ["", f"{second} shipped bad", f"{second} did not"],
        [
            [f"{first} shipped bad", str(t["both"]), str(t["first_only"])],
            [f"{first} did not", str(t["second_only"]), str(t["neither"])],
        ],
    )
    yield ""


NAMES = {
    "ship_bad": "P(ship bad)",
    "ship_good": "yield P(ship good)",
    "oracle_pass": "oracle pass",
}


def _endpoint_table(c: Data) -> Iterator[str]:
    rows = []
    for key, name in NAMES.items():
        e = c["endpoints"][key]
        rows.append([name, _share(e["baseline_rate"]), _share(e["treatment_rate"]), change(e["effect"]),
                     _test(e["test"]), _span(e["bounds"])])  # fmt: skip
    f = c["fdr"]
    rates = [rate(f["baseline"]), rate(f["treatment"])]
    rows.append(["FDR", *rates, change(f["effect"]), _test(f["test"]), _span(f["bounds"])])
    arms = [escape(c["baseline"]), escape(c["treatment"])]
    yield from table(["", *arms, "change, points", "test", "over all verdicts of the unscored"], rows)
    yield ""


def _share(value: Data | float) -> str:
    return f"{100 * value:.1f}%" if isinstance(value, float | int) else "undefined"


def _test(test: Data) -> str:
    return f"{test['method']}: p = {p_value(test)}" if defined(test) else "undefined"


def _span(b: Data) -> str:
    if not b["unscored"]:
        return "none unscored"
    return f"{signed(b['low'])} to {signed(b['high'])}" if defined(b["low"]) else "undefined"


def _alternatives(c: Data) -> Iterator[str]:
    others = c["endpoints"]["ship_bad"]["alternatives"]
    said = []
    if "mid_p" in others:
        said.append(f"mid-p McNemar p = {p_value(others['mid_p'])}; Tango {change(others['tango'])}")
    if defined(c["fdr"]["score"]):
        said.append(f"uncorrected score for FDR p = {p_value(c['fdr']['score'])}")
    if said:
        yield "For comparison, never the verdict: " + "; ".join(said) + "."
        yield ""


def _price(c: Data, first: str, second: str) -> Iterator[str]:
    yield "Price of trust, on matched pairs:"
    yield ""
    rows = []
    for name, label in (("tokens", "tokens"), ("cost_usd", "dollars"), ("wall_s", "wall-clock, s")):
        r = c["price"]["ratios"][name]
        rows.append([label, number(r["baseline_mean"]), number(r["treatment_mean"]), times(r["ratio"]),
                     f"{r['known']} of {r['known'] + r['unknown']} pairs"])  # fmt: skip
    yield from table(["mean a cell", first, second, "ratio of means", "known"], rows)
    yield ""
    p = c["price"]
    yield (
        f"Bad submissions prevented {p['prevented']}, good submissions lost {p['good_lost']}; for each prevented: "
        f"{number(p['usd_per_prevented'])} dollars, {number(p['tokens_per_prevented'])} tokens."
    )
    yield ""


def _fate(c: Data, first: str) -> Iterator[str]:
    f = c["after_shipped_bad"]
    if f["baseline_shipped_bad"]:
        fates = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in f.items() if k != "baseline_shipped_bad")
        yield f"Of the {f['baseline_shipped_bad']} that {first} shipped bad: {fates}."
        yield ""


def _missing(c: Data) -> Iterator[str]:
    for arm, keys in c["missing"].items():
        if keys:
            yield f"Arm {escape(arm)} lacks {len(keys)} partners: {listed(keys)}."
            yield ""


def _detectable(d: Data) -> str:
    if d["refused"]:
        return f"refused: {escape(d['refused'])}."
    if defined(d["delta"]):
        return (
            f"the smallest difference seen with power {d['power']:g} at alpha {d['alpha']:g} is "
            f"{100 * d['delta']:.1f} points if {100 * d['discordance']:g}% of pairs differ "
            f"(exact McNemar, {d['pairs']} effective pairs)."
        )
    best = f"{100 * d['delta_one_way']:.1f} points" if defined(d["delta_one_way"]) else "no difference"
    return (
        f"if {100 * d['discordance']:g}% of pairs differ, {escape(d['delta']['undefined'])}; with every "
        f"difference one way, {best} is seen with power {d['power']:g} at alpha {d['alpha']:g}."
    )


def _omnibus(data: Data, labels: Labels) -> Iterator[str]:
    several = [o for o in data["omnibus"] if len(o["arms"]) > 2]
    if not several:
        return
    yield "## All arms at once"
    yield ""
    header = [*labels.varying, "arms", "tasks", "Cochran Q for P(ship bad)"]
    rows = [[*labels.cells(o["stratum"]), listed(o["arms"]), str(o["tasks"]), _q(o["test"])] for o in several]
    yield from table(header, rows)
    yield ""


def _q(test: Data) -> str:
    if not defined(test):
        return escape("undefined: " + test["undefined"])
    return f"Q = {test['statistic']:.4g} on {test['df']} df, p = {p_value(test)}"


def _interactions(data: Data) -> Iterator[str]:
    if not data["interactions"]:
        return
    yield "## Model by gate (exploratory)"
    yield ""
    header = ["contrast", "benchmark", "models", "tasks", "difference of the changes of P(ship bad), points", "p"]
    rows = []
    for i in data["interactions"]:
        contrast = f"{escape(i['treatment'])} against {escape(i['baseline'])}"
        models = f"{escape(i['models'][1])} less {escape(i['models'][0])}"
        found = [str(i["tasks"]), change(i["effect"]), p_value(i["test"])]
        rows.append([contrast, escape(i["benchmark"]), models, *found])
    yield from table(header, rows)
    yield ""


def _withheld(data: Data, labels: Labels) -> Iterator[str]:
    yield "## Why work was withheld, and what the gate rejected"
    yield ""
    whys = ("process failed", "refused", "exhausted", "other")
    header = [*labels.varying, "arm", "withheld", *whys, "rejections", "cells rejected"]
    rows = []
    for a in data["arms"]:
        w = a["withheld"]
        counts = [sum(w.values()), *(w[k] for k in ("process_failed", "refused", "exhausted", "other"))]
        counts += [a["rejections"]["total"], a["rejections"]["cells"]]
        rows.append([*labels.cells(a["stratum"]), escape(a["arm"]), *map(str, counts)])
    yield from table(header, rows)
    yield ""


def _attempts(data: Data, labels: Labels) -> Iterator[str]:
    arms = [a for a in data["arms"] if len(a["attempts"]) > 1]
    if not arms:
        return
    yield "## Several attempts"
    yield ""
    rows = []
    for a in arms:
        for k in a["attempts"]:
            counts = [str(k["k"]), str(k["tasks"]), _share(k["pass_at_k"]), _share(k["pass_hat_k"])]
            rows.append([*labels.cells(a["stratum"]), escape(a["arm"]), *counts])
    yield from table([*labels.varying, "arm", "k", "tasks", "pass@k", "pass^k"], rows)
    yield ""


def _corrected(data: Data, labels: Labels) -> Iterator[str]:
    arms = [a for a in data["arms"] if "fdr_corrected" in a]
    if not arms:
        return
    yield "## FDR corrected for the oracle's own errors"
    yield ""
    rows = []
    for a in arms:
        c = a["fdr_corrected"]
        found = [rate(a["fdr"]), _share(c["value"]), rate(c["sensitivity"]), rate(c["specificity"])]
        rows.append([*labels.cells(a["stratum"]), escape(a["arm"]), *found])
    header = [*labels.varying, "arm", "FDR", "corrected", "oracle fails known bad", "oracle passes canonical"]
    yield from table(header, rows)
    yield ""


def _distributions(data: Data, labels: Labels) -> Iterator[str]:
    yield "## Distributions"
    yield ""
    yield "Over the cells where the quantity is known; every quantity by outcome is in summary.json."
    yield ""
    header = [*labels.varying, "arm", "of", "outcome", "known", "mean", "p25", "median", "p75", "p90", "max"]
    rows = []
    for a in data["arms"]:
        start = [*labels.cells(a["stratum"]), escape(a["arm"])]
        for name, groups in a["distributions"].items():
            shown = groups if name == "tokens" else {"all": groups["all"]}
            for outcome, d in shown.items():
                what = [name.replace("_", " "), outcome.replace("_", " ")]
                rows.append([*start, *what, f"{d['known']}/{d['known'] + d['unknown']}", *_quantiles(d)])
    yield from table(header, rows)
    yield ""


def _quantiles(d: Data) -> list[str]:
    if not defined(d["mean"]):
        return ["undefined"] * 6
    return [number(d["mean"]), *(number(d["quantiles"][k]) for k in ("p25", "p50", "p75", "p90", "max"))]
