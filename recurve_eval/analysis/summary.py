"""Sealed rows in, summary.json and summary.md out; the same rows give the same bytes, in any order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval.analysis.contrast import Contrast, compare_all
from recurve_eval.analysis.encode import plain
from recurve_eval.analysis.grids import budget_curves, halves
from recurve_eval.analysis.interaction import Omnibus, interactions, omnibus
from recurve_eval.analysis.ladder import ladder
from recurve_eval.analysis.markdown import render
from recurve_eval.analysis.metrics import arm_metrics
from recurve_eval.analysis.options import AnalysisOptions
from recurve_eval.analysis.pairing import index_cells, pair, stratify
from recurve_eval.analysis.pins import Pins
from recurve_eval.analysis.records import Record, Row, Stratum, collector_paused, natural, records_of
from recurve_eval.analysis.scope import cautions, notes, study_of
from recurve_eval.analysis.study import Declared, declared_of, with_holm
from recurve_eval.analysis.verdict import with_verdicts
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
    records : sequence of Record
        The cells behind it, in canonical order.
    """

    data: dict[str, Any]
    records: Sequence[Record] = ()

    def json(self) -> str:
        """The text of summary.json."""
        return json.dumps(self.data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"

    def markdown(self, figures: Sequence[str] = ()) -> str:
        """The text of summary.md, with links to ``figures`` (paths relative to it)."""
        return render(self.data, figures)

    def write(
        self, directory: Path, *, figures: bool = False, report: bool = False, cells: Path | None = None
    ) -> list[Path]:
        """Write summary.json and summary.md (UTF-8, LF), and if asked ``figures/`` and report.html.

        ``cells`` is the run's directory of evidence, for the report. Returns the paths of what was written.
        """
        directory.mkdir(parents=True, exist_ok=True)
        drawn: list[Path] = []
        if figures:
            from recurve_eval.analysis.figures import draw_figures

            drawn = draw_figures(self.data, directory / "figures")
        vector = [p for p in drawn if p.suffix == ".svg"]
        markdown = self.markdown([p.relative_to(directory).as_posix() for p in vector])
        texts = {"summary.json": self.json(), "summary.md": markdown}
        for name, text in texts.items():
            (directory / name).write_bytes(text.encode("utf-8", "backslashreplace"))
        paths = [*(directory / name for name in texts), *drawn]
        if report:
            from recurve_eval.analysis.report import write_report

            paths.append(directory / "report.html")
            write_report(paths[-1], self.data, self.records, markdown, vector, cells)
        return paths


def analyze_rows(rows: Iterable[Row], *, plan: Mapping[str, Any], options: AnalysisOptions | None = None) -> Summary:
    """Analyze sealed rows; each is read once and not kept.

    Parameters
    ----------
    rows : iterable of mapping
        Rows of schema version 1, in any order.
    plan : mapping
        ``study.primary``, ``study.contrasts`` and ``study.noise_floor`` (each a mapping of ``baseline`` and
        ``treatment``), ``study.name``, and ``analysis``; ``calibration`` (``fails_bad`` and ``passes_good``,
        each ``[count, n]`` of the oracle) corrects the FDR for a fallible oracle. All may be missing: then every
        contrast is exploratory.
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
    return analyze_records(gathered(rows), plan=plan, options=options)


def gathered(rows: Iterable[Row]) -> list[Record]:
    """The records of rows that may be analyzed together. Raises as :func:`analyze_rows`."""
    pins = Pins()
    records = records_of(pins.watch(rows))
    pins.refuse_unlike()
    index_cells(records)
    return records


def analyze_records(
    records: list[Record], *, plan: Mapping[str, Any], options: AnalysisOptions | None = None
) -> Summary:
    """Analyze what :func:`gathered` returned; ``plan`` and ``options`` as for :func:`analyze_rows`."""
    if not records:
        raise ConfigError("there are no sealed rows to analyze")
    with collector_paused():
        return _analyzed(records, plan, options or AnalysisOptions.from_plan(plan))


def _analyzed(records: list[Record], plan: Mapping[str, Any], options: AnalysisOptions) -> Summary:
    declared = declared_of(plan)
    strata = stratify(records)
    contrasts = with_holm([c for s, group in strata.items() for c in _contrasts(s, group, declared, options)])
    return Summary(
        {
            "schema": SUMMARY_SCHEMA,
            "study": study_of(records, plan, declared),
            "analysis": plain(options),
            "cautions": cautions(records),
            "notes": notes(records, contrasts, declared),
            "arms": [_arm(s, a, g, plan, options) for s, group in strata.items() for a, g in _by_arm(group)],
            "arms_all_strata": _pooled(records, strata, options),
            "contrasts": with_verdicts([plain(c) for c in contrasts], options.alpha),
            "omnibus": [plain(o) for o in _omnibus(strata)],
            "interactions": [plain(i) for i in interactions(contrasts, options)],
            "ladder": [plain(rung) for s, group in strata.items() for rung in ladder(s, group, options)],
            "budget_curves": [plain(c) for c in budget_curves(records, plan, options)],
            "halves": [plain(h) for h in halves(records, options)],
        },
        records,
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
    known = {
        k: wilson(int(calibration[k][0]), int(calibration[k][1]), confidence) for k in ("fails_bad", "passes_good")
    }
    parts = [fdr, *(rate.value for rate in known.values())]
    undefined = next((p for p in parts if isinstance(p, Undefined)), None)
    value = undefined or corrected_rate(*(p for p in parts if not isinstance(p, Undefined)))
    return {"value": plain(value), **{k: plain(rate) for k, rate in known.items()}}


def _pooled(
    records: list[Record], strata: Mapping[Stratum, list[Record]], options: AnalysisOptions
) -> list[dict[str, Any]]:
    """Per arm over all strata, for reading only; one stratum needs no second table."""
    if len(strata) < 2:
        return []
    return [plain(arm_metrics(arm, group, options.confidence)) for arm, group in _by_arm(records)]


def _omnibus(strata: Mapping[Stratum, list[Record]]) -> list[Omnibus]:
    return [omnibus(s, group) for s, group in strata.items()]
