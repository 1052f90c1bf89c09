"""Where an analysis takes its rows from, and what it does when its sources disagree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval.analysis.summary import analyze_rows
from recurve_eval.domain import canonical_json
from recurve_eval.tracking.study import read_plan

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Disagreement:
    """How a tracker's rows differ from the ledger's, by cell id."""

    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    different: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unknown or self.different)

    def __str__(self) -> str:
        parts = []
        for what, ids in (
            ("cells are missing from the tracker", self.missing),
            ("cells are unknown to the ledger", self.unknown),
            ("cells differ from their sealed rows", self.different),
        ):
            if ids:
                parts.append(f"{len(ids)} {what} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})")
        return "; ".join(parts)


def compare(tracked: Iterable[Row], sealed: Iterable[Row]) -> Disagreement:
    """Hold a tracker's rows against the ledger's, which are the truth."""
    truth = {r["identity"]["cell_id"]: canonical_json(r) for r in sealed}
    seen: dict[str, str] = {r["identity"]["cell_id"]: canonical_json(r) for r in tracked}
    return Disagreement(
        missing=tuple(sorted(truth.keys() - seen.keys())),
        unknown=tuple(sorted(seen.keys() - truth.keys())),
        different=tuple(sorted(c for c in truth.keys() & seen.keys() if truth[c] != seen[c])),
    )


def write_analysis(
    run_dir: Path,
    rows: Iterable[Row],
    into: Path | None = None,
    calibration: Mapping[str, Sequence[int]] | None = None,
) -> Path:
    """Analyze rows under the run's frozen plan; writes ``analysis/`` and returns summary.md's path.

    ``calibration`` is ``{"sensitivity": [count, n], "specificity": [count, n]}`` of the oracle that graded them.
    """
    plan = read_plan(run_dir)
    if calibration is not None:
        plan["calibration"] = dict(calibration)
    figures = bool((plan.get("analysis") or {}).get("figures", False))
    paths = analyze_rows(rows, plan=plan).write(into or run_dir / "analysis", figures=figures)
    return next(p for p in paths if p.name == "summary.md")


def headline(markdown: str) -> str:
    """The first screen of a summary: everything up to the details of single contrasts."""
    lines = markdown.splitlines()
    headings = [n for n, line in enumerate(lines) if line.startswith("## ")]
    after = [n for n in headings if n > 0 and lines[n] not in ("## Arms", "## Contrasts")]
    return "\n".join(lines[: after[0]] if after else lines).rstrip()
