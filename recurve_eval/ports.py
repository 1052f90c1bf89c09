"""The ports, on one screen. Adapters are dataclasses whose fields are their configuration.

An adapter's class is named by ``_target_`` in one YAML of ``conf/``; the fields of the class are the
option's schema (types, defaults, no unknown keys), so schema, target and behaviour live in one file.
``pins`` of any adapter returns the facts, resolved at plan time, that can change a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from recurve_eval.domain import (
    JSON,
    AgentRun,
    Budget,
    Decision,
    Departure,
    Finding,
    Grade,
    ImagePlan,
    ModelSpec,
    OracleEnv,
    OracleJob,
    Phase,
    Rates,
    Solutions,
    Submission,
    Task,
    Turn,
)  # fmt: skip


class LeakScanner(Protocol):
    """Knows a task's held-out bytes well enough to recognise them, and gives none of them away."""

    def scan(self, workspace: Path) -> list[str]:
        """Workspace paths (with a reason each) that hold held-out bytes; empty is clean."""


@runtime_checkable
class Benchmark(Protocol):
    name: str

    def pins(self) -> Mapping[str, JSON]: ...
    def task_ids(self) -> Sequence[str]:
        """Every task id, in the benchmark's own order. Raises ConfigError or Drift on a bad dataset."""

    def task(self, task_id: str) -> Task: ...
    def solutions(self, task_id: str) -> Solutions: ...
    def scanner(self, task_id: str) -> LeakScanner: ...
    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob: ...


@runtime_checkable
class Parented(Protocol):
    """A benchmark whose workspaces start as copies of a directory that no cell may change."""

    def parent_hash(self) -> str:
        """Hash over that directory as it is now. Raises ConfigError where it is gone."""


@runtime_checkable
class Preloading(Protocol):
    """A benchmark whose gradings all find the same libraries imported."""

    preload: list[str]


@runtime_checkable
class Imaged(Benchmark, Protocol):
    """A benchmark whose tasks are each graded in an image of their own."""

    def image(self, task_id: str) -> str:
        """The pinned image. Raises NoImage where there is none."""

    def image_plan(self, task_id: str) -> ImagePlan: ...
    def pin_image(self, task_id: str, image_id: str) -> Path:
        """Record what an image plan gave; the file that it was recorded in."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command for a sandbox. The word ``{python}`` in argv becomes the sandbox's interpreter.

    ``watch`` sees every byte of stdout as it comes, also what is not kept, and is called with nothing a few times
    a second while the command is quiet. The first reason that it answers with kills the command at once.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 60.0
    max_output_bytes: int = 256 * 1024
    watch: Callable[[bytes], str | None] | None = None
    stdin_fd: int | None = None  # read instead of ``stdin``: whoever holds the other end can go on talking


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. ``exit_code`` is None when it was killed for time or cancellation."""

    exit_code: int | None
    timed_out: bool
    cancelled: bool
    stdout: bytes  # at most max_output_bytes; what came after was read and dropped
    stderr: bytes
    dropped_bytes: int
    wall_s: float
    stopped: str | None = None  # what the command's watch said, or ``disk`` where its files outgrew their limit


class Session(Protocol):
    """An agent's place: one workspace, one scratch directory, nothing else."""

    result_file: str  # the path of the run record as the agent sees it

    def run(self, command: Command) -> Completed:
        """Run to the end, then kill what it left. Raises SandboxError when the sandbox is at fault."""

    def read_result(self, max_bytes: int) -> bytes | None:
        """What the latest command wrote as its run record, or None; never follows a link or opens a non-file.

        At most ``max_bytes + 1`` bytes, so that a longer record is seen to be longer. Raises ValueError
        with the reason where something that is no readable regular file stands in its place.
        """

    def cancel(self) -> None:
        """From any thread: kill what runs; that run and every later one returns ``cancelled`` at once."""

    def close(self) -> Departure:
        """Kill everything, prove it gone. Raises SandboxError where that cannot be proven."""


