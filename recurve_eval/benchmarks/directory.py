"""A user's own tasks: one directory each, in the format of ``docs/reference/benchmarks.md``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from recurve_eval.benchmarks.tasksets import TaskSet, existing


@dataclass
class DirectoryBenchmark(TaskSet):
    """The tasks below a directory.

    Attributes
    ----------
    name : str
        The benchmark's name in plans and rows; give each set its own.
    path : str
        The directory whose sub-directories are the tasks.
    sha256
        As in ``TaskSet``.
    """

    name: str = "directory"
    path: str = field(default="???", metadata={"verdict": False})  # the content is pinned by its hash

    def root(self) -> Path:
        return existing(self.path, "task.path")
