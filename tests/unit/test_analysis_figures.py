"""Figures: every one drawn, from the summary alone, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from analysis_samples import historical, plan_of, row
from test_analysis_summary import FLOOR, study

from recurve_eval.analysis import analyze_rows
from recurve_eval.analysis.figures import FIGURES, draw_figures

REPO = Path(__file__).resolve().parents[2]
AGAIN = """
import json, sys
from pathlib import Path
from recurve_eval.analysis.figures import draw_figures
draw_figures(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path("figures"))
"""


def test_all_figures_in_both_formats_with_the_same_bytes_elsewhere(tmp_path: Path) -> None:
    parts = {"A0": {"controller": "self"}, "A1": {"checks": "ci"}, "A2": {"checks": "ci", "traps": "on"}}
    at = [(n, arm, budget) for n in range(6) for arm in parts for budget in ("20k", "60k")]
    rows = [
        row(f"t{n}", a, model="opus", budget=b, parts=parts[a], verdict="pass" if n % 2 else "fail") for n, a, b in at
    ]
    summary = analyze_rows(study(20, models=("haiku", "sonnet")) + rows, plan=plan_of(noise_floor=FLOOR))
    first = draw_figures(summary.data, tmp_path / "here")
    assert sorted(p.name for p in first) == sorted(f"{n}.{kind}" for n in FIGURES for kind in ("svg", "png"))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "matplotlibrc").write_text("axes.facecolor: red\nsvg.hashsalt: other\n", encoding="utf-8")
    (tmp_path / "summary.json").write_text(summary.json(), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(REPO), "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", AGAIN, str(tmp_path / "summary.json")]
    subprocess.run(command, cwd=tmp_path / "there", env=env, check=True)
    for path in first:
        assert path.read_bytes() == (tmp_path / "there" / "figures" / path.name).read_bytes(), path.name
        assert b"matplotlib version" not in path.read_bytes()


def test_figures_without_numbers_are_left_out(tmp_path: Path) -> None:
    only = draw_figures(analyze_rows([row()], plan={}).data, tmp_path)
    assert sorted({p.stem for p in only}) == ["fdr_by_arm", "outcome_mosaic"]
    smoke = draw_figures(analyze_rows(historical(), plan=plan_of("A0", "A3")).data, tmp_path)
    assert sorted({p.stem for p in smoke}) == ["fdr_by_arm", "outcome_mosaic", "paired_change", "rejection_timeline"]


def test_a_ladder_of_twelve_arms_fits_its_figures_and_hides_no_point(tmp_path: Path) -> None:
    arms = ["A0", "A0b", *(f"A{n}" for n in range(1, 11))]
    rows = []
    for k, a in enumerate(arms):
        parts = {"checks": "ci", "traps": k}
        for n in range(14):
            held: Any = {"gate": "RED", "stop": "max_cycles", "rejections": 1} if n % 7 == k % 3 else {}
            verdict = "pass" if (n + k % 4) % 3 else "fail"
            rows.append(
                row(f"t{n}", a, parts=parts, tokens=(10 + k // 2, 1), verdict=verdict, declared=not held, **held)
            )
    plan = plan_of("A0", "A3", contrasts=[{"baseline": "A3", "treatment": a} for a in arms[5:]], noise_floor=FLOOR)
    data = analyze_rows(rows, plan=plan).data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw_figures(data, tmp_path)
    for name in ("frontier", "rejection_timeline", "ladder"):
        figure = FIGURES[name](data)
        figure.draw_without_rendering()
        (ax,) = figure.axes
        box, whole = ax.get_legend().get_window_extent() if ax.get_legend() else ax.get_tightbbox(), figure.bbox
        assert box.y0 >= whole.y0 and box.y1 <= whole.y1, name
    looks = [(line.get_marker(), line.get_label()) for line in FIGURES["frontier"](data).axes[0].lines]
    marked = [marker for marker, label in looks if not label.startswith("_")]
    assert len(set(marked)) == len(marked) > 6, "each contrast has a shape of its own"


def test_the_frontier_prices_in_time_where_no_tokens_are_known() -> None:
    bad = {"A0": 5, "A1": 2}
    rows = [
        row(f"t{n}", a, tokens=None, usd=0.0, wall_s=2.0 + n, verdict="fail" if n < k else "pass")
        for n in range(9)
        for a, k in bad.items()
    ]
    figure = FIGURES["frontier"](analyze_rows(rows, plan=plan_of()).data)
    assert "wall-clock" in figure.axes[0].get_xlabel()


def test_simulated_agents_are_named_and_names_are_not_markup(tmp_path: Path) -> None:
    rows = [row(f"t{n}", arm, simulated=True) for n in range(3) for arm in ("A0", "A$^{$")]
    assert draw_figures(analyze_rows(rows, plan={}).data, tmp_path)


def test_a_legend_of_many_contrasts_has_room(tmp_path: Path) -> None:
    arms = [f"A{n}" for n in range(13)]
    good = [(n, arm) for n in range(6) for arm in arms]
    rows = [row(f"t{n}", a, verdict="pass" if (n + int(a[1:])) % 3 else "fail") for n, a in good]
    drawn = draw_figures(analyze_rows(rows, plan=plan_of("A0", "A3")).data, tmp_path)  # a warning is an error here
    assert "frontier" in {p.stem for p in drawn}