class Sandbox(Protocol):
    name: str

    def pins(self) -> Mapping[str, JSON]: ...
    def attestation(self) -> Mapping[str, JSON]:
        """What holds the agent: ``{"agent_sandbox":, "network":, "boundary":}``."""

    def check(self) -> str | None:
        """None when usable here; else what is missing and the command that mends it."""

    def open(self, workspace: Path, scratch: Path, label: str) -> Session: ...
    def reap(self, prefix: str) -> int:
        """Kill what sessions whose label starts with ``prefix`` left when their harness was killed; how many."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What an agent is given. ``answers`` is present for simulated agents alone."""

    prompt: str
    task: Task
    model: ModelSpec
    seed: int
    cycle: int  # 1-based, within its phase
    allowance: Budget  # what is left of the cell's budget
    answers: Solutions | None = None
    stream: int = 0  # independent repetition of one condition: a simulated agent's draws differ between streams
    phase: Phase = Phase.SCULPT
    rates: Rates | None = None  # what the asked model's tokens cost, where that is known


@runtime_checkable
class Agent(Protocol):
    name: str
    paid: bool
    simulated: bool

    def pins(self) -> Mapping[str, JSON]: ...
    def check(self) -> str | None:
        """None when runnable here; else what is missing and how to mend it."""

    def run(self, request: TurnRequest, session: Session) -> Turn:
        """One turn. An agent's own failure is a Turn; only infrastructure raises."""


@runtime_checkable
class Covering(Protocol):
    """An agent that can do only what was recorded, and knows before the start what is missing."""

    def covers(self, task_ids: Sequence[str], seeds: Sequence[int]) -> Sequence[Any]:
        """What is missing of these tasks and seeds; empty when everything is there."""


@runtime_checkable
class Metered(Protocol):
    """An agent that says beforehand what it will tell of its consumption."""

    def meters(self) -> str:
        """``cost`` (US dollars), ``tokens`` (which a price list turns into dollars) or ``nothing``."""


@runtime_checkable
class Programmed(Protocol):
    """An agent that starts a program, which its sandbox must have."""

    def program(self) -> str | None:
        """The program's name or absolute path; None where there is nothing to look for."""


@runtime_checkable
class Guarded(Protocol):
    """A session that can mount parts of its workspace read-only."""

    def guard(self, read_only: Sequence[str], writable: Sequence[str] = ()) -> None:
        """For every later command: these workspace paths cannot be written, removed or replaced.

        ``""`` is the whole workspace. Paths of ``writable`` lie inside such a part and stay writable. Each must be a
        real directory; raises SandboxError where one is not.
        """


@runtime_checkable
class Rehoused(Protocol):
    """A sandbox that can be had around another image."""

    task_image: bool  # whether a task's own image takes the place of the sandbox's

    def within(self, image: str) -> Sandbox: ...


@runtime_checkable
class Proxied(Protocol):
    """A session whose way to the network is watched."""

    def refused(self) -> Mapping[str, int]:
        """``host:port`` that was asked for and is not allowed, with how often."""


@runtime_checkable
class Offline(Protocol):
    """A sandbox that can be had without the agent's credentials and, as far as it can, without a network."""

    def offline(self) -> Sandbox: ...


@dataclass
class GateRecord:
    """What the components of one cell have established so far; the row's gate section is written from it.

    ``state`` is what components remember between turns: components themselves are shared by cells.
    """

    phase: Phase = Phase.SCULPT
    claims: int = 0
    traps: int = 0
    admission: dict[str, JSON] | None = None
    boundary: str = "none"
    violations: list[str] = field(default_factory=list)
    flakes: list[dict[str, JSON]] = field(default_factory=list)
    hardening: dict[str, JSON] | None = None
    adversary: dict[str, JSON] | None = None
    governor: dict[str, JSON] | None = None
    challenge_events: list[dict[str, JSON]] = field(default_factory=list)
    retried: list[dict[str, JSON]] = field(default_factory=list)  # time-outs that were asked once more
    clock: dict[str, float] = field(default_factory=dict)  # seconds of the ``probes`` and of the ``reviews`` themselves
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GateContext:
    """What a component may see of a cell while the agent is still alive."""

    task: Task
    workspace: Path
    session: Session
    evidence: Path  # a directory of the component's own
    open_session: Any = None  # callable(workspace, label) -> Session without network, for checks on a copy
    record: GateRecord = field(default_factory=GateRecord)
    turns: Sequence[Turn] = ()  # the agent's own, so far
    consult: Any = None  # callable(agent, prompt, directory, label, budget) -> Turn, charged to the cell


