"""What figures share: colours and markers, panels by stratum, the caption.

Colours are Okabe and Ito's and every category also differs in marker or hatching, so that the figures read in grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recurve_eval.analysis.format import Data, Labels

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
MOST_PANELS = 12
MOST_NAMES = 30
COLOURS = (BLUE, RED, GREEN, ORANGE, "#CC79A7", "#56B4E9")
SHAPES = "oD^vPXs<>*phd8"
LEGEND_LINE = 0.135  # inches of a line in a legend


def look(number: int) -> tuple[str, str]:
    """A colour and a marker; the marker alone tells fourteen apart."""
    return COLOURS[number % len(COLOURS)], SHAPES[number % len(SHAPES)]


def legend(ax: Any) -> None:
    """Beside the panel, which :func:`panels` must have made high enough by ``lines``."""
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7, frameon=False)


def panels(titles: Sequence[str], height: float, width: float = 6.5, lines: int = 0) -> tuple[Any, list[Any]]:
    """A figure and its axes, one below the other; inches. ``lines`` are those of the longest legend."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    height = max(height, 0.4 + LEGEND_LINE * lines)
    figure = Figure(figsize=(width, 0.7 + height * len(titles)), layout=ConstrainedLayoutEngine(w_pad=0.12))
    axes = figure.subplots(len(titles), 1, squeeze=False)[:, 0]
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, loc="left", fontsize=9)
    return figure, list(axes)


def strata(data: Data, items: Sequence[Data]) -> list[tuple[str, list[Data]]]:
    """Items by stratum, titled by the axes that vary; at most a dozen groups."""
    labels = Labels(data["study"])
    groups: dict[tuple[str, ...], list[Data]] = {}
    for item in items:
        groups.setdefault(tuple(item["stratum"].values()), []).append(item)
    titled = [(", ".join(labels.shown(g[0]["stratum"])), g) for g in groups.values()]
    if len(titled) > MOST_PANELS:
        last, rest = titled[MOST_PANELS - 1], len(titled) - MOST_PANELS
        return [*titled[: MOST_PANELS - 1], (f"{last[0]} ({rest} more strata in summary.json)", last[1])]
    return titled


def caption(figure: Any, data: Data, title: str) -> None:
    """The study and what the figure shows, above all panels."""
    simulated = "" if data["study"]["simulated"] == "none" else " (simulated agents)"
    figure.suptitle(f"{data['study']['name']}: {title}{simulated}", x=0.01, ha="left", fontsize=10)
