"""The second half of summary.md: the counts and alternatives behind each number of the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    number,
    p_is,
    p_value,
    pair_name,
    plural,
    rate,
    signed,
    table,
    times,
)  # fmt: skip

ARM_HEADER = ("arm", "cells", "declared", "P(ship bad)", "FDR", "yield", "good withheld")
PER_PREVENTED = (("usd_per_prevented", "dollars"), ("tokens_per_prevented", "tokens"))


def details(data: Data, labels: Labels) -> Iterator[str]:
    """Lines of Markdown below the headline screen."""
    yield from _all_strata(data)
    for c in data["contrasts"]:
        yield from _contrast(c, labels)
    yield from _omnibus(data, labels)
    yield from _interactions(data)
    yield from _withheld(data, labels)
    yield from _attempts(data, labels)
    yield from _corrected(data, labels)
    yield from _distributions(data, labels)


def arm_row(a: Data) -> list[str]:
    """The cells of an arm under :data:`ARM_HEADER`."""
    unscored = sum(a["unscored"].values())
    n = f"{a['n']}" + (f" ({unscored} unscored)" if unscored else "")
    measures = (a["ship_bad"], a["fdr"], a["yield_good"], a["false_rejection"])
    return [name(a["arm"]), n, str(a["declared"]), *(rate(m) for m in measures)]


def interval_caption(arms: Sequence[Data]) -> str:
    """What the fractions count and which interval stands beside them."""
    rates = [a[k] for a in arms for k in ("ship_bad", "fdr", "yield_good", "false_rejection")]
    repeated = any(r["n"] > r["clusters"] for r in rates)
    interval = (
        "Tasks, not cells, are the units: intervals are Wilson's at the effective sample size (design effect of the "
        "cells that share a task, with Student's t)."
        if repeated
        else "Intervals are Wilson's; every cell is another task."
    )
    return f"Of the cells with a verdict; good withheld is of the good ones. {interval}"


def _all_strata(data: Data) -> Iterator[str]:
    if not data["arms_all_strata"]:
        return
    yield "## All strata together"
    yield ""
    yield "For reading only: contrasts are made within each benchmark, model, agent and budget, never on this table."
    yield ""
    yield from table(ARM_HEADER, [arm_row(a) for a in data["arms_all_strata"]])
    yield ""
    yield interval_caption(data["arms_all_strata"])
    yield ""


def _contrast(c: Data, labels: Labels) -> Iterator[str]:
    first, second = name(c["baseline"]), name(c["treatment"])
    where = labels.of(c["stratum"])
    yield f"## {pair_name(c)}" + (f", {where}" if where else "") + f" ({c['role'].replace('_', ' ')})"
    yield ""
    yield f"{escape(c['verdict']['text'])}."
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
    "ship_good": "yield, P(ship good)",
    "oracle_pass": "oracle pass",
}


def _endpoint_table(c: Data) -> Iterator[str]:
    rows = []
    for key, label in NAMES.items():
        e = c["endpoints"][key]
        rows.append([label, _share(e["baseline_rate"]), _share(e["treatment_rate"]), change(e["effect"]),
                     _test(e["test"]), _span(e["bounds"])])  # fmt: skip
    f = c["fdr"]
    rates = [rate(f["baseline"]), rate(f["treatment"])]
    rows.append(["FDR", *rates, change(f["effect"]), _test(f["test"]), _span(f["bounds"])])
    arms = [name(c["baseline"]), name(c["treatment"])]
    yield from table(["", *arms, "change, points", "test", "over all verdicts of the unscored"], rows)
    yield ""


def _share(value: Data | float) -> str:
    return f"{100 * value:.1f}%" if isinstance(value, float | int) else "undefined"


def _test(test: Data) -> str:
    return f"{test['method']}: {p_is(test)}" if defined(test) else "undefined"


def _span(b: Data) -> str:
    if not b["unscored"]:
        return "none unscored"
    return f"{signed(b['low'])} to {signed(b['high'])}" if defined(b["low"]) else "undefined"


def _alternatives(c: Data) -> Iterator[str]:
    others = c["endpoints"]["ship_bad"]["alternatives"]
    said = []
    if "mid_p" in others:
        said.append(f"mid-p McNemar {p_is(others['mid_p'])}; Tango {change(others['tango'])}")
    if defined(c["fdr"]["score"]):
        said.append(f"uncorrected score for FDR {p_is(c['fdr']['score'])}")
    if said:
        yield "For comparison, never the verdict: " + "; ".join(said) + "."
        yield ""


def _price(c: Data, first: str, second: str) -> Iterator[str]:
    yield "Price of trust, on matched pairs:"
    yield ""
    rows = []
    for key, label in (("tokens", "tokens"), ("cost_usd", "dollars"), ("wall_s", "wall-clock, s")):
        r = c["price"]["ratios"][key]
        shown = dollars(r) if key == "cost_usd" else times(r["ratio"])
        if shown != FREE:
            rows.append([label, number(r["baseline_mean"]), number(r["treatment_mean"]), shown,
                         f"{r['known']} of {r['known'] + r['unknown']} pairs"])  # fmt: skip
    yield from table(["mean a cell", first, second, "ratio of means", "known"], rows)
    yield ""
    yield _balance(c["price"])
    yield ""


def _balance(p: Data) -> str:
    bad, good = p["prevented"], p["good_lost"]
    free = dollars(p["ratios"]["cost_usd"]) == FREE
    text = f"Bad submissions {'prevented' if bad >= 0 else 'added'} {abs(bad)}, "
    text += f"good submissions {'lost' if good >= 0 else 'gained'} {abs(good)}."
    units = [("tokens_per_prevented", "tokens")] if free else [*PER_PREVENTED]
    each = [f"{number(p[key])} {unit}" for key, unit in units if defined(p[key])]
    text += f" For each prevented: {', '.join(each)} more." if each else ""
    return text + (" The cost is $0 in both arms." if free else "")


def _fate(c: Data, first: str) -> Iterator[str]:
    f = c["after_shipped_bad"]
    if f["baseline_shipped_bad"]:
        fates = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in f.items() if k != "baseline_shipped_bad")
        yield f"Of the {f['baseline_shipped_bad']} that {first} shipped bad: {fates}."
        yield ""


def _missing(c: Data) -> Iterator[str]:
    for arm, keys in c["missing"].items():
        if keys:
            yield f"Arm {name(arm)} lacks {len(keys)} partners: {listed(keys)}."
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
    return f"Q = {test['statistic']:.4g} on {test['df']} df, {p_is(test)}"


def _interactions(data: Data) -> Iterator[str]:
    if not data["interactions"]:
        return
    yield "## Model by gate (exploratory)"
    yield ""
    header = ["contrast", "benchmark", "models", "tasks", "difference of the changes of P(ship bad), points", "p"]
    rows = []
    for i in data["interactions"]:
        contrast = pair_name(i)
        models = f"{name(i['models'][1])} less {name(i['models'][0])}"
        found = [str(i["tasks"]), change(i["effect"]), p_value(i["test"])]
        rows.append([contrast, name(i["benchmark"]), models, *found])
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
        rows.append([*labels.cells(a["stratum"]), name(a["arm"]), *map(str, counts)])
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
            rows.append([*labels.cells(a["stratum"]), name(a["arm"]), *counts])
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
        rows.append([*labels.cells(a["stratum"]), name(a["arm"]), *found])
    header = [*labels.varying, "arm", "FDR", "corrected", "oracle fails known bad", "oracle passes canonical"]
    yield from table(header, rows)
    yield ""


def _distributions(data: Data, labels: Labels) -> Iterator[str]:
    yield "## Tokens and wall-clock"
    yield ""
    header = [*labels.varying, "arm", "of a cell", "known", "mean", "p25", "median", "p75", "p90", "max"]
    rows, unknown = [], []
    for a in data["arms"]:
        start = [*labels.cells(a["stratum"]), name(a["arm"])]
        for key, label in (("tokens", "tokens"), ("wall_s", "wall-clock, s")):
            d = a["distributions"][key]["all"]
            if d["known"]:
                rows.append([*start, label, f"{d['known']}/{d['known'] + d['unknown']}", *_quantiles(d)])
            else:
                unknown.append(f"{label} of {' '.join(start)}")
    yield from table(header, rows)
    yield ""
    said = f"Unknown in every cell: {'; '.join(unknown)}. " if unknown else ""
    yield f"{said}By outcome, and dollars and steps: `arms[].distributions` in summary.json."
    yield ""


def _quantiles(d: Data) -> list[str]:
    if not defined(d["mean"]):
        return ["undefined"] * 6
    return [number(d["mean"]), *(number(d["quantiles"][k]) for k in ("p25", "p50", "p75", "p90", "max"))]
