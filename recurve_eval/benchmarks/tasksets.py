"""What every benchmark made of task directories does; the adapters say only where the directories are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from recurve_eval.benchmarks.common import find, set_hash
from recurve_eval.benchmarks.taskdir import TaskDirectory, read_set
from recurve_eval.domain import JSON, OracleJob, Solutions, Submission, Task
from recurve_eval.errors import ConfigError, Drift
from recurve_eval.leak import HeldOutScanner


@dataclass
class TaskSet:
    """A benchmark over a set of task directories, read once and whole, when first asked for anything.

    Attributes
    ----------
    name : str
        The benchmark's name in plans and rows.
    sha256 : str, optional
        The expected hash (hex) over every file of every task; ``None`` accepts what is found and pins it
        in the plan.
    """

    name: str = "tasks"
    sha256: str | None = None

    def root(self) -> Path:
        """The directory whose sub-directories are the tasks."""
        raise NotImplementedError

    def remedy(self) -> str:
        """What to do when the content is not what ``sha256`` says."""
        return "restore the files, or set task.sha256 to the new hash (null to accept any) if the change is meant"

    @cached_property
    def tasks(self) -> Mapping[str, TaskDirectory]:
        found = read_set(self.root())
        actual = set_hash(found)
        if self.sha256 is not None and actual != self.sha256.lower():
            raise Drift(
                f"the tasks in {self.root()} hash to {actual}, but task.sha256 pins {self.sha256}: {self.remedy()}"
            )
        return found

    def pins(self) -> Mapping[str, JSON]:
        return {
            "dataset_revision": f"{len(self.tasks)} tasks",
            "dataset_hash": set_hash(self.tasks),
        }

    def task_ids(self) -> Sequence[str]:
        return tuple(self.tasks)

    def task(self, task_id: str) -> Task:
        return self._find(task_id).task()

    def solutions(self, task_id: str) -> Solutions:
        return self._find(task_id).solutions()

    def scanner(self, task_id: str) -> HeldOutScanner:
        found = self._find(task_id)
        return HeldOutScanner(found.part("held_out"), found.part("public"))

    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob:
        found = self._find(task_id)
        params = {"module": found.sheet.module}
        if found.sheet.entry_point:
            params["entry_point"] = found.sheet.entry_point
        return OracleJob(
            task_id=task_id,
            submission=submission,
            held_out=found.part("held_out"),
            convention="unittest",
            params=params,
            expected=found.expected,
            support=found.support,
            timeout_s=found.sheet.timeout_s,
        )

    def _find(self, task_id: str) -> TaskDirectory:
        return find(self.tasks, task_id, self.name)


def existing(path: str, key: str) -> Path:
    """A directory named in the configuration. Raises ConfigError, naming the key, where it is not one."""
    if not path or path == "???":
        raise ConfigError(f"{key} has no value: give the directory that holds the tasks")
    place = Path(path).expanduser()
    if not place.is_dir():
        raise ConfigError(f"{key}: {path} is not a directory")
    return place
