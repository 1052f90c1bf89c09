"""Exclusion tables: tasks that a benchmark's oracle cannot judge, each with the reason, written down beforehand.

A table is ``<directory>/<benchmark>.yaml``::

    benchmark: bigcodebench
    exclusions:
      - task: BigCodeBench/101
        reason: downloads its data; the oracle has no network

Excluded tasks are left out of every plan and calibration, and the table's hash stands in every row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from recurve_eval.domain import digest
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.resources import oracle_dir


@dataclass(frozen=True)
class Exclusions:
    """The tasks of one benchmark that are left out, with their reasons."""

    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """SHA-256 over ids and reasons; an absent table and an empty one are the same."""
        return digest(sorted(self.reasons.items()))

    def check(self, known: Sequence[str], benchmark: str) -> None:
        """Raises UnknownName for an excluded task that the benchmark does not have: a typo excludes nothing."""
        have = set(known)
        for task_id in self.reasons:
            if task_id not in have:
                raise UnknownName("task", task_id, list(known)[:40], f"the exclusion table of {benchmark}")


def file_name(benchmark: str) -> str:
    """A benchmark's name as part of a path."""
    return re.sub(r"[^\w.-]", "_", benchmark)


def read_exclusions(benchmark: str, directory: str | None = None) -> Exclusions:
    """A benchmark's table, from ``directory`` or from the shipped ones; without a file, nothing is excluded.

    Raises ConfigError on a directory that does not exist and on a malformed table.
    """
    if directory is not None and not Path(directory).expanduser().is_dir():
        raise ConfigError(f"calibrate.exclusions: {directory} is not a directory of exclusion tables")
    root = Path(directory).expanduser() if directory is not None else oracle_dir() / "exclusions"
    path = root / f"{file_name(benchmark)}.yaml"
    if not path.is_file():
        return Exclusions()
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    return Exclusions(_reasons(document, benchmark, path))


def _reasons(document: Any, benchmark: str, path: Path) -> dict[str, str]:
    if not isinstance(document, dict) or set(document) != {"benchmark", "exclusions"}:
        raise ConfigError(f"{path} must have exactly the keys benchmark and exclusions")
    if document["benchmark"] != benchmark:
        raise ConfigError(f"{path} is for benchmark '{document['benchmark']}', not '{benchmark}'")
    out: dict[str, str] = {}
    for entry in document["exclusions"] or []:
        if not isinstance(entry, dict) or not set(entry) <= {"task", "reason"} or not entry.get("task"):
            raise ConfigError(f"{path}: each exclusion is {{task: ID, reason: WHY}}; got {entry!r}")
        task_id, reason = str(entry["task"]), str(entry.get("reason") or "").strip()
        if not reason:
            raise ConfigError(f"{path}: task {task_id} is excluded without a reason: write down why")
        if task_id in out:
            raise ConfigError(f"{path}: task {task_id} is excluded twice")
        out[task_id] = reason
    return out
