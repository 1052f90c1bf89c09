"""Figures of a summary, as SVG and PNG whose bytes depend on the summary alone.

Matplotlib is used without pyplot and without the user's matplotlibrc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recurve_eval.analysis.figure_parts import (
    BLUE,
    GREEN,
    GREY,
    MOST_NAMES,
    ORANGE,
    RED,
    caption,
    legend,
    look,
    panels,
    strata,
)  # fmt: skip
from recurve_eval.analysis.figures_more import ladder, pass_at_budget, rejection_timeline
from recurve_eval.analysis.format import Data, defined

OUTCOMES = (
    ("shipped_good", "shipped, good", GREEN, ""),
    ("shipped_bad", "shipped, bad", RED, "xxx"),
    ("withheld_good", "withheld, good", ORANGE, "..."),
    ("withheld_bad", "withheld, bad", BLUE, "///"),
    ("unscored", "unscored", "#FFFFFF", ""),
)
LONGEST_NAME = 24
STYLE: Any = {
    "svg.hashsalt": "recurve_eval",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    "savefig.dpi": 144,
}


def draw_figures(data: Data, directory: Path) -> list[Path]:
    """Draw every figure that the summary has numbers for.

    Parameters
    ----------
    data : mapping
        The data of summary.json.
    directory : Path
        Where ``NAME.svg`` and ``NAME.png`` go; created if absent.

    Returns
    -------
    list of Path
        Of the files written; a figure without any defined number is left out.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with _style():
        for name, draw in FIGURES.items():
            figure = draw(data)
            if figure is not None:
                written += _save(figure, directory / name)
    return written


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def _save(figure: Any, stem: Path) -> list[Path]:
    svg, png = stem.with_suffix(".svg"), stem.with_suffix(".png")
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    figure.savefig(png, format="png", metadata={"Software": None})
    return [svg, png]


def fdr_by_arm(data: Data) -> Any:
    """FDR of each arm with its 95% interval and raw fraction."""
    groups = strata(data, data["arms"])
    figure, axes = panels([t for t, _ in groups], 0.35 + 0.28 * max(len(g) for _, g in groups))
    for ax, (_, arms) in zip(axes, groups, strict=True):
        for y, arm in enumerate(arms):
            fdr = arm["fdr"]
            if defined(fdr["value"]):
                low, high = fdr["interval"]["low"], fdr["interval"]["high"]
                ax.plot([low, high], [y, y], color=BLUE, linewidth=1.4)
                ax.plot([fdr["value"]], [y], marker="o", color=BLUE, linestyle="none")
            text = f"{fdr['count']}/{fdr['n']}" + ("" if defined(fdr["value"]) else " undefined")
            ax.annotate(text, (1.01, y), xycoords=("axes fraction", "data"), va="center", fontsize=8)
        ax.set_yticks(range(len(arms)), [a["arm"] for a in arms])
        ax.set_ylim(len(arms) - 0.5, -0.5)
        ax.set_xlim(-0.02, 1.02)
    axes[-1].set_xlabel("P(oracle fails given declared done), 95% interval")
    caption(figure, data, "FDR by arm")
    return figure


def paired_change(data: Data) -> Any:
    """The change of P(ship bad) on every task of the primary (else the first) contrast, sorted."""
    gates = [c for c in data["contrasts"] if c["role"] != "noise_floor"]
    wanted = [c for c in gates if c["role"] == "primary"] or gates
    groups = [(t, g[0]) for t, g in strata(data, [c for c in wanted if c["per_task"]])]
    if not groups:
        return None
    named = any(len(c["per_task"]) <= MOST_NAMES for _, c in groups)
    figure, axes = panels([_contrast_title(t, c) for t, c in groups], 2.8 if named else 1.8, width=8)
    for ax, (_, c) in zip(axes, groups, strict=True):
        tasks = sorted(c["per_task"].items(), key=lambda item: (item[1], item[0]))
        ax.axhline(0, color=GREY, linewidth=0.8)
        for sign, colour, marker, word in ((-1, GREEN, "v", "fewer"), (0, GREY, "o", "as many"), (1, RED, "^", "more")):
            at = [(i, v) for i, (_, v) in enumerate(tasks) if (v > 0) - (v < 0) == sign]
            label = f"{word} bad shipped: {len(at)} tasks"
            ax.plot([i for i, _ in at], [v for _, v in at], marker, color=colour, markersize=4, label=label)
        ax.set_ylim(-1.1, 1.1)
        ax.set_ylabel("change of P(ship bad)")
        if len(tasks) <= MOST_NAMES:
            ax.set_xticks(range(len(tasks)), [_task_name(t) for t, _ in tasks], rotation=90, fontsize=7)
        legend(ax)
    axes[-1].set_xlabel("tasks, sorted by change of P(ship bad)")
    caption(figure, data, "paired change on each task")
    return figure


def _task_name(task: str) -> str:
    """A task's id without its benchmark, shortened at the front: the ends of ids tell them apart."""
    short = task.partition("/")[2] or task
    return short if len(short) <= LONGEST_NAME else "..." + short[3 - LONGEST_NAME :]


def _contrast_title(where: str, c: Data) -> str:
    names = f"{c['treatment']} against {c['baseline']}, n = {c['tasks']} tasks"
    return f"{where}: {names}" if where else names


PRICES = (("tokens", "tokens"), ("cost_usd", "dollars"), ("wall_s", "wall-clock"))


