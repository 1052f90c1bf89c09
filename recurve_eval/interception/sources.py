"""Where items come from: a benchmark's known-bad solutions, mutants, recorded submissions, a battery."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from recurve_eval.calibration.knownbad import known_bad_of
from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.interception.items import GOOD, RECORDED, SEEDED, Item
from recurve_eval.mutation.mutants import mutants
from recurve_eval.mutation.rewrites import rewrites
from recurve_eval.ports import Benchmark
from recurve_eval.recordings import Recording, read_recordings, recordings_hash

KNOWN_GOOD = ("canonical", "rewrites")


@dataclass
class Known:
    """What every source shares.

    Attributes
    ----------
    good : list of str
        Known-good work that is put to the gate beside the defects: ``canonical``, ``rewrites``.
    timeout_s : float
        Seconds that the oracle allows to one run of an item's tests, where the task itself allows more.
    """

    name: str = ""
    good: list[str] = field(default_factory=lambda: list(KNOWN_GOOD))
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        for word in self.good:
            if word not in KNOWN_GOOD:
                raise UnknownName("known-good work", word, KNOWN_GOOD, "source.good")
        if not self.timeout_s > 0:
            raise ConfigError(f"source.timeout_s must be positive; got {self.timeout_s}")

    def known_good(self, benchmark: Benchmark, task_id: str) -> Iterator[Item]:
        solutions = benchmark.solutions(task_id)
        if solutions.impossible:
            return
        if "canonical" in self.good:
            yield Item(task_id, GOOD, "canonical", solutions.canonical)
        for rewrite in rewrites(solutions.canonical) if "rewrites" in self.good else []:
            yield Item(task_id, GOOD, f"rewrite: {rewrite.kind}", rewrite.files)


@dataclass
class KnownBadSource(Known):
    """The known-bad solutions that each task brings.

    Attributes
    ----------
    generic : bool
        Whether the generic ones (empty, returning None, raising) are put to the gate too.
    """

    name: str = "known_bad"
    generic: bool = True
    simulated = True

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def items(self, benchmark: Benchmark, task_ids: Sequence[str]) -> Iterator[Item]:
        for task_id in task_ids:
            yield from self.known_good(benchmark, task_id)
            solutions = benchmark.solutions(task_id)
            for bad in known_bad_of(solutions) if self.generic else solutions.known_bad:
                yield Item(task_id, SEEDED, bad.kind, bad.files)


@dataclass
class MutantSource(Known):
    """First-order mutants of the canonical solutions: seeded defects, of which some are equivalent.

    Attributes
    ----------
    count : int
        Most mutants a task.
    seed : int
        Which ones, where there are more.
    thorough : bool
        Whether more operators are drawn from than the calibration of an oracle uses.
    """

    name: str = "mutants"
    count: int = 20
    seed: int = 0
    thorough: bool = True
    simulated = True

    def pins(self) -> Mapping[str, JSON]:
        if self.count < 1:
            raise ConfigError(f"source.count must be at least 1; got {self.count}")
        return {}

    def items(self, benchmark: Benchmark, task_ids: Sequence[str]) -> Iterator[Item]:
        for task_id in task_ids:
            yield from self.known_good(benchmark, task_id)
            solutions = benchmark.solutions(task_id)
            for mutant in mutants(solutions.canonical, self.count, self.seed, task_id, self.thorough):
                yield Item(task_id, SEEDED, operator_of(mutant.kind), mutant.files, detail=mutant.kind)


@dataclass
class RecordedSource(Known):
    """Recorded submissions of models; the oracle says which of them are defects.

    Attributes
    ----------
    paths : list of str
        JSONL files, plain or gzip, of lines with task_id, attempt, model, solution (as the replay agent reads).
    attempts : int, optional
        Most attempts of one model at a task; None takes all.
    """

    name: str = "recorded"
    paths: list[str] = field(default_factory=list)
    attempts: int | None = None
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        if not self.paths:
            raise ConfigError("source.paths names no file of recorded submissions: source.paths=[FILE,...]")
        return {"submissions": recordings_hash(self.paths, "source.paths")}

    def items(self, benchmark: Benchmark, task_ids: Sequence[str]) -> Iterator[Item]:
        held = read_recordings(self.paths, "source.paths")
        by_task: dict[str, list[Recording]] = {}
        for record in held:
            by_task.setdefault(record.task_id, []).append(record)
        unknown = sorted(by_task.keys() - set(benchmark.task_ids()))
        if unknown:
            raise ConfigError(f"source.paths: {len(unknown)} tasks are none of {benchmark.name}'s: {unknown[0]}")
        if not any(t in by_task for t in task_ids):
            raise ConfigError("source.paths holds no submission for a selected task")
        for task_id in task_ids:
            yield from self.known_good(benchmark, task_id)
            path = benchmark.task(task_id).capture.paths[0]
            taken: dict[str, int] = {}
            for record in sorted(by_task.get(task_id, []), key=lambda r: (r.model, r.attempt)):
                taken[record.model] = taken.get(record.model, 0) + 1
                if self.attempts is None or taken[record.model] <= self.attempts:
                    files = {path: record.solution}
                    yield Item(task_id, RECORDED, record.model, files, record.model, record.attempt)


_OPERATORS = (
    ("comparison", re.compile(r"(Lt|LtE|Gt|GtE|Eq|NotEq|In|NotIn|Is|IsNot) to ")),
    ("arithmetic", re.compile(r"(Add|Sub|Mult|Div|FloorDiv|Mod|Pow|BitAnd|BitOr|BitXor) to ")),
    ("boolean operator", re.compile(r"(And|Or) to ")),
    ("boolean constant", re.compile(r"(True|False) to ")),
    ("number", re.compile(r"-?\d+ to ")),
    ("string", re.compile(r"string ")),
    ("removed statement", re.compile(r"(AugAssign|Break|Continue|If|Expr) removed")),
    ("removed negation", re.compile(r"(Not|USub) removed")),
    ("exchanged arguments", re.compile(r"arguments exchanged")),
    ("slice bound", re.compile(r"slice without")),
    ("condition", re.compile(r"condition negated")),
    ("return value", re.compile(r"returns None")),
)


def operator_of(change: str) -> str:
    """The mutation operator behind a mutant's description (``solution.py:12 Lt to LtE`` is a ``comparison``)."""
    _, _, what = change.partition(" ")
    return next((name for name, pattern in _OPERATORS if pattern.match(what)), "other")
