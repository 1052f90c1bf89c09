"""What every warm backend has in common: settings, the server pool, and what a grading of several tries means."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from recurve_eval.domain import JSON, Grade, OracleEnv, OracleJob, OracleVerdict, Submission, UnscoredReason, digest
from recurve_eval.errors import ConfigError, OracleError
from recurve_eval.oracle.limits import hold_to_limits
from recurve_eval.oracle.line import Launch, ServerLost
from recurve_eval.oracle.pool import Pool
from recurve_eval.oracle.protocol import Evidence, cut_off, fault_of, judge, majority, request_of, unscored
from recurve_eval.oracle.runner import runner_hash
from recurve_eval.oracle.server import WarmServer
from recurve_eval.resources import oracle_dir

ENVIRONMENT = {
    "TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "1",
    "MPLBACKEND": "Agg", "PATH": "/usr/local/bin:/usr/bin:/bin",
}  # fmt: skip
# A server has all its functions bound before it forks, so that no graded process has to; it hands this to none.
STARTED_WITH = {**ENVIRONMENT, "LD_BIND_NOW": "1"}
TIMEOUT_POLICY = "wall clock; once more alone; twice with a healthy grader is fail"
ARRANGEMENT = (
    "tests apart from the submission by the check and reference conventions, sharing its process by unittest and "
    "namespace, or as a job says"
)
UIDS_A_SLOT = 1000  # of which the runner uses the first 999
_NO_UID = (1 << 32) - 1  # to the kernel: leave it as it is

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


_greetings: dict[str, Mapping[str, Any]] = {}


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

    def __post_init__(self) -> None:
        hold_to_limits(self)
        if self.uid_base + self.concurrency * UIDS_A_SLOT >= _NO_UID:
            raise ConfigError(
                f"oracle.uid_base={self.uid_base} leaves no room for {UIDS_A_SLOT} user ids for each of "
                f"{self.concurrency} servers below {_NO_UID}"
            )

    # -- what a backend adds ---------------------------------------------------------------------

    def check(self) -> str | None:
        raise NotImplementedError

    def launch(self, slot: int, preload: tuple[str, ...]) -> Launch:
        raise NotImplementedError

    def isolation(self, containment: Mapping[str, bool]) -> str:
        raise NotImplementedError

    def image_digest(self) -> str | None:
        """The digest of the image that it grades on, checked to be what it was pinned to. Raises Refused."""
        return None

    def reap(self) -> int:
        """Remove what dead processes of this program left behind; return how much that was."""
        return 0

    def identity(self) -> JSON:
        """What a server's statement about itself rests on, beside this backend's fields."""
        program = Path(self.interpreter())
        stat = program.stat() if program.is_file() else None
        return [str(program), stat and [stat.st_ino, stat.st_mtime_ns, stat.st_size]]

    # -- the port --------------------------------------------------------------------------------

    def start(self, workers: int) -> None:
        if workers < 1:
            raise ConfigError(f"gradings need at least one worker; got {workers}")
        with self._lock:
            width = min(workers, self.concurrency)
            self.reap()
            if self._pools and self._pools[0].workers != width:
                self._pools.pop().close()
            if not self._pools:
                self._pools.append(Pool(self.start_server, width))

    def close(self) -> None:
        with self._lock:
            while self._pools:
                self._pools.pop().close()

    def env(self, preload: tuple[str, ...] = ()) -> OracleEnv:
        """Everything that can change a verdict, as a server states it. Raises OracleError, Refused.

        A server is asked once in this process for the same configuration, interpreter and runner.
        """
        image = self.image_digest()
        greeting = dict(self._greeting(preload))
        del greeting["status"]
        facts = greeting | self.settings() | {"preload": list(preload)}
        return OracleEnv(self.name, facts, self.isolation(greeting["containment"]), image)

    def _greeting(self, preload: tuple[str, ...]) -> Mapping[str, Any]:
        """What a server says of itself; one that is started to be asked is ended again."""
        runner = runner_hash(self.runner)
        key = digest([type(self).__name__, asdict(self), self.identity(), runner, list(preload), os.geteuid()])
        if key not in _greetings:
            try:
                server = self.start_server(0, preload)
            except ServerLost as lost:
                lacks = preload and "ModuleNotFoundError" in lost.cause
                remedy = "; the task preloads it (task.preload): choose an oracle that has it, as oracle=python-sci"
                cause = lost.cause + (remedy if lacks else "")
                raise OracleError(f"oracle {self.name}: the grading server {cause}") from None
            _greetings[key] = server.greeting
            server.close()
        return _greetings[key]

    def grade(self, job: OracleJob) -> Grade:
        fault = fault_of(job)
        if fault is not None:
            return unscored(UnscoredReason.ORACLE_ERROR, f"{job.task_id}: {fault}")
        started = time.monotonic()
        grades = [self._run(job) for _ in range(self.runs)]
        return replace(majority(grades), wall_s=time.monotonic() - started)

    # -- one run ---------------------------------------------------------------------------------

    def _run(self, job: OracleJob) -> Grade:
        try:
            seen = self._see(job)
            lost = cut_off(job, seen)
            if lost:
                self._record("oracle_verifier_lost", cause=seen.exit, task_id=job.task_id)
                seen = self._see(job)
            if not seen.timed_out or seen.breaches:
                return replace(judge(job, seen), retried=lost)
            seen = self._see(job, alone=True)
            if not seen.timed_out or seen.breaches:
                return replace(judge(job, seen), retried=True)
            return self._timed_out(job, seen)
        except _Lost as lost:
            return lost.grade

    def _timed_out(self, job: OracleJob, seen: Evidence) -> Grade:
        """A submission that never ends is a failure; a grader that has become slow is no verdict."""
        healthy, words = self._healthy(job.preload)
        detail = f"timed out twice (limit {job.timeout_s:g} s), {words}"
        if not healthy:
            return replace(unscored(UnscoredReason.ORACLE_TIMEOUT, detail), retried=True)
        grade = judge(job, replace(seen, load_error=seen.load_error or detail))
        return replace(grade, retried=True)

    def _healthy(self, preload: tuple[str, ...]) -> tuple[bool, str]:
        """Whether a control grading passes, and in time: the second, since the first may have to start a server."""
        control = replace(_CONTROL, preload=preload)
        self._see(control, alone=True)
        started = time.monotonic()
        seen = self._see(control, alone=True)
        took = time.monotonic() - started
        passed = not seen.timed_out and judge(_CONTROL, seen).verdict is OracleVerdict.PASS
        if not passed:
            return False, "the control grading did not pass"
        word = "healthy" if took <= self.health_s else "slow"
        return took <= self.health_s, f"control grading {word} ({took:.2f} s)"

    def _see(self, job: OracleJob, alone: bool = False) -> Evidence:
        """One run of the tests, begun again when its server is lost. Raises _Lost after the last try."""
        request = request_of(job, job.timeout_s)
        losses: list[ServerLost] = []
        containment: Mapping[str, bool] = {}
        while len(losses) <= self.restarts and not (losses and losses[-1].final) and not _late_again(losses):
            try:
                with self._pool.lease(job.preload, alone) as server:
                    containment = server.greeting["containment"]
                    return server.grade(request, job.timeout_s)
            except ServerLost as lost:
                losses.append(lost)
                self._record("oracle_restart", cause=lost.cause, task_id=job.task_id)
        raise _Lost(self._after_losses(job, losses, containment))

    def _after_losses(self, job: OracleJob, losses: list[ServerLost], containment: Mapping[str, bool]) -> Grade:
        """What it means that every try of one submission cost a server."""
        last, count = losses[-1], len(losses)
        detail = f"the grading server {last.cause}; {count} {'try' if count == 1 else 'tries'}"
        if last.own_fault:
            return unscored(UnscoredReason.ORACLE_ERROR, detail)
        # Used up the memory, or left more than could be ended and removed in time.
        exhausted = all(lost.exhausted or lost.late for lost in losses)
        reachable = containment and not (containment["uid_per_grading"] or containment["pid_namespace"])
        blamed = (reachable or exhausted) and not last.final and job.task_id != _CONTROL.task_id
        if blamed and self._healthy(job.preload)[0]:
            detail += "; the control grading passed right after"
            return Grade(OracleVerdict.FAIL if exhausted else OracleVerdict.TAMPERED, detail=detail)
        return unscored(UnscoredReason.INFRA, detail)

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

    def start_server(self, slot: int, preload: tuple[str, ...]) -> WarmServer:
        return WarmServer(self.launch(slot, preload), self.start_timeout_s)

    def server_config(self, slot: int, preload: tuple[str, ...], **more: Any) -> dict[str, Any]:
        """The configuration of one server; a backend adds where to work and what must be empty."""
        return {
            "paths": list(self.paths),
            "preload": list(preload),
            "limits": self._limits(),
            "uid_base": self.uid_base + slot * UIDS_A_SLOT if self.uid_base else None,
            "meets": False,
            # Another one for each server of a run, and not the same for every run of a machine.
            "processor": os.getpid() + slot,
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

    def settings(self) -> dict[str, JSON]:
        return {
            "runner": runner_hash(self.runner),
            "environment": ENVIRONMENT,
            "limits": self._limits(),
            "processors": {"apart": 1},  # that a submission in a process of its own has
            "runs": self.runs,
            "concurrency": self.concurrency,
            "timeout_policy": TIMEOUT_POLICY,
            "health_s": self.health_s,
        }


def _late_again(losses: list[ServerLost]) -> bool:
    """Each costs a minute, and as with time-outs twice is enough to tell."""
    return sum(lost.late for lost in losses) > 1


class _Lost(Exception):
    """No evidence to be had; ``grade`` is what that amounts to."""

    def __init__(self, grade: Grade) -> None:
        super().__init__(grade.detail)
        self.grade = grade
