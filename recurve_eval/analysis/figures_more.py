"""Figures of what spans arms, budgets and rounds; see :mod:`recurve_eval.analysis.figures`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recurve_eval.analysis.figure_parts import (
    GREEN,
    GREY,
    MOST_NAMES,
    MOST_PANELS,
    RED,
    caption,
    legend,
    look,
    panels,
    strata,
)  # fmt: skip
from recurve_eval.analysis.format import Data, defined


def ladder(data: Data) -> Any:
    """The marginal effect of each part: P(ship bad) of each arm less its parent's, with interval."""
    groups = [(t, [r for r in g if defined(r["ship_bad"]["value"])]) for t, g in strata(data, data["ladder"])]
    groups = [(t, g) for t, g in groups if g]
    if not groups:
        return None
    figure, axes = panels([t for t, _ in groups], 0.35 + 0.3 * max(len(g) for _, g in groups), width=8)
    for ax, (_, rungs) in zip(axes, groups, strict=True):
        ax.axvline(0, color=GREY, linewidth=0.8)
        for y, r in enumerate(rungs):
            _effect_line(ax, r["ship_bad"], y)
            ax.annotate(
                f"n = {r['tasks']} tasks", (1.01, y), xycoords=("axes fraction", "data"), va="center", fontsize=8
            )
        ax.set_yticks(range(len(rungs)), [_rung_name(r) for r in rungs])
        ax.set_ylim(len(rungs) - 0.5, -0.5)
    axes[-1].set_xlabel("change of P(ship bad), points (95% interval)")
    caption(figure, data, "which part earned it")
    return figure


def _effect_line(ax: Any, effect: Data, y: float) -> None:
    colour, marker = (GREEN, "v") if effect["value"] < 0 else (RED, "^") if effect["value"] > 0 else (GREY, "o")
    if defined(effect["interval"]):
        ax.plot(
            [100 * effect["interval"]["low"], 100 * effect["interval"]["high"]], [y, y], color=colour, linewidth=1.4
        )
    ax.plot([100 * effect["value"]], [y], marker=marker, color=colour, linestyle="none")


def _rung_name(rung: Data) -> str:
    parts = ", ".join(rung["parts"])
    return f"{rung['arm']} against {rung['parent']}\n{parts if len(parts) <= 36 else parts[:33] + '...'}"


def pass_at_budget(data: Data) -> Any:
    """Oracle pass of each arm over its budgets, with intervals."""
    groups: dict[str, list[Data]] = {}
    for curve in data["budget_curves"]:
        if curve["tasks"]:
            groups.setdefault(f"{curve['benchmark']}, {curve['model']}", []).append(curve)
    if not groups:
        return None
    lines = 2 * max(map(len, groups.values()))
    figure, axes = panels(list(groups)[:MOST_PANELS], 2.4, width=8, lines=lines)
    for ax, curves in zip(axes, groups.values(), strict=False):
        names = [p["budget"] for p in max(curves, key=lambda c: len(c["points"]))["points"]]
        for n, curve in enumerate(curves):
            _curve(ax, curve, names, *look(n), shift=0.06 * (n - (len(curves) - 1) / 2))
        ax.set_xticks(range(len(names)), names)
        ax.set_ylim(-0.03, 1.03)
        ax.set_ylabel("oracle pass")
        legend(ax)
    axes[-1].set_xlabel("budget, growing; the same tasks at every budget (95% intervals)")
    caption(figure, data, "oracle pass at budget")
    return figure


def _curve(ax: Any, curve: Data, names: Sequence[str], colour: str, marker: str, shift: float) -> None:
    at = [names.index(p["budget"]) + shift for p in curve["points"] if p["budget"] in names]
    rates = [p["oracle_pass"] for p in curve["points"] if p["budget"] in names]
    label = f"{curve['arm']}: n = {rates[0]['n']} cells,\n{curve['tasks']} tasks"
    ax.plot(at, [r["value"] for r in rates], color=colour, marker=marker, linewidth=1, label=label)
    for x, r in zip(at, rates, strict=True):
        ax.plot([x, x], [r["interval"]["low"], r["interval"]["high"]], color=colour, linewidth=0.8)


def rejection_timeline(data: Data) -> Any:
    """Share of an arm's cells that its gate rejected in each round, one line an arm."""
    arms = [a for a in data["arms"] if sum(t["rejected"] for t in a["timeline"])]
    if not arms:
        return None
    groups = [(title, _alike(found)) for title, found in strata(data, arms)]
    figure, axes = panels([t for t, _ in groups], 2.2, width=8, lines=2 * max(len(g) for _, g in groups))
    for ax, (_, lines) in zip(axes, groups, strict=True):
        for n, (label, rounds, shares) in enumerate(lines):
            colour, marker = look(n)
            ax.plot(rounds, shares, color=colour, marker=marker, markersize=5, linewidth=1, label=label)
        ax.set_xlim(0.5, max(rounds[-1] for _, rounds, _ in lines) + 0.5)
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        ax.set_ylim(bottom=-0.02)
        ax.set_ylabel("share of cells rejected")
        legend(ax)
    axes[-1].set_xlabel("round of the gate (a rejected cell goes on to the next while its budget lasts)")
    caption(figure, data, "rejections, round by round")
    return figure


def _alike(arms: Sequence[Data]) -> list[tuple[str, list[int], list[float]]]:
    """Lines (label, rounds, shares); arms whose lines lie on one another share one."""
    found: dict[tuple[Any, ...], list[Data]] = {}
    for arm in arms:
        rounds = arm["timeline"][:MOST_NAMES]
        found.setdefault(tuple((t["round"], t["rejected"], rounds[0]["checked"]) for t in rounds), []).append(arm)
    lines = []
    for line, same in found.items():
        cells, names = line[0][2], ", ".join(a["arm"] for a in same)
        label = f"{names}: n = {cells} cells,\n{line[0][1]} rejected in round 1"
        lines.append((label, [at for at, _, _ in line], [rejected / cells for _, rejected, _ in line]))
    return lines
