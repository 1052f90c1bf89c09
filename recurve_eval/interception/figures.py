"""Figures of an interception, as SVG and PNG whose bytes depend on its data alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recurve_eval.analysis.figure_parts import BLUE, RED
from recurve_eval.analysis.figures import STYLE
from recurve_eval.analysis.format import defined
from recurve_eval.interception.text import TITLES

Data = Mapping[str, Any]


def draw(data: Data, directory: Path) -> list[Path]:
    """Draw what there are numbers for; the files written."""
    import matplotlib as mpl

    directory.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        for stem, make in FIGURES.items():
            figure = make(data)
            if figure is None:
                continue
            svg, png = directory / f"{stem}.svg", directory / f"{stem}.png"
            figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
            figure.savefig(png, format="png", metadata={"Software": None})
            written += [svg, png]
    return written


def _figure(panels: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.12))
    return figure, figure.subplots(1, panels, squeeze=False)[0]


def layers(data: Data) -> Any:
    """Defects and good work stopped by each layer, with intervals and raw fractions."""
    figure, (ax,) = _figure(1, 7.5, 1.2 + 0.5 * len(data["layers"]))
    for y, layer in enumerate(data["layers"]):
        for shift, key, colour, marker, word in ((-0.14, "tpr", BLUE, "o", "defects stopped (TPR)"),
                                                 (0.14, "fpr", RED, "D", "good work stopped (FPR)")):  # fmt: skip
            r = layer[key]
            if defined(r["value"]):
                ax.plot([r["interval"]["low"], r["interval"]["high"]], [y + shift] * 2, color=colour, linewidth=1.4)
                label = word if y == 0 else None
                ax.plot([r["value"]], [y + shift], marker=marker, color=colour, linestyle="none", label=label)
            text = f"{r['count']}/{r['n']}"
            ax.annotate(text, (1.01, y + shift), xycoords=("axes fraction", "data"), va="center", fontsize=7)
    ax.set_yticks(range(len(data["layers"])), [x["layer"] for x in data["layers"]])
    ax.set_ylim(len(data["layers"]) - 0.5, -0.5)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel(f"share of items, {100 * data['confidence']:g}% interval")
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    figure.suptitle(f"{data['benchmark']}, {data['source']}: what each layer stops", x=0.01, ha="left", fontsize=10)
    return figure


def efficacy(data: Data) -> Any:
    """Detection against the number of checks, traps and fuzz mutants."""
    if not data["curves"]:
        return None
    from matplotlib.ticker import MaxNLocator

    figure, axes = _figure(len(data["curves"]), 3.4 * len(data["curves"]), 3.2)
    for ax, (key, points) in zip(axes, data["curves"].items(), strict=True):
        what, _, *columns = TITLES[key]
        for (column, word), colour, marker in zip(columns, (BLUE, RED), ("o", "D"), strict=True):
            kept = [(p["k"], p[column]) for p in points if p[column] is not None and defined(p[column]["value"])]
            ax.plot([k for k, _ in kept], [e["value"] for _, e in kept], marker, color=colour, linestyle="-",
                    markersize=4, label=word)  # fmt: skip
            spread = [(k, e["interval"]) for k, e in kept if defined(e["interval"])]
            for k, interval in spread:
                ax.plot([k, k], [interval["low"], interval["high"]], color=colour, linewidth=0.8)
        ax.set_xlabel(what)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_ylim(-0.03, 1.03)
        ax.legend(fontsize=7, frameon=False)
    figure.suptitle(f"{data['benchmark']}, {data['source']}: efficacy of {data['curves_of']}", x=0.01, ha="left",
                    fontsize=10)  # fmt: skip
    return figure


FIGURES: Mapping[str, Callable[[Data], Any]] = {"layers": layers, "efficacy": efficacy}
