"""Trackers that need nothing outside this process: one that keeps rows in memory, one that keeps none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from recurve_eval.domain import JSON


@dataclass
class MemoryTracker:
    """Keeps mirrored rows by cell id for the life of the process.

    name : label of the option.
    """

    name: str = "memory"
    placement: ClassVar[str] = "thread"

    @cached_property
    def rows(self) -> dict[str, Mapping[str, Any]]:
        """Mirrored rows by cell id, in order of arrival."""
        return {}

    @cached_property
    def statuses(self) -> list[str]:
        """With which status the study was closed, each time."""
        return []

    def open_study(self, run_dir: Path, plan: Mapping[str, JSON]) -> None:
        """Nothing to open."""

    def mirrored(self) -> frozenset[str]:
        return frozenset(self.rows)

    def mirror(self, rows: Sequence[Mapping[str, JSON]]) -> None:
        for row in rows:
            self.rows.setdefault(row["identity"]["cell_id"], row)

    def close(self, status: str) -> None:
        self.statuses.append(status)


@dataclass
class NoTracker:
    """Mirrors nothing; the ledger is all there is.

    name : label of the option.
    """

    name: str = "none"
    placement: ClassVar[str] = "nowhere"

    def open_study(self, run_dir: Path, plan: Mapping[str, JSON]) -> None:
        """Nothing to open."""

    def mirrored(self) -> frozenset[str]:
        return frozenset()

    def mirror(self, rows: Sequence[Mapping[str, JSON]]) -> None:
        """Rows stay in the ledger alone."""

    def close(self, status: str) -> None:
        """Nothing to close."""
