"""Sealed rows in, summary.json and summary.md out; the same rows give the same bytes, in any order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval.analysis.contrast import Contrast, compare_all
from recurve_eval.analysis.encode import plain
from recurve_eval.analysis.interaction import Omnibus, interactions, omnibus
from recurve_eval.analysis.markdown import render
from recurve_eval.analysis.metrics import arm_metrics
from recurve_eval.analysis.options import AnalysisOptions
from recurve_eval.analysis.pairing import index_cells, pair, stratify
from recurve_eval.analysis.records import Record, Row, Stratum, natural, records_of, refuse_unlike_pins
from recurve_eval.analysis.study import Declared, declared_of, with_holm
from recurve_eval.errors import ConfigError
from recurve_eval.stats import Undefined, corrected_rate, wilson

SUMMARY_SCHEMA = 1


@dataclass(frozen=True)
class Summary:
    """The analysis of a study.

    Attributes
    ----------
    data : dict
        What summary.json holds; valid against the shipped schema ``summary-1``.
    """

    data: dict[str, Any]

    def json(self) -> str:
        """The text of summary.json."""
        return json.dumps(self.data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"

    def markdown(self) -> str:
        """The text of summary.md."""
        return render(self.data)

    def write(self, directory: Path, *, figures: bool = False) -> list[Path]:
        """Write summary.json and summary.md (UTF-8, LF), and ``figures/`` if asked; returns their paths."""
        directory.mkdir(parents=True, exist_ok=True)
        texts = {"summary.json": self.json(), "summary.md": self.markdown()}
        paths = [directory / name for name in texts]
        for path in paths:
            path.write_bytes(texts[path.name].encode())
        if figures:
            from recurve_eval.analysis.figures import draw_figures

            paths += draw_figures(self.data, directory / "figures")
        return paths


def analyze_rows(rows: Iterable[Row], *, plan: Mapping[str, Any], options: AnalysisOptions | None = None) -> Summary:
    """Analyze sealed rows.

    Parameters
    ----------
    rows : iterable of mapping
        Rows of schema version 1, in any order.
    plan : mapping
        ``study.primary``, ``study.contrasts`` and ``study.noise_floor`` (each a mapping of ``baseline`` and
        ``treatment``), ``study.name``, and ``analysis``; ``calibration`` (``sensitivity`` and ``specificity``,
        each ``[count, n]``) corrects the FDR for a fallible oracle. All may be missing: then every contrast
        is exploratory.
    options : AnalysisOptions, optional
        Instead of ``plan["analysis"]``.

    Raises
    ------
    ConfigError
        No rows, or rows that are not of schema version 1.
    ShapeError
        Two rows of the same cell coordinates.
    Drift
        Rows of several plans whose pins differ.
    """
    held = list(rows)
    if not held:
        raise ConfigError("there are no sealed rows to analyze")
    options = options or AnalysisOptions.from_plan(plan)
    records = records_of(held)
    refuse_unlike_pins(held)
    index_cells(records)
    declared = declared_of(plan)
    strata = stratify(records)
    contrasts = with_holm([c for s, group in strata.items() for c in _contrasts(s, group, declared, options)])
    return Summary(
        {
            "schema": SUMMARY_SCHEMA,
            "study": _study(records, plan, declared),
            "analysis": plain(options),
            "notes": _notes(records, strata, contrasts, declared),
            "arms": [_arm(s, a, g, plan, options) for s, group in strata.items() for a, g in _by_arm(group)],
            "arms_all_strata": _pooled(records, strata, options),
            "contrasts": [plain(c) for c in contrasts],
            "omnibus": [plain(o) for o in _omnibus(strata)],
            "interactions": [plain(i) for i in interactions(contrasts, options)],
        }
    )


def _contrasts(stratum: Stratum, group: list[Record], declared: Declared, options: AnalysisOptions) -> list[Contrast]:
    arms = [arm for arm, _ in _by_arm(group)]
    roles = declared.roles(arms)
    return compare_all(stratum, [(pair(group, *names), role) for names, role in roles], options)


def _by_arm(group: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    arms: dict[str, list[Record]] = {}
    for r in group:
        arms.setdefault(r.arm, []).append(r)
    return sorted(arms.items(), key=lambda item: natural(item[0]))


def _arm(
    stratum: Stratum, arm: str, group: list[Record], plan: Mapping[str, Any], options: AnalysisOptions
) -> dict[str, Any]:
    metrics = arm_metrics(arm, group, options.confidence)
    out = {"stratum": plain(stratum), **plain(metrics)}
    calibration = plan.get("calibration")
    if calibration:
        out["fdr_corrected"] = _corrected(metrics.fdr.value, calibration, options.confidence)
    return out


def _corrected(fdr: float | Undefined, calibration: Mapping[str, Any], confidence: float) -> dict[str, Any]:
    sensitivity, specificity = (
        wilson(int(calibration[k][0]), int(calibration[k][1]), confidence) for k in ("sensitivity", "specificity")
    )
    parts = (fdr, sensitivity.value, specificity.value)
    known = [p for p in parts if not isinstance(p, Undefined)]
    undefined = next((p for p in parts if isinstance(p, Undefined)), None)
    value = corrected_rate(known[0], known[1], known[2]) if undefined is None else undefined
    return {"value": plain(value), "sensitivity": plain(sensitivity), "specificity": plain(specificity)}


def _pooled(
    records: list[Record], strata: Mapping[Stratum, list[Record]], options: AnalysisOptions
) -> list[dict[str, Any]]:
    """Per arm over all strata, for reading only; one stratum needs no second table."""
    if len(strata) < 2:
        return []
    return [plain(arm_metrics(arm, group, options.confidence)) for arm, group in _by_arm(records)]


def _omnibus(strata: Mapping[Stratum, list[Record]]) -> list[Omnibus]:
    return [omnibus(s, group) for s, group in strata.items()]


def _study(records: list[Record], plan: Mapping[str, Any], declared: Declared) -> dict[str, Any]:
    simulated = {r.stratum.model for r in records if r.simulated}
    real = {r.stratum.model for r in records if not r.simulated}
    name = (plan.get("study") or {}).get("name") or ", ".join(sorted({r.experiment for r in records}))

    def contrast(arms: tuple[str, str] | None) -> dict[str, str] | None:
        return {"baseline": arms[0], "treatment": arms[1]} if arms else None

    return {
        "name": name,
        "plan_hashes": sorted({r.plan_hash for r in records}),
        "cells": len(records),
        "tasks": len({r.task for r in records}),
        "benchmarks": sorted({r.stratum.benchmark for r in records}),
        "models": sorted({r.stratum.model for r in records}),
        "agents": sorted({r.stratum.agent for r in records}),
        "budgets": sorted({r.stratum.budget for r in records}),
        "arms": sorted({r.arm for r in records}, key=natural),
        "seeds": sorted({r.seed for r in records}),
        "simulated": "all" if not real else "some" if simulated else "none",
        "simulated_models": sorted(simulated),
        "primary": contrast(declared.primary),
        "contrasts": [contrast(c) for c in declared.contrasts],
        "noise_floor": contrast(declared.noise_floor),
    }


def _notes(
    records: list[Record], strata: Mapping[Stratum, list[Record]], contrasts: list[Contrast], declared: Declared
) -> list[str]:
    """What a reader must know before any number; each a full sentence."""
    notes = []
    if declared.primary is None:
        notes.append("The plan declares no primary contrast, so every contrast here is exploratory.")
    notes += [f"The declared contrast {c} cannot be made: an arm has no rows."
              for c in declared.absent(sorted({r.arm for r in records}))]  # fmt: skip
    if len({r.task for r in records}) == 1:
        notes.append("There is one task. One task supports no effect size: only counts are reported.")
    elif any(c.detectable.refused and c.role in ("primary", "declared") for c in contrasts):
        worst = next(c.detectable.refused for c in contrasts if c.detectable.refused)
        notes.append(f"A declared contrast cannot reach its alpha: {worst}.")
    unscored = sum(not r.scored for r in records)
    if unscored:
        notes.append(f"{unscored} of {len(records)} cells have no verdict; they are listed and bounded, not counted.")
    lost = len({(c.stratum, arm, key) for c in contrasts for arm, keys in c.missing.items() for key in keys})
    if lost:
        notes.append(f"{lost} cells are missing as partners in the contrasts below; they are listed with each.")
    tampered = sum(r.verdict == "tampered" for r in records)
    if tampered:
        notes.append(f"{tampered} submissions tampered with their grading and count as bad work.")
    if declared.noise_floor is None and declared.primary is not None:
        notes.append("No control was run against itself, so no noise floor stands beside the effects.")
    if len(strata) > 1:
        notes.append("Contrasts are made within each model, benchmark, agent and budget, and never pooled over them.")
    return notes
