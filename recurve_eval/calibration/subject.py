"""What is calibrated: one oracle environment, one dataset, one exclusion table, some tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from recurve_eval.calibration.knownbad import basis_of, known_bad_of
from recurve_eval.domain import JSON, OracleEnv, OracleJob, Submission, digest
from recurve_eval.exclusions import Exclusions
from recurve_eval.mutation.mutants import mutants
from recurve_eval.ports import Benchmark, OracleBackend

CANONICAL, KNOWN_BAD, MUTANT = "canonical", "known_bad", "mutant"
ATTEMPT = "attempt"  # at an impossible task, in the place of its canonical solution


def key_of(oracle_env_hash: str, dataset_hash: JSON, exclusions_hash: JSON) -> str:
    """The name of a calibration: what it was made for, and nothing else."""
    return digest({"oracle": oracle_env_hash, "dataset": dataset_hash, "exclusions": exclusions_hash})[:32]


def fingerprint(job: OracleJob, grader_code: str, timed: bool) -> str:
    """Hash of everything that a grading depends on besides its environment.

    ``timed`` includes the time limit. Known-bad solutions are graded under a limit derived from this
    machine's own timings, which must not make their verdicts look new.
    """

    def hashed(files: Mapping[str, bytes]) -> dict[str, str]:
        return {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())}

    return digest(
        {
            "grader_code": grader_code, "task": job.task_id, "submission": job.submission.sha256,
            "held_out": hashed(job.held_out), "support": hashed(job.support), "convention": job.convention,
            "params": dict(job.params), "expected": list(job.expected), "preload": list(job.preload),
            "timeout_s": job.timeout_s if timed else None, **({"image": job.image} if job.image else {}),
        }
    )  # fmt: skip


@dataclass(frozen=True)
class Grading:
    """One submission to be graded: ``role`` says what is known of it, ``kind`` which one it is."""

    role: str
    kind: str
    job: OracleJob
    fingerprint: str


@dataclass(frozen=True)
class Subject:
    """One calibration's subject.

    Attributes
    ----------
    env : OracleEnv
        The oracle environment as its server stated it.
    pins : mapping
        The benchmark's pins, with ``dataset_hash`` and ``dataset_revision``.
    grader_code : str
        Hash of the source that turns a server's evidence into a verdict and a submission into a job.
    task_ids : tuple of str
        What the caller needs covered.
    """

    benchmark: Benchmark
    oracle: OracleBackend
    env: OracleEnv
    pins: Mapping[str, JSON]
    exclusions: Exclusions
    grader_code: str
    task_ids: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.benchmark.name

    @cached_property
    def key(self) -> str:
        return key_of(self.env.hash, self.pins.get("dataset_hash"), self.exclusions.hash)

    def impossible(self, task_id: str) -> str:
        """Why no submission can pass the task; empty where one can."""
        return self.benchmark.solutions(task_id).impossible

    def canonical(self, task_id: str) -> Grading:
        """The canonical solution; of an impossible task, the first of its attempts."""
        solutions = self.benchmark.solutions(task_id)
        if solutions.impossible:
            first = solutions.known_bad[0]
            return self._grading(task_id, ATTEMPT, first.kind, first.files)
        return self._grading(task_id, CANONICAL, "", solutions.canonical)

    def wrong(self, task_id: str, count: int, seed: int) -> list[Grading]:
        """The known-bad solutions of a task and ``count`` mutants that are none of them, as gradings."""
        solutions = self.benchmark.solutions(task_id)
        known = known_bad_of(solutions)
        bad = [self._grading(task_id, KNOWN_BAD, b.kind, b.files) for b in known]
        more = mutants(basis_of(solutions), count + len(known), seed, task_id)
        changed = [self._grading(task_id, MUTANT, m.kind, m.files) for m in more]
        seen = {g.job.submission.sha256 for g in bad}
        return [*bad, *[g for g in changed if g.job.submission.sha256 not in seen][:count]]

    def _grading(self, task_id: str, role: str, kind: str, files: Mapping[str, bytes]) -> Grading:
        origin = f"{role}:{kind}" if kind else role
        job = self.benchmark.oracle_job(task_id, Submission.of_reference(origin, files))
        return Grading(role, kind, job, fingerprint(job, self.grader_code, timed=role in (CANONICAL, ATTEMPT)))
