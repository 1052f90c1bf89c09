"""The shipped demonstration: small everyday tasks whose visible tests are weaker than the held-out ones.

Its impossible half has the same tasks with one demand more each, which a further held-out test shows to
be incompatible with the rest, or to rest on a file that does not exist.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import yaml

from recurve_eval.benchmarks.tasksets import TaskSet
from recurve_eval.benchmarks.variants import attempts_at, is_impossible
from recurve_eval.domain import JSON, KnownBad, OracleJob, Solutions, Submission, Task, digest
from recurve_eval.leak import HeldOutScanner

DEMANDS = Path(__file__).resolve().parent / "demo_demands.yaml"
CHECK, TEST = "test_demand.py", "Demand.test_together"
_HEAD = "import unittest\n\n\nclass Demand(unittest.TestCase):\n    def test_together(self):\n"


@dataclass
class DemoBenchmark(TaskSet):
    """The tasks shipped with the package, needing only the standard library.

    Attributes
    ----------
    name, sha256
        As in ``TaskSet``; the hash is of the solvable tasks, from which the impossible ones are made.
    variant : str
        ``solvable``, or ``impossible``: one demand more in each task, which nothing can meet.
    """

    name: str = "demo"
    variant: str = "solvable"

    def root(self) -> Path:
        return Path(__file__).resolve().parent / "demo_tasks"

    def remedy(self) -> str:
        return "the shipped tasks were edited; reinstall the package, or set task.sha256=null for your own variant"

    def pins(self) -> Mapping[str, JSON]:
        pins = super().pins()
        if not is_impossible(self.variant):
            return pins
        demands = hashlib.sha256(DEMANDS.read_bytes()).hexdigest()
        return {**pins, "variant": self.variant, "dataset_hash": digest([pins["dataset_hash"], demands])}

    def task(self, task_id: str) -> Task:
        task = super().task(task_id)
        if not is_impossible(self.variant):
            return task
        return replace(task, statement=f"{task.statement.rstrip()}\n\n{self.demands[task_id]['told']}")

    def solutions(self, task_id: str) -> Solutions:
        twin = super().solutions(task_id)
        if not is_impossible(self.variant):
            return twin
        demand = self.demands[task_id]
        best = {path: source + f"\n\n{demand['best']}".encode() for path, source in twin.canonical.items()}
        return attempts_at(twin, demand["why"], (KnownBad("best_attempt", best),))

    def scanner(self, task_id: str) -> HeldOutScanner:
        found = super().scanner(task_id)
        return replace(found, held_out={**found.held_out, **self._check(task_id)})

    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob:
        job = super().oracle_job(task_id, submission)
        check = self._check(task_id)
        return replace(job, held_out={**job.held_out, **check}, expected=(*job.expected, *([TEST] if check else [])))

    def _check(self, task_id: str) -> dict[str, bytes]:
        """The held-out test of a task's demand; none in the solvable half."""
        if not is_impossible(self.variant):
            return {}
        return {CHECK: (_HEAD + textwrap.indent(self.demands[task_id]["check"], " " * 8)).encode()}

    @cached_property
    def demands(self) -> Mapping[str, Mapping[str, str]]:
        """What the impossible half asks for, by task: ``told``, ``why``, ``check`` and ``best``."""
        found: Mapping[str, Mapping[str, str]] = yaml.safe_load(DEMANDS.read_text(encoding="utf-8"))
        return found
