"""The oracle for tasks with an image of their own: a fresh container of that image for every grading.

Nothing is warm and nothing is shared: a container is made, given one job on its standard input, heard,
and removed. What may be graded in it is in :mod:`recurve_eval.oracle.suite`.
"""

from __future__ import annotations

import json
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from docker.errors import ImageNotFound

from recurve_eval.domain import JSON, Grade, OracleEnv, OracleJob, OracleVerdict, UnscoredReason
from recurve_eval.errors import ConfigError, Refused
from recurve_eval.oracle import suite
from recurve_eval.oracle.container import Contained
from recurve_eval.oracle.daemon import TROUBLE, connect, labels, reap_orphans, walls
from recurve_eval.oracle.limits import hold_to_limits
from recurve_eval.oracle.line import Launch, Line, ServerLost
from recurve_eval.oracle.protocol import frame, majority, unscored
from recurve_eval.oracle.runner import runner_hash, runner_sources
from recurve_eval.resources import oracle_dir

ENVIRONMENT = {
    "TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HOME": "/tmp",
}  # fmt: skip
TIMEOUT_POLICY = "wall clock; once more alone; twice with a healthy grader is fail"
# What the supervisor, the container's first process, cannot do without; a suite's own process holds none of them.
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]
OVERHEAD_S = 60.0  # for laying files and ending processes
_MAX_REPLY = 256 << 20


@dataclass
class FreshOracle:
    """Fields
    ------
    name : label of the backend in rows and reports.
    docker_host : the daemon's address; empty is what DOCKER_HOST says, else the usual socket.
    container_mb : MiB of memory of one container, swap included.
    cpus : processors of one container.
    pids : processes and threads of one container.
    scratch_mb : MiB of memory for /tmp and for /dev/shm of one container.
    file_mb : MiB of one written file.
    uid : user id under which a suite runs; what the oracle laid belongs to root.
    concurrency : how many gradings may run at once; contention can change verdicts, so it is part of the environment.
    runs : how often each submission is run; the majority decides and the flake rate is reported.
    restarts : how often a grading is begun again after its container was lost.
    start_timeout_s : seconds that a container may take to start.
    health_s : seconds within which an idle container must answer for a time-out to count as a failure.
    """

    name: str = "instance"
    docker_host: str = ""
    container_mb: int = 4096
    cpus: float = 2.0
    pids: int = 512
    scratch_mb: int = 512
    file_mb: int = 512
    uid: int = 60_000
    concurrency: int = 2
    runs: int = 1
    restarts: int = 2
    start_timeout_s: float = 60.0
    health_s: float = 20.0

    # -- the port --------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        hold_to_limits(self)

    def check(self) -> str | None:
        try:
            with closing(connect(self.docker_host)) as client:
                client.ping()
        except TROUBLE as error:
            return (
                f"Docker does not answer ({error}). Install it (apt-get install -y docker.io), start it, or point "
                "DOCKER_HOST at it; scripts/dockerd starts a private one"
            )
        return None

    def env(self, preload: tuple[str, ...] = ()) -> OracleEnv:
        """Everything but the images that can change a verdict; each task's image is pinned with its benchmark."""
        facts: dict[str, JSON] = {
            "runner": runner_hash(oracle_dir() / "fresh"),
            "environment": ENVIRONMENT,
            "image": "each task's own",
            "container": {k: getattr(self, k) for k in ("container_mb", "cpus", "pids", "scratch_mb", "file_mb", "uid")}
            | {"capabilities": CAPABILITIES},
            "runs": self.runs,
            "concurrency": self.concurrency,
            "timeout_policy": TIMEOUT_POLICY,
            "health_s": self.health_s,
        }
        return OracleEnv(self.name, facts, ISOLATION)

    def start(self, workers: int) -> None:
        if workers < 1:
            raise ConfigError(f"gradings need at least one worker; got {workers}")
        try:
            with closing(connect(self.docker_host)) as client:
                reap_orphans(client)
        except TROUBLE:
            return

    def close(self) -> None:
        """Nothing outlives a grading."""

    def grade(self, job: OracleJob) -> Grade:
        fault = suite.fault_of(job)
        if fault is not None:
            return unscored(UnscoredReason.ORACLE_ERROR, f"{job.task_id}: {fault}")
        started = time.monotonic()
        grades = [self._run(job) for _ in range(self.runs)]
        return replace(majority(grades), wall_s=time.monotonic() - started)

    # -- one run ---------------------------------------------------------------------------------

    def _run(self, job: OracleJob) -> Grade:
        try:
            seen = self._see(job)
            if not seen.timed_out:
                return suite.judge(job, seen)
            seen = self._see(job, alone=True)
            if not seen.timed_out:
                return replace(suite.judge(job, seen), retried=True)
            return self._timed_out(job, seen)
        except _Lost as lost:
            return lost.grade

    def _timed_out(self, job: OracleJob, seen: suite.Seen) -> Grade:
        """A submission that never ends is a failure; a machine that has become slow is no verdict."""
        started = time.monotonic()
        idle = self._see(job, alone=True, idle=True)
        took = time.monotonic() - started
        detail = f"timed out twice (limit {job.timeout_s:g} s), an idle container answered in {took:.1f} s"
        if took > self.health_s or idle.harness_error:
            return replace(unscored(UnscoredReason.ORACLE_TIMEOUT, detail), retried=True)
        return replace(suite.judge(job, replace(seen, load_error=seen.load_error or detail)), retried=True)

    def _see(self, job: OracleJob, alone: bool = False, idle: bool = False) -> suite.Seen:
        """One run in a container, begun again when that is lost. Raises _Lost after the last try."""
        request = suite.request_of(job, self.uid, self.file_mb, idle)
        losses: list[ServerLost] = []
        with self._slots.take(alone):
            while len(losses) <= self.restarts and not (losses and losses[-1].final):
                try:
                    return self._once(job, request)
                except ServerLost as lost:
                    losses.append(lost)
        raise _Lost(_after_losses(losses))

    def _once(self, job: OracleJob, request: suite.Request) -> suite.Seen:
        line = self.launch(job).open()
        try:
            line.send(frame(request.message), time.monotonic() + self.start_timeout_s)
            reply = _reply(line, time.monotonic() + self.start_timeout_s + request.timeout_s + OVERHEAD_S)
        finally:
            line.close()
        if reply.get("status") != "graded":
            raise ServerLost(f"gave up: {reply.get('why', 'no reason given')}", own_fault=True)
        return suite.Seen.of(reply, request.token)

    def launch(self, job: OracleJob) -> Launch:
        """How to start a container for this job. Raises ServerLost where there is no such image."""
        sources = runner_sources(oracle_dir() / "fresh")
        argv = (str(job.params.get("python") or "python3"), "-I", "-S", "-B", "-c", sources["supervise.py"].decode())
        return Contained(
            url=self.docker_host, image=self._image(job), argv=argv, env=ENVIRONMENT, host=self._walls(),
            sources={"drive.py": sources["drive.py"]}, labels=labels(self._run_label),
        )  # fmt: skip

    def lacks(self, image: str) -> str | None:
        """None where Docker holds the image; else what is missing. Raises Refused where Docker does not answer."""
        try:
            with closing(connect(self.docker_host)) as client:
                client.images.get(image)
        except ImageNotFound:
            return _missing(image)
        except TROUBLE as error:
            raise Refused(f"Docker does not answer ({error})") from None
        return None

    def _image(self, job: OracleJob) -> str:
        """The id of the job's image. Raises ServerLost where Docker does not hold it."""
        try:
            with closing(connect(self.docker_host)) as client:
                return str(client.images.get(str(job.image)).id)
        except ImageNotFound:
            raise ServerLost(
                f"has no image: {_missing(str(job.image))} (recurve-eval oracle build oracle=instance)", final=True
            ) from None
        except TROUBLE as error:
            raise ServerLost(f"has no Docker: {error}") from None

    def _walls(self) -> dict[str, Any]:
        return walls(self.container_mb, self.cpus, self.pids, self.scratch_mb) | {
            "cap_add": CAPABILITIES,
            "tmpfs": {"/tmp": f"size={self.scratch_mb}m,nosuid,nodev,exec,mode=1777"},
        }

    @cached_property
    def _run_label(self) -> str:
        return uuid.uuid4().hex

    @cached_property
    def _slots(self) -> Slots:
        return Slots(self.concurrency)


