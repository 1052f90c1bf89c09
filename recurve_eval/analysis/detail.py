"""The second half of summary.md: the counts and alternatives behind each number of the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recurve_eval.analysis.detail_contrast import contrast_details
from recurve_eval.analysis.detail_spanning import spanning
from recurve_eval.analysis.format import (
    Data,
    Labels,
    change,
    defined,
    escape,
    listed,
    name,
    number,
    p_is,
    p_value,
    pair_name,
    rate,
    share,
    table,
)  # fmt: skip
from recurve_eval.analysis.verdict import floor_of

ARM_HEADER = ("arm", "cells", "declared", "P(ship bad)", "FDR", "yield", "good withheld")
OUTCOMES = ("shipped_good", "shipped_bad", "withheld_good", "withheld_bad", "unscored")
QUANTITIES = (("tokens", "tokens"), ("cost_usd", "dollars"), ("steps", "steps"), ("wall_s", "wall-clock, s"))
MOST_ROUNDS = 12


def details(data: Data, labels: Labels) -> Iterator[str]:
    """Lines of Markdown below the headline screen."""
    yield from _all_strata(data)
    for c in data["contrasts"]:
        yield from contrast_details(c, floor_of(c, data["contrasts"]), labels)
    yield from _fates(data, labels)
    yield from _omnibus(data, labels)
    yield from _interactions(data)
    yield from spanning(data, labels)
    yield from _withheld(data, labels)
    yield from _timeline(data, labels)
    yield from _gates(data, labels)
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


FATES = ("repaired", "repaired_but_withheld", "refused", "missed", "unscored")


def _fates(data: Data, labels: Labels) -> Iterator[str]:
    """Caught, repaired, refused: what the treatment made of the cells that the baseline shipped bad."""
    found = [c for c in data["contrasts"] if c["after_shipped_bad"]["baseline_shipped_bad"]]
    if not found:
        return
    yield "## What became of the work that the baseline shipped bad"
    yield ""
    rows = []
    for c in found:
        f = c["after_shipped_bad"]
        counts = [f["baseline_shipped_bad"], f["repaired"] + f["repaired_but_withheld"] + f["refused"]]
        rows.append([*labels.cells(c["stratum"]), pair_name(c), *map(str, counts), *(str(f[k]) for k in FATES)])
    header = ["contrast", "shipped bad", "caught", *(k.replace("_", " ") for k in FATES)]
    yield from table([*labels.varying, *header], rows)
    yield ""


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


def _timeline(data: Data, labels: Labels) -> Iterator[str]:
    arms = [a for a in data["arms"] if a["timeline"]]
    if not arms:
        return
    yield "## Rejections, round by round"
    yield ""
    rounds = range(1, 1 + min(MOST_ROUNDS, max(len(a["timeline"]) for a in arms)))
    rows = []
    for a in arms:
        at = {t["round"]: f"{t['rejected']}/{t['checked']}" for t in a["timeline"]}
        rows.append([*labels.cells(a["stratum"]), name(a["arm"]), *(at.get(n, "") for n in rounds)])
    yield from table([*labels.varying, "arm", *(f"round {n}" for n in rounds)], rows)
    yield ""
    yield "Cells rejected of cells checked in that round."
    yield ""


def _gates(data: Data, labels: Labels) -> Iterator[str]:
    arms = [a for a in data["arms"] if a["gate"]["claims"] or a["gate"]["violations"] or a["gate"]["challenges"]]
    if not arms:
        return
    yield "## What the gates held and met"
    yield ""
    rows = []
    for a in arms:
        g = a["gate"]
        told = [", ".join(f"{name(k)} {v}" for k, v in g[key].items()) or "none" for key in ("tiers", "challenges")]
        counts = [f"{g['claims']}", f"{g['traps']}", f"{g['violations']}"]
        rows.append([*labels.cells(a["stratum"]), name(a["arm"]), str(a["n"]), *counts, *told])
    header = ["arm", "cells", "claims", "traps", "boundary violations", "cells by tier", "challenges by phase"]
    yield from table([*labels.varying, *header], rows)
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
            counts = [str(k["k"]), str(k["tasks"]), share(k["pass_at_k"]), share(k["pass_hat_k"])]
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
        found = [rate(a["fdr"]), share(c["value"]), rate(c["fails_bad"]), rate(c["passes_good"])]
        rows.append([*labels.cells(a["stratum"]), name(a["arm"]), *found])
    header = [*labels.varying, "arm", "FDR", "corrected", "oracle fails wrong work", "oracle passes canonical"]
    yield from table(header, rows)
    yield ""


def _distributions(data: Data, labels: Labels) -> Iterator[str]:
    yield "## Tokens, dollars, steps and wall-clock"
    yield ""
    header = [*labels.varying, "arm", "of a cell", "known", "mean", "p25", "median", "p75", "p90", "max"]
    rows, unknown = [], []
    for a in data["arms"]:
        start = [*labels.cells(a["stratum"]), name(a["arm"])]
        for key, label in QUANTITIES:
            d = a["distributions"][key]["all"]
            if d["known"]:
                rows.append([*start, label, f"{d['known']}/{d['known'] + d['unknown']}", *_quantiles(d)])
            else:
                unknown.append(f"{label} of {' '.join(start)}")
    yield from table(header, rows)
    yield ""
    if unknown:
        yield f"Unknown in every cell: {'; '.join(unknown)}."
        yield ""
    yield "By outcome, the median of what is known (cells):"
    yield ""
    outcomes = [o for o in OUTCOMES if any(a["outcomes"][o] for a in data["arms"])]
    header = [*labels.varying, "arm", "of a cell", *(o.replace("_", " ") for o in outcomes)]
    yield from table(header, _medians(data, labels, outcomes))
    yield ""


def _medians(data: Data, labels: Labels, outcomes: Sequence[str]) -> Iterator[list[str]]:
    for a in data["arms"]:
        for key, label in QUANTITIES:
            found = a["distributions"][key]
            if found["all"]["known"]:
                cells = (_median(found[o]) if o in found else "" for o in outcomes)
                yield [*labels.cells(a["stratum"]), name(a["arm"]), label, *cells]


def _median(d: Data) -> str:
    shown = number(d["quantiles"]["p50"]) if defined(d["quantiles"]) else "undefined"
    return f"{shown} ({d['known']}" + (f" of {d['known'] + d['unknown']})" if d["unknown"] else ")")


def _quantiles(d: Data) -> list[str]:
    if not defined(d["mean"]):
        return ["undefined"] * 6
    return [number(d["mean"]), *(number(d["quantiles"][k]) for k in ("p25", "p50", "p75", "p90", "max"))]
