"""The report of an interception: ``analysis/`` with summary.md, summary.json, reviews.jsonl, figures.

Its bytes depend on the decisions alone, not on when or how fast they were made; times stand in ``timings.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recurve_eval.analysis.board_layers import KIND
from recurve_eval.analysis.encode import plain
from recurve_eval.domain import canonical_json
from recurve_eval.interception.blindspots import by_authorship, of_layers, of_models
from recurve_eval.interception.curves import curves
from recurve_eval.interception.items import DEFECT, FINE
from recurve_eval.interception.matrix import by_kind, by_layer, census, matrix, rate, timings, unable
from recurve_eval.interception.rows import Decision, decisions
from recurve_eval.interception.stored import run_at
from recurve_eval.interception.text import markdown
from recurve_eval.ledger import read_rows
from recurve_eval.stats import wilson_clustered
from recurve_eval.tracking.study import read_plan

PLACE = "analysis"
SCHEMA = 1


def write_report(run_dir: Path, figures: bool = True) -> Path:
    """Write everything below ``analysis/``; the path of summary.md."""
    plan = read_plan(run_dir)
    decided = decisions(read_rows(run_dir, plan["plan_hash"]))
    data = plain(summarize(decided, plan))
    place = run_dir / PLACE
    place.mkdir(parents=True, exist_ok=True)
    _write(place / "summary.json", json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n")
    _write(place / "summary.md", markdown(data))
    _write(place / "reviews.jsonl", "".join(canonical_json(line) + "\n" for line in _reviews(decided)))
    times = plain(timings(by_layer(decided)))
    _write(place / "timings.json", json.dumps(times, indent=1, sort_keys=True) + "\n")
    if figures:
        from recurve_eval.interception.figures import draw

        draw(data, place / "figures")
    return place / "summary.md"


def summarize(decided: list[Decision], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Every number of the report. Rates are :class:`Rate`, correlations :class:`MissCorrelation`."""
    table = by_layer(decided)
    first = plan["conditions"][0]
    config, analysis = first["config"], plan["analysis"]
    confidence = 1 - float(analysis["alpha"])
    seed, resamples = int(analysis["seed"]), int(analysis["resamples"])
    cumulative = bool(config["layers"]["cumulative"])
    judging = [layer for layer in table if any(d.claims_by for d in table[layer])]
    parts = {c["labels"]["arm"]: c["config"]["gate"] for c in plan["conditions"]}
    by_claims = [layer for layer in judging if _claims_part(parts[layer])]
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "study": plan["experiment"],
        "plan_hash": plan["plan_hash"],
        "benchmark": first["labels"]["benchmark"],
        "source": config["source"]["name"],
        "claims": config["claims"]["name"],
        "simulated": bool(first["simulated"]),
        "simulated_claims": bool(by_claims) and config["claims"]["name"] == "agent",
        "cumulative": cumulative,
        "confidence": confidence,
        "complete": len(decided) == plan["cells"],
        "census": census(table),
        "layers": matrix(table, confidence, cumulative),
        "defects_by_kind": by_kind(table, DEFECT, confidence),
        "good_by_kind": by_kind(table, FINE, confidence),
        "unable": unable(table),
        "layer_pairs": of_layers(table, lambda a, b: _shared(parts[a], parts[b]), seed, resamples),
        "model_pairs": of_models(next(iter(table.values()), []), seed, resamples),
        "authorship": _authorship(table, by_claims, confidence),
        "curves": curves(table[by_claims[0]], seed, resamples) if by_claims else {},
        "curves_of": by_claims[0] if by_claims else None,
        "end_to_end": _end_to_end(config["source"].get("run"), confidence),
    }


def _end_to_end(run: str | None, confidence: float) -> list[dict[str, Any]]:
    """What became of the work of a replayed run itself, by its arms."""
    if run is None:
        return []
    arms: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(read_rows(run_at(run, "source.run")), key=lambda r: int(r["identity"]["order"])):
        if row["verdict"]["oracle_verdict"] != "unscored":
            arms.setdefault(row["identity"]["arm"], []).append(row)
    return [{"arm": arm, **_outcomes(rows, confidence)} for arm, rows in sorted(arms.items())]


def _outcomes(rows: list[Mapping[str, Any]], confidence: float) -> dict[str, Any]:
    def share(among: Callable[[str], bool], event: str) -> Any:
        sizes: dict[str, int] = {}
        events: dict[str, int] = {}
        for row in rows:
            task, outcome = row["identity"]["task_id"], row["derived"]["outcome"]
            if among(outcome):
                sizes[task] = sizes.get(task, 0) + 1
                events[task] = events.get(task, 0) + (outcome == event)
        return wilson_clustered([events[t] for t in sizes], list(sizes.values()), confidence)

    return {
        "cells": len(rows),
        "ship_bad": share(lambda o: True, "shipped_bad"),
        "fdr": share(lambda o: o.startswith("shipped"), "shipped_bad"),
        "bad_withheld": share(lambda o: o.endswith("bad"), "withheld_bad"),
        "good_withheld": share(lambda o: o.endswith("good"), "withheld_good"),
    }


def _claims_part(gate: Mapping[str, Any]) -> bool:
    return bool(gate.get("checks")) and gate["checks"]["name"] == "claims"


def _shared(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Whether two gates share a part, so that they cannot but agree where it decides."""
    a = {canonical_json(part) for part in one.values() if part}
    return any(canonical_json(part) in a for part in two.values() if part)


def _authorship(table: Mapping[str, list[Decision]], layers: list[str], confidence: float) -> list[dict[str, Any]]:
    out = []
    for layer in layers[:1]:
        for who, ds in sorted(by_authorship(table[layer]).items()):
            judged = [d for d in ds if d.own in ("passed", "blocked")]
            defects = [d for d in judged if d.standing == DEFECT]
            good = [d for d in judged if d.standing == FINE]
            out.append({
                "layer": layer, "claims_by": who, "missed": rate(defects, lambda d: d.own == "passed", confidence),
                "blocked_wrongly": rate(good, lambda d: d.own == "blocked", confidence),
            })  # fmt: skip
    return out


def _reviews(decided: list[Decision]) -> list[dict[str, Any]]:
    """The layers' own decisions as recorded reviews, which ``intercept --reviews`` reads, several runs at once."""
    return [
        {"item": d.item.replace("\0", " "), "task": d.task_id, "reviewer": d.layer, "model": d.claims_by,
         "verdict": "pass" if d.own == "passed" else "fail", "truth": "fail" if d.standing == DEFECT else "pass"}
        for d in decided if d.standing in (DEFECT, FINE) and d.own in ("passed", "blocked")
    ]  # fmt: skip


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def first_tables(text: str) -> str:
    """The report up to its second heading: what a terminal shows."""
    head, _, _ = text.partition("\n## By kind")
    return head.rstrip() + "\n"