ISOLATION = (
    "docker: a fresh container of the task's own image for each grading, no network, default seccomp, memory, process "
    "and processor limits; a suite runs under a user id without capabilities that owns no file of the tree; tests "
    "share the process of the submission"
)


@dataclass
class Slots:
    """At most ``count`` gradings at once; one that asks to be alone waits until no other runs."""

    count: int
    _taken: int = 0
    _alone: int = 0
    _state: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def take(self, alone: bool) -> Iterator[None]:
        with self._state:
            self._alone += alone
            self._state.wait_for(lambda: not self._taken if alone else self._taken < self.count and not self._alone)
            self._alone -= alone
            share = self.count if alone else 1
            self._taken += share
        try:
            yield
        finally:
            with self._state:
                self._taken -= share
                self._state.notify_all()


class _Lost(Exception):
    def __init__(self, grade: Grade) -> None:
        super().__init__(grade.detail)
        self.grade = grade


def _missing(image: str) -> str:
    return f"Docker does not hold the image {image}; load or pull it, or build it"


def _after_losses(losses: list[ServerLost]) -> Grade:
    """What it means that every try of one submission cost its container."""
    last, count = losses[-1], len(losses)
    detail = f"the grading container {last.cause}; {count} {'try' if count == 1 else 'tries'}"
    if all(lost.exhausted for lost in losses):
        return Grade(OracleVerdict.FAIL, detail=detail)
    return unscored(UnscoredReason.ORACLE_ERROR if last.own_fault else UnscoredReason.INFRA, detail)


def _reply(line: Line, deadline: float) -> Mapping[str, Any]:
    (size,) = struct.unpack(">I", line.read(4, deadline))
    if size > _MAX_REPLY:
        raise ServerLost(f"sent a reply of {size} bytes", own_fault=True)
    try:
        reply: JSON = json.loads(line.read(size, deadline))
    except ValueError:
        raise ServerLost("sent a reply that is not JSON", own_fault=True) from None
    return reply if isinstance(reply, dict) else {}
