"""Where an analysis takes its rows from, what it does when its sources disagree, and where it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recurve_eval.analysis.records import Record
from recurve_eval.analysis.summary import Summary, analyze_records, gathered
from recurve_eval.commands import command
from recurve_eval.errors import InfraError, RecurveError
from recurve_eval.ledger import read_rows, read_seals
from recurve_eval.tracking.study import read_plan

Row = Mapping[str, Any]
SealedRow = tuple[str, Row]


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


class Unreadable(Exception):
    """A tracker could not be read to its end; ``__cause__`` says why."""


@dataclass
class Source:
    """Rows of one plan or study: those that a tracker holds, those of a ledger, or both, the ledger being the truth."""

    name: str
    ledger: Path | None = None  # a run directory
    tracked: Callable[[], Iterator[SealedRow]] | None = None
    seals: dict[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        """The tracker's rows if there is a tracker, else the ledger's. Raises Unreadable for the tracker's trouble."""
        if self.tracked is None:
            assert self.ledger is not None
            yield from read_rows(self.ledger, read_plan(self.ledger)["plan_hash"])
            return
        self.seals.clear()
        rows = self._safely(self.tracked)
        for seal, row in rows:
            cell_id = row["identity"]["cell_id"]
            if cell_id not in self.seals:
                self.seals[cell_id] = seal
                yield row
            elif self.seals[cell_id] != seal:
                self.seals[cell_id] = "two rows"

    def _safely(self, tracked: Callable[[], Iterator[SealedRow]]) -> Iterator[SealedRow]:
        try:
            yield from tracked()
        except Exception as error:
            raise Unreadable(self) from error

    def disagreement(self) -> Disagreement | None:
        """Hold the tracker's rows, once read, against the ledger's seals; None where there are not both."""
        if self.tracked is None or self.ledger is None:
            return None
        mine, sealed = self.seals, read_seals(self.ledger)
        return Disagreement(
            missing=tuple(sorted(sealed.keys() - mine.keys())),
            unknown=tuple(sorted(mine.keys() - sealed.keys())),
            different=tuple(sorted(c for c in sealed.keys() & mine.keys() if sealed[c] != mine[c])),
        )


def gather(sources: Sequence[Source], say: Callable[[str], Any]) -> list[Record]:
    """The records of all sources together, a tracker's rows held against its ledger's, which win.

    Raises what :func:`gathered` raises (Drift where plans that differ would be joined), and what a tracker without
    a ledger raised.
    """
    while True:
        try:
            records = gathered(row for source in sources for row in source.rows())
        except Unreadable as trouble:
            _fall_back(trouble, say)
            continue
        if not _differ(sources, say):
            return records


def _fall_back(trouble: Unreadable, say: Callable[[str], Any]) -> None:
    source: Source = trouble.args[0]
    error = trouble.__cause__
    if source.ledger is None:
        if isinstance(error, RecurveError):
            raise error from None
        raise InfraError(f"the tracker cannot be read: {error}") from error
    say(f"the tracker cannot be read ({str(error).splitlines()[0]}); using the ledger")
    source.tracked = None


def _differ(sources: Sequence[Source], say: Callable[[str], Any]) -> bool:
    """Whether a source had to turn to its ledger; says what every comparison found."""
    turned = False
    for source in sources:
        difference = source.disagreement()
        if difference:
            say(f"the tracker disagrees with the ledger: {difference}. Using the ledger; "
                f"see: {command('mirror', source.ledger)}")  # fmt: skip
            source.tracked, turned = None, True
        elif difference is not None:
            say(f"{len(source.seals)} rows from the tracker; the ledger agrees")
    return turned


@dataclass(frozen=True)
class Written:
    """An analysis and its summary.md."""

    summary: Summary
    path: Path

    @property
    def unscored(self) -> int:
        return sum(a["n"] - a["scored"] for a in self.summary.data["arms"])


def write_analysis(
    run_dir: Path,
    rows: Iterable[Row],
    into: Path | None = None,
    calibration: Mapping[str, Sequence[int]] | None = None,
) -> Written:
    """Analyze rows under the run's frozen plan and write ``analysis/``.

    ``calibration`` is ``{"fails_bad": [count, n], "passes_good": [count, n]}`` of the oracle that graded them.
    """
    plan, cells = read_plan(run_dir), run_dir / "cells"
    return write_records(gathered(rows), plan, into or run_dir / "analysis", calibration, cells)


def write_records(
    records: list[Record],
    plan: Mapping[str, Any],
    into: Path,
    calibration: Mapping[str, Sequence[int]] | None = None,
    cells: Path | None = None,
) -> Written:
    """Analyze records under a plan and write everything below ``into``; ``cells`` holds the evidence of each."""
    if calibration is not None:
        plan = {**plan, "calibration": dict(calibration)}
    wanted = plan.get("analysis") or {}
    figures = bool(wanted.get("figures", False))
    report = bool(wanted.get("report", figures))
    summary = analyze_records(records, plan=plan)
    paths = summary.write(into, figures=figures, report=report, cells=cells)
    return Written(summary, next(p for p in paths if p.name == "summary.md"))


def joined_question(plans: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """What several plans ask in common, and the names of what they do not.

    A section key (``study.primary``, ``analysis.alpha``) that differs is left out: a contrast counts as declared
    only where every plan declared it.
    """
    question: dict[str, Any] = {"study": {}, "analysis": {}}
    unlike = []
    for section, into in question.items():
        parts = [p.get(section) or {} for p in plans]
        for key in sorted({k for part in parts for k in part}):
            values = [part.get(key) for part in parts]
            if all(v == values[0] for v in values):
                into[key] = values[0]
            else:
                unlike.append(f"{section}.{key}")
    return question, unlike
