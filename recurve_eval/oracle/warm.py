"""What every warm backend has in common: settings, the server pool, and what a grading of several tries means."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from recurve_eval.domain import JSON, Grade, OracleEnv, OracleJob, OracleVerdict, Submission, UnscoredReason
from recurve_eval.errors import ConfigError, OracleError
from recurve_eval.oracle.pool import Pool
from recurve_eval.oracle.protocol import Evidence, fault_of, judge, request_of
from recurve_eval.oracle.server import Launch, ServerLost, WarmServer
from recurve_eval.resources import oracle_dir

ENVIRONMENT = {
    "TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "1",
    "MPLBACKEND": "Agg", "PATH": "/usr/local/bin:/usr/bin:/bin",
}  # fmt: skip
TIMEOUT_POLICY = "wall clock; once more alone; twice with a healthy grader is fail"
UIDS_A_SLOT = 1000

Event = Mapping[str, JSON]

_CONTROL = OracleJob(
    task_id="control",
    submission=Submission.of_reference("canonical", {"solution.py": b"def double(x):\n    return x + x\n"}),
    held_out={
        "control.py": b"def check(candidate):\n    assert candidate(3) == 6\n    assert candidate('a') == 'aa'\n"
    },
    convention="check",
    params={"module": "solution", "entry_point": "double"},
    expected=("check",),
)


@lru_cache
def runner_hash(directory: Path) -> str:
    """SHA-256 over names and bytes of the runner's sources, in order of name."""
    total = hashlib.sha256()
    for path in sorted(directory.glob("*.py")):
        total.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


