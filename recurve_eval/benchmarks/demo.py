"""The shipped demonstration: small everyday tasks whose visible tests are weaker than the held-out ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recurve_eval.benchmarks.tasksets import TaskSet


@dataclass
class DemoBenchmark(TaskSet):
    """The tasks shipped with the package, needing only the standard library.

    Attributes
    ----------
    name, sha256
        As in ``TaskSet``.
    """

    name: str = "demo"

    def root(self) -> Path:
        return Path(__file__).resolve().parent / "demo_tasks"

    def remedy(self) -> str:
        return "the shipped tasks were edited; reinstall the package, or set task.sha256=null for your own variant"
