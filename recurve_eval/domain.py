"""The nouns of a study: frozen data, no I/O.

The quarantine is a chain of types. An :class:`OracleJob`, the only carrier of held-out tests, takes a
:class:`Submission`; a submission takes an :class:`AgentRun` (or a :class:`Reference`, which no agent
made); an agent run takes the :class:`Departure` that a sandbox issues once it has proven every
process of the run gone. No other order type-checks, and none constructs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from recurve_eval.errors import QuarantineError

JSON = Any
INTERCEPTION = "interception"  # the kind of a plan whose cells are decisions of gate layers about known work


def canonical_json(value: JSON) -> str:
    """One spelling per value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str)


def digest(value: JSON) -> str:
    """SHA-256 (hex) of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def is_text(value: str) -> bool:
    """Whether a string can be written down; half of a surrogate pair, which JSON may hold, cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class OracleVerdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    TAMPERED = "tampered"
    UNSCORED = "unscored"


class UnscoredReason(StrEnum):
    INFRA = "infra"
    ORACLE_ERROR = "oracle_error"
    ORACLE_TIMEOUT = "oracle_timeout"


class Outcome(StrEnum):
    SHIPPED_GOOD = "shipped_good"
    SHIPPED_BAD = "shipped_bad"
    WITHHELD_GOOD = "withheld_good"
    WITHHELD_BAD = "withheld_bad"
    UNSCORED = "unscored"


class StopReason(StrEnum):
    GATE_GREEN = "gate_green"
    DECLARED = "declared"
    BUDGET_TOKENS = "budget_tokens"
    BUDGET_USD = "budget_usd"
    BUDGET_WALL = "budget_wall"
    BUDGET_STEPS = "budget_steps"
    MAX_CYCLES = "max_cycles"
    AGENT_ERROR = "agent_error"
    PROCESS_FAILED = "process_failed"
    CANCELLED = "cancelled"
    INFRA = "infra"