@dataclass
class WarmOracle:
    """Fields of every warm backend.

    name : label of the backend in rows and reports.
    python : interpreter of the grader; empty is the base interpreter of this program, without its packages.
    paths : directories of packages that graded code may import, beside the standard library.
    memory_mb : MiB of address space of one graded process.
    file_mb : MiB of one written file.
    open_files : descriptors of one graded process.
    processes : processes and threads of one grading, where it has a user id of its own.
    uid_base : first user id for gradings when run as root; 0 keeps the server's own.
    concurrency : how many gradings may run at once; contention can change verdicts, so it is part of the environment.
    runs : how often each submission is run; the majority decides and the flake rate is reported.
    restarts : how often a grading is begun again after its server was lost.
    health_s : seconds within which the control grading must pass for a time-out to count as a failure.
    start_timeout_s : seconds that a server may take to start and to import what is preloaded.
    """

    name: str = "warm"
    python: str = ""
    paths: list[str] = field(default_factory=list)
    memory_mb: int = 4096
    file_mb: int = 64
    open_files: int = 256
    processes: int = 64
    uid_base: int = 60_000
    concurrency: int = 2
    runs: int = 1
    restarts: int = 5
    health_s: float = 2.0
    start_timeout_s: float = 120.0

    # -- what a backend adds ---------------------------------------------------------------------

    def launch(self, slot: int, preload: tuple[str, ...]) -> Launch:
        raise NotImplementedError

    def isolation(self, containment: Mapping[str, bool]) -> str:
        raise NotImplementedError

    def image(self) -> str | None:
        return None

    # -- the port --------------------------------------------------------------------------------

    def start(self, workers: int) -> None:
        if self.runs < 1 or self.concurrency < 1 or workers < 1:
            raise ConfigError("oracle.runs, oracle.concurrency and workers must be at least 1")
        with self._lock:
            width = min(workers, self.concurrency)
            if self._pools and self._pools[0].workers != width:
                self._pools.pop().close()
            if not self._pools:
                self._pools.append(Pool(self._start_server, width))

    def close(self) -> None:
        with self._lock:
            while self._pools:
                self._pools.pop().close()

    def env(self, preload: tuple[str, ...] = ()) -> OracleEnv:
        """Everything that can change a verdict, as a running server states it. Raises OracleError."""
        greeting = dict(self._greeting(preload))
        del greeting["status"]
        facts = greeting | self._settings() | {"preload": list(preload)}
        return OracleEnv(self.name, facts, self.isolation(greeting["containment"]), self.image())

    def _greeting(self, preload: tuple[str, ...]) -> Mapping[str, Any]:
        """What a server says of itself; one that is started to be asked is ended again."""
        try:
            if self._pools:
                with self._pool.lease(preload) as server:
                    return server.greeting
            server = self._start_server(0, preload)
            try:
                return server.greeting
            finally:
                server.close()
        except ServerLost as lost:
            raise OracleError(f"oracle {self.name}: the grading server {lost.cause}") from None

    def grade(self, job: OracleJob) -> Grade:
        fault = fault_of(job)
        if fault is not None:
            return _unscored(UnscoredReason.ORACLE_ERROR, f"{job.task_id}: {fault}")
        started = time.monotonic()
        grades = [self._run(job) for _ in range(self.runs)]
        return replace(_majority(grades), wall_s=time.monotonic() - started)

    # -- one run ---------------------------------------------------------------------------------

    def _run(self, job: OracleJob) -> Grade:
        try:
            seen = self._see(job)
            if not seen.timed_out or seen.breaches:
                return judge(job, seen)
            seen = self._see(job, alone=True)
            if not seen.timed_out or seen.breaches:
                return replace(judge(job, seen), retried=True)
            return self._timed_out(job, seen)
        except _Lost as lost:
            return lost.grade

    def _timed_out(self, job: OracleJob, seen: Evidence) -> Grade:
        """A submission that never ends is a failure; a grader that has become slow is no verdict."""
        healthy, words = self._healthy()
        detail = f"timed out twice (limit {job.timeout_s:g} s), {words}"
        if not healthy:
            return replace(_unscored(UnscoredReason.ORACLE_TIMEOUT, detail), retried=True)
        grade = judge(job, replace(seen, load_error=seen.load_error or detail))
        return replace(grade, retried=True)

    def _healthy(self) -> tuple[bool, str]:
        started = time.monotonic()
        seen = self._see(_CONTROL, alone=True)
        took = time.monotonic() - started
        passed = not seen.timed_out and judge(_CONTROL, seen).verdict is OracleVerdict.PASS
        if not passed:
            return False, "the control grading did not pass"
        word = "healthy" if took <= self.health_s else "slow"
        return took <= self.health_s, f"control grading {word} ({took:.2f} s)"

    def _see(self, job: OracleJob, alone: bool = False) -> Evidence:
        """One run of the tests, begun again when its server is lost. Raises _Lost after the last try."""
        request, lost = request_of(job, job.timeout_s), ServerLost("was never started")
        for _ in range(self.restarts + 1):
            containment: Mapping[str, bool] = {}
            try:
                with self._pool.lease(job.preload, alone) as server:
                    containment = server.greeting["containment"]
                    return server.grade(request, job.timeout_s)
            except ServerLost as error:
                lost = error
                self._record("oracle_restart", cause=error.cause, task_id=job.task_id)
        raise _Lost(self._after_losses(job, lost, containment))

    def _after_losses(self, job: OracleJob, lost: ServerLost, containment: Mapping[str, bool]) -> Grade:
        """Where a submission can reach the server's process, a server that only it can end was ended by it."""
        detail = f"the grading server {lost.cause}; {self.restarts + 1} tries"
        if lost.own_fault:
            return _unscored(UnscoredReason.ORACLE_ERROR, detail)
        reachable = containment and not (containment["uid_per_grading"] or containment["pid_namespace"])
        if reachable and job is not _CONTROL and self._healthy()[0]:
            return Grade(OracleVerdict.TAMPERED, detail=f"{detail}; the control grading passed right after")
        return _unscored(UnscoredReason.INFRA, detail)

    # -- state -----------------------------------------------------------------------------------

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()

    @cached_property
    def _pools(self) -> list[Pool]:
        return []

    @property
    def _pool(self) -> Pool:
        if not self._pools:
            self.start(1)
        return self._pools[0]

    @cached_property
    def events(self) -> list[Event]:
        """Every restart so far: ``{"kind", "at", "cause", "task_id"}``, ``at`` in seconds of the epoch."""
        return []

    @cached_property
    def listeners(self) -> list[Callable[[Event], None]]:
        """Called with each event as it happens, on the thread of the grading."""
        return []

    def _record(self, kind: str, **fields: JSON) -> None:
        event = {"kind": kind, "at": time.time(), **fields}
        self.events.append(event)
        for listener in self.listeners:
            listener(event)

    # -- servers ---------------------------------------------------------------------------------

    def _start_server(self, slot: int, preload: tuple[str, ...]) -> WarmServer:
        return WarmServer(self.launch(slot, preload), self.start_timeout_s)

    def server_config(self, slot: int, preload: tuple[str, ...], **more: Any) -> dict[str, Any]:
        """The configuration of one server; a backend adds where to work and what must be empty."""
        return {
            "paths": list(self.paths),
            "preload": list(preload),
            "limits": self._limits(),
            "uid_base": self.uid_base + slot * UIDS_A_SLOT if self.uid_base else None,
            **more,
        }

    def interpreter(self) -> str:
        # The base interpreter and not the virtual environment's, so that none of its packages leak in.
        return self.python or str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())

    @property
    def runner(self) -> Path:
        return oracle_dir() / "runner"

    def _limits(self) -> dict[str, int]:
        names = ("memory_mb", "file_mb", "open_files", "processes")
        return {name: getattr(self, name) for name in names}

    def _settings(self) -> dict[str, JSON]:
        return {
            "runner": runner_hash(self.runner),
            "environment": ENVIRONMENT,
            "limits": self._limits(),
            "runs": self.runs,
            "concurrency": self.concurrency,
            "timeout_policy": TIMEOUT_POLICY,
            "health_s": self.health_s,
        }


class _Lost(Exception):
    """No evidence to be had; ``grade`` is what that amounts to."""

    def __init__(self, grade: Grade) -> None:
        super().__init__(grade.detail)
        self.grade = grade


def _unscored(reason: UnscoredReason, detail: str) -> Grade:
    return Grade(OracleVerdict.UNSCORED, reason=reason, detail=detail)


def _majority(grades: list[Grade]) -> Grade:
    """The verdict of most scored runs; tampering in one run decides, and a tie is a failure.

    ``flake_rate`` is the share of scored runs that disagree with the majority.
    """
    scored = [grade for grade in grades if grade.verdict is not OracleVerdict.UNSCORED]
    if not scored:
        return replace(grades[0], runs=len(grades))
    counts = Counter(grade.verdict for grade in scored)
    order = [OracleVerdict.FAIL, OracleVerdict.PASS]
    verdict = max(order, key=lambda v: counts[v])
    if counts[OracleVerdict.TAMPERED]:
        verdict = OracleVerdict.TAMPERED
    chosen = next(grade for grade in scored if grade.verdict is verdict)
    flake = 1 - counts[verdict] / len(scored)
    return replace(chosen, runs=len(grades), flake_rate=flake, retried=any(g.retried for g in grades))