def frontier(data: Data) -> Any:
    """Change of FDR against the price in tokens (where none is known, in dollars or time), a point for each contrast.

    Exploratory contrasts are left out where any was declared; contrasts at one place share a point.
    """
    gates = [c for c in data["contrasts"] if c["role"] != "exploratory"] or data["contrasts"]
    known = {key: [c for c in gates if _on_frontier(c, key)] for key, _ in PRICES}
    key, price = next(((key, label) for key, label in PRICES if known[key]), PRICES[0])
    if not known[key]:
        return None
    groups = [(title, _places(found, key)) for title, found in strata(data, known[key])]
    looks = _looks(known[key])
    lines = sum(label.count("\n") + 1 for label in max(groups, key=lambda g: len(g[1]))[1])
    figure, axes = panels([t for t, _ in groups], 2.4, width=8, lines=lines)
    for ax, (_, places) in zip(axes, groups, strict=True):
        ax.axhline(0, color=GREY, linewidth=0.8, linestyle=":")
        ax.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
        for label, c in places.items():
            _frontier_point(ax, c, key, label, *looks[c["baseline"], c["treatment"]])
        ax.set_ylabel("change of FDR, points")
        legend(ax)
    confidence = data["analysis"]["confidence"]
    axes[-1].set_xlabel(f"price of trust: {price}, ratio to the baseline (lines: {100 * confidence:g}% intervals)")
    left = len(gates) - len(known[key])
    caption(figure, data, "what trust costs" + (f"; {left} contrasts undefined" if left else ""))
    return figure


def _places(contrasts: Sequence[Data], key: str) -> dict[str, Data]:
    """A contrast for each place, under the names of all that lie there."""
    found: dict[tuple[Any, ...], list[Data]] = {}
    for c in contrasts:
        ends = [c["price"]["ratios"][key]["ratio"], c["fdr"]["effect"]]
        at = (c["baseline"], c["role"] == "noise_floor", c["tasks"], *(repr((e["value"], e["interval"])) for e in ends))
        found.setdefault(at, []).append(c)
    return {_place_label(same): same[0] for same in found.values()}


def _place_label(same: Sequence[Data]) -> str:
    names, first = ", ".join(c["treatment"] for c in same), same[0]
    role = "\nnoise floor" if first["role"] == "noise_floor" else ""
    return f"{names} against {first['baseline']}{role}\n{first['tasks']} tasks"


def _looks(contrasts: Sequence[Data]) -> dict[tuple[str, str], tuple[str, str]]:
    """A colour and marker for each pair of arms, the same in every panel; the noise floor is grey."""
    floors = {(c["baseline"], c["treatment"]) for c in contrasts if c["role"] == "noise_floor"}
    pairs = dict.fromkeys((c["baseline"], c["treatment"]) for c in contrasts)
    gates = [pair for pair in pairs if pair not in floors]
    return {pair: look(i) for i, pair in enumerate(gates)} | dict.fromkeys(floors, (GREY, "+"))


def _on_frontier(c: Data, key: str) -> bool:
    return defined(c["fdr"]["effect"]["value"]) and defined(c["price"]["ratios"][key]["ratio"]["value"])


def _frontier_point(ax: Any, c: Data, key: str, label: str, colour: str, marker: str) -> None:
    x, y = c["price"]["ratios"][key]["ratio"], c["fdr"]["effect"]
    if defined(x["interval"]):
        ax.plot([x["interval"]["low"], x["interval"]["high"]], [100 * y["value"]] * 2, color=colour, linewidth=0.9)
    if defined(y["interval"]):
        ends = [100 * y["interval"]["low"], 100 * y["interval"]["high"]]
        ax.plot([x["value"]] * 2, ends, color=colour, linewidth=0.9)
    ax.plot([x["value"]], [100 * y["value"]], marker=marker, color=colour, linestyle="none", label=label)


def outcome_mosaic(data: Data) -> Any:
    """Shares of shipped and withheld, good, bad and unscored, of each arm."""
    groups = strata(data, data["arms"])
    figure, axes = panels([t for t, _ in groups], 0.4 + 0.32 * max(len(g) for _, g in groups))
    for ax, (_, arms) in zip(axes, groups, strict=True):
        for y, arm in enumerate(arms):
            left = 0.0
            for key, label, colour, hatch in OUTCOMES:
                width = arm["outcomes"][key] / arm["n"]
                ax.barh(y, width, left=left, height=0.75, color=colour, hatch=hatch, edgecolor="black",
                        linewidth=0.5, label=label if y == 0 else None)  # fmt: skip
                left += width
            ax.annotate(f"n = {arm['n']}", (1.01, y), xycoords=("axes fraction", "data"), va="center", fontsize=8)
        ax.set_yticks(range(len(arms)), [a["arm"] for a in arms])
        ax.set_ylim(len(arms) - 0.5, -0.5)
        ax.set_xlim(0, 1)
    axes[-1].set_xlabel("share of cells")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=7, frameon=False)
    caption(figure, data, "what became of the work")
    return figure


FIGURES: Mapping[str, Callable[[Data], Any]] = {
    "fdr_by_arm": fdr_by_arm,
    "paired_change": paired_change,
    "frontier": frontier,
    "outcome_mosaic": outcome_mosaic,
    "ladder": ladder,
    "pass_at_budget": pass_at_budget,
    "rejection_timeline": rejection_timeline,
}