class TurnStatus(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"  # by the harness, because the turn met a bound of its budget
    CANCELLED = "cancelled"


class GateVerdict(StrEnum):
    GREEN = "GREEN"
    RED = "RED"
    BROKEN = "BROKEN"


class Phase(StrEnum):
    """What an agent may change in a turn: its claims (``author``) or its work (``sculpt``)."""

    AUTHOR = "author"
    SCULPT = "sculpt"


class CaptureStatus(StrEnum):
    OK = "ok"
    MISSING = "missing"
    NOT_FILE = "not_file"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"


class CostSource(StrEnum):
    REPORTED = "reported"
    PRICED = "priced"
    FREE = "free"
    UNKNOWN = "unknown"


# -- what is asked -------------------------------------------------------------------------------


class CaptureKind(StrEnum):
    PATHS = "paths"  # the named files
    DIFF = "diff"  # every file that differs from the public part


@dataclass(frozen=True, slots=True)
class CaptureSpec:
    """Which files of a workspace are the submission, and how large each may be.

    A ``diff`` is captured file by file: changed and new files with their content, deleted ones as
    ``missing``. ``omit`` are globs (``*`` matches ``/`` too) of paths that are never captured, and new
    files that the public part's .gitignore files name are not captured either. Beyond ``max_files`` a
    path is recorded as ``too_large``.
    """

    paths: tuple[str, ...] = ()
    max_file_bytes: int = 32 * 1024
    kind: CaptureKind = CaptureKind.PATHS
    omit: tuple[str, ...] = ()
    max_files: int = 1000


@dataclass(frozen=True, slots=True)
class Task:
    """The public half of a problem. Nothing held out is reachable from here.

    ``visible_check`` is a command that judges a workspace by the task's visible tests (exit 0 good,
    anything else not); its word ``{python}`` stands for the sandbox's interpreter. ``protected``
    names the public files that the check restores to their public content before it runs. ``wall_s``
    bounds the agent beside its budget, and within ``cancel_s`` of its end an agent must be gone (seconds;
    None leaves it to the budget and the sandbox). ``network`` is the kind that the task asks of a
    sandbox; empty asks for none.
    """

    id: str
    statement: str
    public: Mapping[str, bytes]
    capture: CaptureSpec
    visible_check: tuple[str, ...] | None = None
    protected: tuple[str, ...] = ()
    wall_s: float | None = None
    cancel_s: float | None = None
    network: str = ""


@dataclass(frozen=True, slots=True)
class KnownBad:
    """A wrong solution that the oracle must fail; ``kind`` says in which way it is wrong."""

    kind: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Solutions:
    """A task's canonical solution and its known-bad ones. Never shown to a real agent.

    ``impossible`` says why no submission can pass. Such a task has no canonical solution, and its known-bad
    ones are the attempts that are known. Where ``program`` names one of the canonical files, the solution is not
    those files but what that script does in the task's own container.
    """

    canonical: Mapping[str, bytes]
    known_bad: tuple[KnownBad, ...] = ()
    impossible: str = ""
    program: str = ""

    def __post_init__(self) -> None:
        if self.impossible and (self.canonical or not self.known_bad):
            raise ValueError("an impossible task has attempts that fail and no canonical solution")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The model that a condition asks for. ``skill`` belongs to simulated models alone."""

    name: str
    id: str = ""
    simulated: bool = False
    skill: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """Authority to spend, per cell. ``None`` leaves a unit unbounded; ``wall_s`` never is.

    ``call_usd`` is the most that one model call may cost: a call that is under way when a bound is met is
    still paid, so it is reserved beside ``usd``. ``match="usd"`` leaves dollars as the one bound on
    consumption, so that models of different price get what the same money buys.
    """

    name: str
    wall_s: float
    tokens: int | None = None
    usd: float | None = None
    steps: int | None = None
    max_cycles: int = 1
    call_usd: float = 0.0
    match: str | None = None

    @property
    def binding(self) -> Budget:
        """The same budget with the units that do not bind here left open."""
        return replace(self, tokens=None, steps=None) if self.match == "usd" else self


# -- what the agent did --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Consumption of an agent; ``None`` is unknown and never counts as zero.

    Units: tokens, US dollars, model steps. Adding an unknown to anything gives an unknown.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost_usd: float | None = None
    cost_source: CostSource = CostSource.UNKNOWN
    steps: int | None = None

    def __add__(self, other: Usage) -> Usage:
        def total(name: str) -> Any:
            mine, theirs = getattr(self, name), getattr(other, name)
            return None if mine is None or theirs is None else mine + theirs

        same = self.cost_source is other.cost_source
        return Usage(
            tokens_in=total("tokens_in"),
            tokens_out=total("tokens_out"),
            tokens_cached=total("tokens_cached"),
            cost_usd=total("cost_usd"),
            cost_source=self.cost_source if same else _weaker(self.cost_source, other.cost_source),
            steps=total("steps"),
        )

    def free(self) -> Usage:
        """The same consumption, known to cost nothing."""
        return replace(self, cost_usd=0.0, cost_source=CostSource.FREE)

    @property
    def tokens(self) -> int | None:
        """Tokens in plus out, or ``None`` where either is unknown."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        return self.tokens_in + self.tokens_out


def _weaker(a: CostSource, b: CostSource) -> CostSource:
    order = [CostSource.UNKNOWN, CostSource.PRICED, CostSource.REPORTED, CostSource.FREE]
    return min(a, b, key=order.index)


NO_USAGE = Usage(0, 0, 0, 0.0, CostSource.FREE, 0)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a model's tokens cost: US dollars per million tokens."""

    input: float
    output: float
    cached: float

    def priced(self, usage: Usage) -> Usage:
        """Usage with its cost filled in where it reports none and its tokens are known.

        ``tokens_cached`` is the part of ``tokens_in`` that was read from a cache; where it is unknown, all of the
        input is charged in full, so that the figure is never too low.
        """
        if usage.cost_usd is not None or usage.tokens_in is None or usage.tokens_out is None:
            return usage
        cached = min(usage.tokens_cached or 0, usage.tokens_in)
        paid = (usage.tokens_in - cached) * self.input + cached * self.cached + usage.tokens_out * self.output
        return replace(usage, cost_usd=paid / 1e6, cost_source=CostSource.PRICED)


def is_snapshot(asked: str, served: str | None) -> bool:
    """Whether the served identity is certainly the asked one: the same name, or it dated (``name-20250101``).

    For what must be the asked model; where two must differ, :func:`recurve_eval.gates.review.same_model` doubts more.
    """
    if served is None or not asked:
        return False
    rest = served.removeprefix(asked) if served.startswith(asked) else "?"
    return not rest or re.fullmatch(r"[-@](\d{8}|\d{4}-\d{2}-\d{2})", rest) is not None


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of an agent on one prompt, ended. ``record`` is ``ok``, ``missing`` or ``malformed: why``.

    ``stopped_by`` names the bound that a stopped turn met (tokens, usd or steps). ``attempts`` counts the starts of
    its program, each of which is in ``usage``; the seconds waited between them are ``waited_s`` and not in ``wall_s``.
    """

    status: TurnStatus
    exit_code: int | None
    usage: Usage
    wall_s: float
    model_served: str | None = None
    declared_done: bool | None = None
    summary: str = ""
    record: str = "missing"
    detail: str = ""
    stdout: bytes = b""
    stderr: bytes = b""
    repairable: bool = True  # False: another turn could not differ (a recording)
    stopped_by: str | None = None
    attempts: int = 1
    waited_s: float = 0.0
    trouble: str = ""  # what its model's endpoint did wrong: no failure of the agent, so the cell is not scored


@dataclass(frozen=True, slots=True)
class Departure:
    """A sandbox's statement that every process of a run is gone. Issued by ``Session.close`` alone."""

    sandbox: str
    killed: int  # processes that had to be killed at the end
    proof: str  # how absence was established


@dataclass(frozen=True, slots=True)
class AgentRun:
    """All turns of a cell, after the last process of them has gone."""

    turns: tuple[Turn, ...]
    departure: Departure

    def __post_init__(self) -> None:
        _demand(self.departure, Departure, "an agent run needs the departure its sandbox issues on close")

    @property
    def completed(self) -> bool:
        return bool(self.turns) and self.turns[-1].status is TurnStatus.COMPLETED

    @property
    def usage(self) -> Usage:
        total = NO_USAGE
        for turn in self.turns:
            total = total + turn.usage if total is not NO_USAGE else turn.usage
        return total


@dataclass(frozen=True, slots=True)
class Reference:
    """A solution that no agent made: ``canonical``, ``known_bad:KIND`` or ``exploit:NAME``."""

    origin: str


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """One captured path. ``content`` is present exactly when ``status`` is ``ok``."""

    path: str
    status: CaptureStatus
    content: bytes | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """The only thing that reaches the oracle: captured files of an ended run, content-hashed."""

    source: AgentRun | Reference
    files: tuple[CapturedFile, ...]
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        _demand(self.source, (AgentRun, Reference), "a submission needs an ended agent run or a reference")
        parts = [
            [f.path, f.status.value, hashlib.sha256(f.content or b"").hexdigest()]
            for f in sorted(self.files, key=lambda f: f.path)
        ]
        object.__setattr__(self, "sha256", digest(parts))

    @classmethod
    def of_reference(cls, origin: str, files: Mapping[str, bytes]) -> Submission:
        captured = tuple(
            CapturedFile(path, CaptureStatus.OK, content, len(content)) for path, content in sorted(files.items())
        )
        return cls(Reference(origin), captured)

    @property
    def contents(self) -> dict[str, bytes]:
        """The files that could be captured, by path."""
        return {f.path: f.content for f in self.files if f.content is not None}

    @property
    def empty(self) -> bool:
        return not any((f.content or b"").strip() for f in self.files)


# -- what the oracle is given, and says ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OracleJob:
    """One grading. Held-out tests exist here and nowhere else.

    Parameters
    ----------
    task_id : str
    submission : Submission
    held_out : mapping of path to bytes
        Files that only the grader may read.
    convention : str
        How the grader reads ``held_out``: ``unittest`` (modules of TestCases that import the
        submission), ``check`` (a module defining ``check(candidate)``), ``reference`` (a reference solution
        and inputs for both), ``namespace`` (TestCases that run inside the submission's own module), ``suite``
        (files of a repository's own test suite) or ``script`` (a program that writes a reward).
    params : mapping
        JSON parameters of the convention, such as ``{"module": "solution", "entry_point": "f"}``.
    expected : tuple of str
        Ids of the tests that must each be reported exactly once.
    support : mapping of path to bytes
        Public files that the submission may need beside it; they win over captured files.
    preload : tuple of str
        Modules that a warm grader may import once for all gradings.
    timeout_s : float
        Wall-clock seconds for one run of the tests.
    image : str, optional
        The image that this task is graded in, by its content (``sha256:...`` or ``NAME@sha256:...``);
        None is the grader's own.
    """

    task_id: str
    submission: Submission
    held_out: Mapping[str, bytes]
    convention: str
    params: Mapping[str, JSON]
    expected: tuple[str, ...]
    support: Mapping[str, bytes] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    timeout_s: float = 10.0
    image: str | None = None

    def __post_init__(self) -> None:
        _demand(self.submission, Submission, "an oracle job needs a captured submission")
        if not self.expected:
            raise QuarantineError(f"task {self.task_id}: an oracle job without expected tests could not fail")


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file of a tree: a regular one (``mode`` 0o644 or 0o755) or a symbolic link to ``content``."""

    content: bytes
    mode: int = 0o644
    link: bool = False


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """How the image of one task is made. Nothing held out belongs in it.

    Parameters
    ----------
    name : str
        The task's id, by which the image is tagged.
    base : str
        ``recipe:NAME`` (the pinned image of an image recipe), an image id, or the name of a local image.
    dockerfile : str
        The steps after ``FROM``.
    context : mapping of path to TreeFile
        What the steps may copy.
    requirements : tuple of str
        Python packages (``name==version``) that are unpacked into the base before the steps run.
    network : bool
        Whether the steps may reach a network.
    pinned : str, optional
        The image that the plan must give, by its id.
    """

    name: str
    base: str
    dockerfile: str
    context: Mapping[str, TreeFile]
    requirements: tuple[str, ...] = ()
    network: bool = False
    pinned: str | None = None


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict of one grading and what it rests on. ``runs`` is how often the tests were run."""

    verdict: OracleVerdict
    reason: UnscoredReason | None = None
    detail: str = ""
    tests_passed: int = 0
    tests_total: int = 0
    failed: tuple[str, ...] = ()
    runs: int = 1
    flake_rate: float = 0.0
    retried: bool = False
    wall_s: float = 0.0
    stdout: str = ""
    stderr: str = ""

    def __post_init__(self) -> None:
        if (self.verdict is OracleVerdict.UNSCORED) != (self.reason is not None):
            raise ValueError("a grade has a reason exactly when it is unscored")


@dataclass(frozen=True, slots=True)
class OracleEnv:
    """Everything about a grader that can change a verdict; ``hash`` keys calibrations and rows."""

    backend: str
    facts: Mapping[str, JSON]
    isolation: str
    image_digest: str | None = None

    @property
    def hash(self) -> str:
        return digest({"backend": self.backend, "facts": dict(self.facts), "image": self.image_digest})


# -- what the gate says --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """One component's judgement of one state of the work. ``message`` is what the agent is told.

    In the phase ``author`` it judges the claims (are they admitted?) and says nothing of the work.
    """

    component: str
    verdict: GateVerdict
    message: str = ""
    binding: bool = True
    wall_s: float = 0.0
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    phase: Phase = Phase.SCULPT


def refusals(findings: Sequence[Finding]) -> list[Finding]:
    """The binding findings that are not GREEN."""
    return [f for f in findings if f.binding and f.verdict is not GateVerdict.GREEN]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a controller decided after a turn. ``feedback`` opens the next turn where it did not stop."""

    stop: bool
    declared: bool = False
    source: str = ""
    reason: StopReason | None = None
    feedback: str = ""


# -- coordinates ---------------------------------------------------------------------------------


class Coordinates(NamedTuple):
    """Where a cell stands in the matrix: one label per axis. A tuple, because a plan holds one for each cell."""

    benchmark: str
    task_id: str
    model: str
    agent: str
    arm: str
    budget: str
    seed: int


class Cell(NamedTuple):
    """One coordinate of the matrix. ``condition`` indexes the plan's conditions; ``order`` is pinned."""

    cell_id: str
    order: int
    condition: int
    at: Coordinates


def outcome_of(declared: bool, verdict: OracleVerdict) -> Outcome:
    """The five-way outcome; a tampered grading is bad work."""
    if verdict is OracleVerdict.UNSCORED:
        return Outcome.UNSCORED
    good = verdict is OracleVerdict.PASS
    if declared:
        return Outcome.SHIPPED_GOOD if good else Outcome.SHIPPED_BAD
    return Outcome.WITHHELD_GOOD if good else Outcome.WITHHELD_BAD


def _demand(value: object, kind: type | tuple[type, ...], message: str) -> None:
    if not isinstance(value, kind):
        raise QuarantineError(f"{message}; got {type(value).__name__}")
