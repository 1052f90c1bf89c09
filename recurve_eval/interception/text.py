"""The report's numbers as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recurve_eval.analysis.format import defined, escape, name, plural, rate, table, times

Data = Mapping[str, Any]
LISTED = 30


def markdown(data: Data) -> str:
    """summary.md of the report's data (plain JSON)."""
    parts = [
        _head(data),
        _matrix(data),
        _end_to_end(data),
        _kinds(data),
        _pairs(data),
        _authorship(data),
        _curves(data),
        _lists(data),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _head(data: Data) -> list[str]:
    c = data["census"]
    s = c["standing"]
    made = "seeded, no agent made them" if data["simulated"] else "recorded work"
    lines = [
        f"# Interception: {escape(data['benchmark'])}, {escape(data['source'])}",
        "",
        f"{plural(c['items'], 'item')} ({made}) of {plural(c['tasks'], 'task')}. The held-out oracle's word: "
        f"{s['defect']} defects, {s['good']} good, {s['equivalent']} seeded changes that it cannot tell "
        f"from the original (counted as neither), {s['disputed']} known-good items that it fails (counted as neither), "
        f"{s['unscored']} unscored.",
        "",
    ]
    if data["simulated_claims"]:
        lines += ["The claims are a simulated agent's, of stated quality: they show how the gate works, not how good a "
                  "model's claims are.", ""]  # fmt: skip
    if not data["complete"]:
        lines += ["**Not every decision has been made yet.**", ""]
    return lines


def _matrix(data: Data) -> list[str]:
    more = data["cumulative"]
    header = ["layer", "defects stopped (TPR)", "good work stopped (FPR)"]
    header += ["newly stopped defects", "newly stopped good"] if more else ["precision of a stop"]
    header += ["BROKEN", "cannot judge", "unscored"]
    rows = []
    for x in data["layers"]:
        cells = [name(x["layer"]), rate(x["tpr"]), rate(x["fpr"])]
        cells += [rate(x["marginal_tpr"]), rate(x["marginal_fpr"])] if more else [rate(x["precision"])]
        rows.append(
            [*cells, str(x["broken"]), f"{x['unable']} ({plural(x['unable_tasks'], 'task')})", str(x["unscored"])]
        )
    note = [
        f"Intervals: {100 * data['confidence']:g}%, Wilson's, at the effective number where a task has several items. "
        + ("A layer stands on those above it. " if more else "Each gate decides by itself. ")
        + "An item that a layer cannot judge passes it.",
    ]
    return ["## What each layer stops", "", *table(header, rows), "", *note, "", *_unable(data), *_own(data)]


def _unable(data: Data) -> list[str]:
    lines = [
        f"- {name(layer)} cannot judge {plural(tasks, 'task')}: {escape(why)}"
        for layer, reasons in data["unable"].items() for why, tasks in reasons.items()
    ]  # fmt: skip
    return [*lines, ""] if lines else []


def _own(data: Data) -> list[str]:
    if not data["cumulative"]:
        return []
    rows = [[name(x["layer"]), rate(x["own_tpr"]), rate(x["own_fpr"]), rate(x["precision"]),
             rate(x["equivalent_blocked"])] for x in data["layers"]]  # fmt: skip
    return [
        "### By themselves", "",
        *table(["layer", "of the defects it could judge, stopped", "of the good work it could judge, stopped",
                "precision of a stop so far", "equivalent changes stopped so far"], rows),
        "",
    ]  # fmt: skip


def _end_to_end(data: Data) -> list[str]:
    if not data["end_to_end"]:
        return []
    rates = ("ship_bad", "fdr", "bad_withheld", "good_withheld")
    rows = [[name(a["arm"]), str(a["cells"]), *(rate(a[k]) for k in rates)] for a in data["end_to_end"]]
    return [
        "## End to end, in the run itself", "",
        *table(["arm", "cells", "P(ship bad)", "FDR", "bad work withheld", "good work withheld"], rows), "",
        "These are other quantities than the table above. Above, every gate sees the same frozen work, so that the "
        "agent's own noise drops out, and a stop ends the matter: it says how well the gate tells bad work from good. "
        "Here each arm's agent was told of refusals and worked on, so that a refusal can turn bad work into good, and "
        "the work itself differs between arms: it says what shipped.",
        "",
    ]  # fmt: skip


def _kinds(data: Data) -> list[str]:
    lines = ["## By kind", ""]
    for title, key in (("Defects", "defects_by_kind"), ("Good work", "good_by_kind")):
        if not data[key]:
            continue
        layers = list(data[key][0]["stopped"])
        shown = [[escape(k["kind"]), *(rate(k["stopped"][layer]) for layer in layers)] for k in data[key]]
        lines += [f"### {title}", "", *table(["kind", *map(name, layers)], shown), ""]
    return lines


PAIR_HEADER = ["actor", "adversary", "items", "both missed", "actor missed", "adversary missed", "rho", "phi", "kappa"]


def pair_rows(pairs: Sequence[Data]) -> list[list[str]]:
    """Table rows of correlations; undefined ones say why."""
    rows = []
    for p in pairs:
        f, t = p["found"], p["found"]["table"]
        n = t["both"] + t["first_only"] + t["second_only"] + t["neither"]
        rho = times(f["rho"]).removeprefix("x") if defined(f["rho"]["value"]) else _why(f["rho"]["value"])
        counts = [t["both"], t["both"] + t["first_only"], t["both"] + t["second_only"]]
        rows.append([name(p["actor"]), name(p["adversary"]), str(n), *map(str, counts), rho, _plain(f["phi"]),
                     _plain(f["kappa"])])  # fmt: skip
    return rows


RHO = (
    "rho = P(adversary misses | actor missed) / P(adversary misses): 1 is independence, above 1 are shared blind "
    "spots. Its interval resamples tasks."
)


def reviews_markdown(pairs: Sequence[Data]) -> str:
    """The correlations of recorded reviewers, same model and cross-model apart."""
    lines = ["# Do reviewers miss the same bad items?", "", RHO, ""]
    for same, title in ((True, "Same model"), (False, "Different models")):
        chosen = [p for p in pairs if p["same_model"] is same]
        if chosen:
            lines += [f"## {title}", "", *table(PAIR_HEADER, pair_rows(chosen)), ""]
    return "\n".join(lines)


def _why(value: Data) -> str:
    return f"undefined: {value['undefined']}"


def _plain(value: Any) -> str:
    return f"{value:.2f}" if defined(value) else "undefined"


def _pairs(data: Data) -> list[str]:
    lines: list[str] = []
    if data["layer_pairs"]:
        lines += [
            "## Do layers miss the same defects?", "",
            RHO, "", *table(PAIR_HEADER, pair_rows(data["layer_pairs"])), "",
        ]  # fmt: skip
    if data["model_pairs"]:
        header = [h.replace("missed", "failed") for h in PAIR_HEADER]
        header[:3] = ["model", "other model", "shared tasks"]
        lines += [
            "## Do models fail the same tasks?", "",
            "First attempts, graded by the held-out oracle; rho as above, of failures.", "",
            *table(header, pair_rows(data["model_pairs"])), "",
        ]  # fmt: skip
    return lines


def _authorship(data: Data) -> list[str]:
    if not data["authorship"]:
        return []
    rows = [
        [name(a["layer"]), a["claims_by"], rate(a["missed"]), rate(a["blocked_wrongly"])] for a in data["authorship"]
    ]
    return ["## Whose claims", "",
            *table(["layer", "claims by", "defects missed", "good work blocked"], rows), ""]  # fmt: skip


TITLES = {
    "checks": ("checks of a claim", "A random k of the author's checks",
               ("tpr", "defects stopped"), ("fpr", "good work stopped")),
    "traps": ("traps", "Claims that reject t defects drawn as traps, and what they stop of the other defects",
              ("tpr", "other defects stopped"), ("admitted", "claims admitted")),
    "fuzz": ("fuzz mutants", "Whether m mutants of right work find weak claims out (a quarter let through)",
             ("tpr", "weak claims refused"), ("fpr", "strong claims refused")),
}  # fmt: skip


def _curves(data: Data) -> list[str]:
    if not data["curves"]:
        return []
    lines = [f"## Efficacy of {name(data['curves_of'])}", "",
             "Expectations over every choice that could have been made, from the decisions above. A point stands on",
             "the tasks that have so many to choose from: where their number falls along a curve, the tasks change.",
             "Checks weigh every item alike; traps and fuzz mutants, chosen for a task, weigh every task alike.",
             ""]  # fmt: skip
    for key, points in data["curves"].items():
        what, title, *columns = TITLES[key]
        rows = [[str(p["k"]), *(_share(p[c]) for c, _ in columns)] for p in points]
        lines += [f"### {title}", "", *table([what, *(word for _, word in columns)], rows), ""]
    return lines


def _share(e: Any) -> str:
    if e is None or not defined(e["value"]):
        return "undefined"
    interval = e["interval"]
    ends = f" [{100 * interval['low']:.1f}, {100 * interval['high']:.1f}]" if defined(interval) else " (no interval)"
    return f"{100 * e['value']:.1f}%{ends}, {plural(e['n'], 'task')}"


def _lists(data: Data) -> list[str]:
    lines: list[str] = []
    for key, title in (("disputed", "Known-good items that the oracle fails"), ("unscored", "Unscored")):
        found = data["census"][key]
        if found:
            rest = [f"- and {len(found) - LISTED} more, in summary.json"] if len(found) > LISTED else []
            lines += [f"## {title}", "", *(f"- {escape(x)}" for x in found[:LISTED]), *rest, ""]
    return lines
