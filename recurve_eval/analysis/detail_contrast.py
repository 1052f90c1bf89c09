"""One contrast in full, in Markdown: counts, tests, alternatives, price, missing partners, design."""

from __future__ import annotations

from collections.abc import Iterator

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
    pair_name,
    plural,
    rate,
    share,
    signed,
    table,
    times,
)  # fmt: skip

PER_PREVENTED = (("usd_per_prevented", "dollars"), ("tokens_per_prevented", "tokens"))


def contrast_details(c: Data, floor: Data | None, labels: Labels) -> Iterator[str]:
    """Lines of Markdown on one contrast, its noise floor beside every effect where that was measured."""
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
    yield from _endpoint_table(c, floor)
    yield from _alternatives(c)
    yield from _price(c, first, second)
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


def _endpoint_table(c: Data, floor: Data | None) -> Iterator[str]:
    rows = []
    measured = floor is not None and c["role"] != "noise_floor"
    for key, label in NAMES.items():
        e = c["endpoints"][key]
        rows.append([label, share(e["baseline_rate"]), share(e["treatment_rate"]), change(e["effect"]),
                     _test(e["test"]), _span(e["bounds"])])  # fmt: skip
        if measured and floor is not None:
            rows[-1].insert(4, change(floor["endpoints"][key]["effect"]))
    f = c["fdr"]
    rates = [rate(f["baseline"]), rate(f["treatment"])]
    rows.append(["FDR", *rates, change(f["effect"]), _test(f["test"]), _span(f["bounds"])])
    if measured and floor is not None:
        rows[-1].insert(4, change(floor["fdr"]["effect"]))
    arms, noise = [name(c["baseline"]), name(c["treatment"])], ["noise floor, points"] * measured
    yield from table(["", *arms, "change, points", *noise, "test", "over all verdicts of the unscored"], rows)
    yield ""


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
    each = [f"{number(abs(p[key]))} {unit} {_more(p[key])}" for key, unit in units if defined(p[key])]
    text += f" For each prevented: {', '.join(each)}." if each else ""
    return text + (" The cost is $0 in both arms." if free else "")


def _more(value: float) -> str:
    return "fewer" if value < 0 else "more"


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
