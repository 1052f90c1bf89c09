"""Figures: every one drawn, from the summary alone, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_simulated_agents_are_named_and_names_are_not_markup(tmp_path: Path) -> None:
    rows = [row(f"t{n}", arm, simulated=True) for n in range(3) for arm in ("A0", "A$^{$")]
    assert draw_figures(analyze_rows(rows, plan={}).data, tmp_path)