@runtime_checkable
class GateComponent(Protocol):
    name: str
    binding: bool

    def pins(self) -> Mapping[str, JSON]: ...
    def admits(self, task: Task) -> str | None:
        """None when the component can judge this task; else why not. Asked at plan time."""

    def prepare(self, context: GateContext) -> None: ...
    def check(self, context: GateContext) -> Finding: ...


@runtime_checkable
class Staged(Protocol):
    """A component with a part in the two phases. ``author_turns`` above 0 asks for an author phase of so many turns."""

    author_turns: int

    def before(self, context: GateContext) -> str:
        """Before each turn: set up what the phase (``context.record.phase``) needs; what the prompt opens with."""

    def after(self, context: GateContext) -> None:
        """After each turn, whatever its end: put right what the phase did not permit."""

    def admit(self, context: GateContext) -> Finding:
        """After an author turn: whether the claims may judge work from now on."""


@runtime_checkable
class Reviewing(Protocol):
    """A component that consults another agent."""

    paid: bool
    agent: Agent

    def suits(self, model: ModelSpec, simulated: bool) -> str | None:
        """At plan time: why this reviewer cannot review the work of that model, or None."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What an auditor saw. It has no verdict, so nothing can be decided from it."""

    component: str
    facts: Mapping[str, JSON]
    wall_s: float = 0.0


@runtime_checkable
class Auditor(Protocol):
    """Looks at the work after everything is decided. By type it can touch neither declaration nor verdict."""

    name: str

    def pins(self) -> Mapping[str, JSON]: ...
    def admits(self, task: Task) -> str | None: ...
    def observe(self, context: GateContext) -> Observation: ...


@dataclass(frozen=True, slots=True)
class LoopState:
    """What a controller decides from.

    ``exhausted`` names the first budget (tokens, usd, wall, steps) with nothing left for another turn;
    ``overspent`` says that the turn just ended went beyond it. ``cycle`` counts the turns of the present phase,
    ``author_left`` the author turns still allowed.
    """

    turn: Turn
    submission_empty: bool
    findings: tuple[Finding, ...]
    cycle: int
    budget: Budget
    exhausted: str | None
    overspent: bool = False
    phase: Phase = Phase.SCULPT
    author_left: int = 0
    reopened: bool = False  # the claims had been admitted once, and are being mended


@runtime_checkable
class Controller(Protocol):
    name: str
    runs_gate: bool  # False: findings are not even gathered

    def pins(self) -> Mapping[str, JSON]: ...
    def decide(self, state: LoopState) -> Decision: ...


@runtime_checkable
class OracleBackend(Protocol):
    name: str

    def env(self, preload: tuple[str, ...] = ()) -> OracleEnv: ...
    def check(self) -> str | None: ...
    def start(self, workers: int) -> None:
        """Get ready for at most ``workers`` gradings at once."""

    def grade(self, job: OracleJob) -> Grade:
        """Thread-safe. Trouble of the grader is a Grade with a reason; never raises for a submission."""

    def close(self) -> None: ...


@runtime_checkable
class ImageGrader(OracleBackend, Protocol):
    """A backend that grades each job in the image that it names."""

    def lacks(self, image: str) -> str | None:
        """None where the image is here; else what is missing. Raises Refused where that cannot be told."""


@runtime_checkable
class Tracker(Protocol):
    """Mirrors sealed rows. May be slow, down or absent: the ledger is the truth."""

    name: str

    def open_study(self, run_dir: Path, plan: Mapping[str, JSON]) -> None: ...
    def mirrored(self) -> frozenset[str]:
        """Cell ids that the tracker already holds for this study."""

    def mirror(self, rows: Sequence[Mapping[str, JSON]]) -> None: ...
    def close(self, status: str) -> None: ...


@runtime_checkable
class Publishing(Protocol):
    """A tracker that shows a study's answer beside its rows."""

    def publish(self, analysis: Path) -> None:
        """Log the directory of an analysis (``summary.json`` and what stands beside it) to the open study."""


class Statistic(Protocol):
    """Matched rows in; an estimate with interval and n out."""

    name: str

    def __call__(self, rows: Sequence[Mapping[str, JSON]], **options: Any) -> Mapping[str, JSON]: ...


__all__ = [
    "Agent", "AgentRun", "Benchmark", "Command", "Completed", "Controller", "GateComponent", "GateContext",
    "LeakScanner", "LoopState", "OracleBackend", "Parented", "Publishing", "Sandbox", "Session", "Statistic", "Tracker",
    "TurnRequest",
]  # fmt: skip
