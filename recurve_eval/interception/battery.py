"""The oracle's exploit battery put to the gate: hostile work for one small task, and what of it a gate lets through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from recurve_eval.domain import JSON, CaptureSpec, KnownBad, OracleJob, Solutions, Submission, Task, digest
from recurve_eval.errors import Drift, UnknownName
from recurve_eval.interception.items import SEEDED, Item
from recurve_eval.interception.sources import Known
from recurve_eval.leak import HeldOutScanner
from recurve_eval.oracle.attack import CANONICAL, PLAIN_WRONG, Exploit, attack_tasks, load_exploits
from recurve_eval.ports import Benchmark

STUB = b"def total(values):\n    pass\n"
VISIBLE = b'''"""The visible test. Exit 0 when it holds."""

import unittest

from solution import total


class Total(unittest.TestCase):
    def test_example(self):
        self.assertEqual(total([1, 2, 3, 4]), 20)
        self.assertEqual(total([]), 0)


if __name__ == "__main__":
    unittest.main()
'''
STATEMENT = "Write total(values) in solution.py: the sum of the squares of the even ones.\n"


@dataclass
class AttackBenchmark:
    """The battery's tasks: the sum of the squares of the even numbers, in each convention of the grading runner.

    Attributes
    ----------
    sha256 : str, optional
        What its tests must hash to; None accepts those that are shipped.
    """

    name: str = "attack"
    sha256: str | None = None

    def pins(self) -> Mapping[str, JSON]:
        return {"dataset_revision": "shipped", "dataset_hash": self._hash}

    def task_ids(self) -> Sequence[str]:
        if self.sha256 is not None and self._hash != self.sha256:
            raise Drift(f"the battery's tests hash to {self._hash}, but {self.sha256} is pinned (task.sha256)")
        return tuple(self._jobs)

    @cached_property
    def _hash(self) -> str:
        jobs = {name: make(Submission.of_reference("canonical", CANONICAL)) for name, make in self._jobs.items()}
        tests = {name: [job.convention, dict(job.params), job.held_out] for name, job in jobs.items()}
        return digest([tests, STUB, VISIBLE])

    def task(self, task_id: str) -> Task:
        self._known(task_id)
        public = {"solution.py": STUB, "test_visible.py": VISIBLE}
        return Task(task_id, STATEMENT, public, CaptureSpec(("solution.py",)), ("{python}", "test_visible.py"),
                    ("test_visible.py",))  # fmt: skip

    def solutions(self, task_id: str) -> Solutions:
        self._known(task_id)
        return Solutions(CANONICAL, (KnownBad("plain", PLAIN_WRONG),))

    def scanner(self, task_id: str) -> HeldOutScanner:
        job = self._jobs[task_id](Submission.of_reference("canonical", CANONICAL))
        return HeldOutScanner(job.held_out, self.task(task_id).public)

    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob:
        self._known(task_id)
        return self._jobs[task_id](submission)

    def _known(self, task_id: str) -> None:
        if task_id not in self._jobs:
            raise UnknownName("task", task_id, self._jobs, self.name)

    @cached_property
    def _jobs(self) -> Mapping[str, Callable[[Submission], OracleJob]]:
        return {f"attack/{name}": make for name, make in attack_tasks().items()}


@dataclass
class ExploitSource(Known):
    """Every exploit of the battery that may run where the gate's checks run.

    Attributes
    ----------
    contained : bool
        Whether exploits that would harm an unprotected machine are put to the gate too.
    """

    name: str = "exploits"
    contained: bool = False
    simulated = True

    def pins(self) -> Mapping[str, JSON]:
        return {"battery": digest([[e.name, e.files] for e in self._exploits])}

    def items(self, benchmark: Benchmark, task_ids: Sequence[str]) -> Iterator[Item]:
        for number, task_id in enumerate(task_ids):
            yield from self.known_good(benchmark, task_id)
            for bad in benchmark.solutions(task_id).known_bad:
                yield Item(task_id, SEEDED, f"honest: {bad.kind}", bad.files)
            for exploit in self._exploits:
                if exploit.tasks == "all" or number < 2:
                    yield Item(task_id, SEEDED, exploit.kind, exploit.files, detail=exploit.name)

    @cached_property
    def _exploits(self) -> list[Exploit]:
        return [e for e in load_exploits() if self.contained or e.tasks != "contained"]
