"""What figures share: colours and markers, panels by stratum, the caption.

Colours are Okabe and Ito's and every category also differs in marker or hatching, so that the figures read in grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recurve_eval.analysis.format import Data

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
MOST_PANELS = 12
MOST_NAMES = 30
MARKERS = ((BLUE, "o"), (RED, "D"), (GREEN, "^"), (ORANGE, "v"), ("#CC79A7", "P"), ("#56B4E9", "X"))


def panels(titles: Sequence[str], height: float, width: float = 6.5) -> tuple[Any, list[Any]]:
    """A figure and its axes, one below the other; inches."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, 0.7 + height * len(titles)), layout=ConstrainedLayoutEngine(w_pad=0.12))
    axes = figure.subplots(len(titles), 1, squeeze=False)[:, 0]
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, loc="left", fontsize=9)
    return figure, list(axes)


def strata(data: Data, items: Sequence[Data]) -> list[tuple[str, list[Data]]]:
    """Items by stratum, titled by the axes that vary; at most a dozen groups."""
    study = data["study"]
    axes = (("benchmark", "benchmarks"), ("model", "models"), ("agent", "agents"), ("budget", "budgets"))
    varying = [axis for axis, many in axes if len(study[many]) > 1]
    groups: dict[tuple[str, ...], list[Data]] = {}
    for item in items:
        groups.setdefault(tuple(item["stratum"].values()), []).append(item)
    titled = [(", ".join(str(g[0]["stratum"][a]) for a in varying), g) for g in groups.values()]
    if len(titled) > MOST_PANELS:
        last, rest = titled[MOST_PANELS - 1], len(titled) - MOST_PANELS
        return [*titled[: MOST_PANELS - 1], (f"{last[0]} ({rest} more strata in summary.json)", last[1])]
    return titled


def caption(figure: Any, data: Data, title: str) -> None:
    """The study and what the figure shows, above all panels."""
    simulated = "" if data["study"]["simulated"] == "none" else " (simulated agents)"
    figure.suptitle(f"{data['study']['name']}: {title}{simulated}", x=0.01, ha="left", fontsize=10)
