"""What spans arms or strata, in Markdown: the ladder, the budget grid, the halves of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator

from recurve_eval.analysis.format import Data, Labels, change, dollars, listed, name, p_value, rate, table, times


def spanning(data: Data, labels: Labels) -> Iterator[str]:
    """Lines of Markdown; none for what the study has not."""
    yield from _ladder(data, labels)
    yield from _budgets(data)
    yield from _halves(data)


def _ladder(data: Data, labels: Labels) -> Iterator[str]:
    if not data["ladder"]:
        return
    yield "## Which part earned it (exploratory)"
    yield ""
    yield "Each arm against the earlier arm that is most like it; what differs between the two is named."
    yield ""
    header = ["arm", "against", "parts that differ", "tasks", "P(ship bad), points", "p", "FDR, points", "tokens",
              "dollars", "wall-clock"]  # fmt: skip
    rows = []
    for r in data["ladder"]:
        ratios = r["ratios"]
        costs = [times(ratios["tokens"]["ratio"]), dollars(ratios["cost_usd"]), times(ratios["wall_s"]["ratio"])]
        found = [str(r["tasks"]), change(r["ship_bad"]), p_value(r["test"]), change(r["fdr"]), *costs]
        rows.append([*labels.cells(r["stratum"]), name(r["arm"]), name(r["parent"]), listed(r["parts"]), *found])
    yield from table([*labels.varying, *header], rows)
    yield ""
    yield "p is unadjusted."
    yield ""


def _budgets(data: Data) -> Iterator[str]:
    if not data["budget_curves"]:
        return
    yield "## Oracle pass at budget"
    yield ""
    header = ["benchmark", "model", "arm", "budget", "oracle pass", "change, points", "yield", "P(ship bad)"]
    rows = []
    for c in data["budget_curves"]:
        start = [name(c["benchmark"]), name(c["model"]), name(c["arm"])]
        for n, p in enumerate(c["points"]):
            moved = change(p["change"]) if n else ""
            rates = [rate(p["oracle_pass"]), moved, rate(p["yield_good"]), rate(p["ship_bad"])]
            rows.append([*start, name(p["budget"]), *rates])
    yield from table(header, rows)
    yield ""
    yield (
        "Budgets grow downwards and share their tasks, so the points of an arm are not independent: the change from "
        "one to the next is paired. Only cells with a verdict under every budget are counted."
    )
    yield ""


def _halves(data: Data) -> Iterator[str]:
    if not data["halves"]:
        return
    yield "## False done where the task can be solved, and where it cannot"
    yield ""
    header = ["benchmark", "model", "agent", "budget", "arm", "solvable: P(ship bad)", "impossible: P(ship bad)",
              "solvable: FDR"]  # fmt: skip
    rows = []
    for h in data["halves"]:
        start = [name(h[k]) for k in ("benchmark", "model", "agent", "budget", "arm")]
        rows.append([*start, *(rate(h[k]) for k in ("solvable", "impossible", "solvable_fdr"))])
    yield from table(header, rows)
    yield ""
    yield "No work on the impossible half is right: what is declared done there is false (its FDR is 1 or undefined)."
    yield ""
