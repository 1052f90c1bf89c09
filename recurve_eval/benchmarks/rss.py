"""Document-relative feed discovery: a small library whose links are resolved against the site instead of the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recurve_eval.benchmarks.tasksets import TaskSet


@dataclass
class Rss(TaskSet):
    """The feed discovery task shipped with the package, needing only the standard library.

    Attributes
    ----------
    name, sha256
        As in ``TaskSet``.
    """

    name: str = "rss"

    def root(self) -> Path:
        return Path(__file__).resolve().parent / "rss_world"

    def remedy(self) -> str:
        return "the shipped task was edited; reinstall the package, or set task.sha256=null for your own variant"
