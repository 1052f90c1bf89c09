"""From gradings to a calibration: verdicts, timings, limits, rates, and what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from recurve_eval.calibration.knownbad import EMPTY
from recurve_eval.calibration.store import SCHEMA, Row
from recurve_eval.calibration.subject import KNOWN_BAD, MUTANT, Subject
from recurve_eval.domain import JSON
from recurve_eval.provenance import host_facts


@dataclass(frozen=True)
class Settings:
    """How thoroughly an oracle is examined.

    Attributes
    ----------
    runs : int
        Gradings of each canonical solution; all must pass.
    mutants : int
        Mutants of each canonical solution.
    seed : int
        Which mutants.
    timeout_floor_s, timeout_factor : float
        A derived time limit is ``max(floor, p99 x factor)``, in seconds.
    """

    runs: int = 3
    mutants: int = 1
    seed: int = 0
    timeout_floor_s: float = 2.0
    timeout_factor: float = 5.0

    def derived(self, wall_s: Sequence[float]) -> float:
        """The time limit that these timings suggest, in seconds; the floor where there are none."""
        return max(self.timeout_floor_s, self.timeout_factor * p99(wall_s)) if wall_s else self.timeout_floor_s


@dataclass(frozen=True)
class Examined:
    """All gradings of one task, and the tests and the time limit of its canonical one.

    A task that is ``impossible`` (for that reason) has gradings of its first attempt in the place of ``canonical``.
    """

    task_id: str
    fingerprint: str
    tests: tuple[str, ...]
    limit_s: float
    canonical: tuple[Row, ...]
    wrong: tuple[Row, ...]
    impossible: str = ""

    @property
    def expected(self) -> list[Row]:
        """The gradings of ``canonical`` that are what they must be."""
        return [row for row in self.canonical if as_it_must(row, bool(self.impossible))]


def p99(values: Sequence[float]) -> float:
    """The 99th percentile by nearest rank."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def good(row: Row) -> bool:
    return row.verdict == "pass" and row.flake_rate == 0.0


def as_it_must(row: Row, impossible: bool) -> bool:
    """A canonical solution passes; an attempt at an impossible task fails."""
    return row.verdict == "fail" and row.flake_rate == 0.0 if impossible else good(row)


def document_of(
    subject: Subject, settings: Settings, tasks: Sequence[Examined], made_at: str, wall_s: float
) -> dict[str, Any]:
    """The calibration, complete but for its seal. ``wall_s`` is what this command took, in seconds."""
    problems = [p for task in tasks for p in _problems(task)]
    timings = [row.wall_s for task in tasks for row in task.expected]
    env = subject.env
    return {
        "schema": SCHEMA,
        "key": subject.key,
        "benchmark": subject.name,
        "dataset": {"hash": subject.pins.get("dataset_hash"), "revision": subject.pins.get("dataset_revision")},
        "exclusions": {"hash": subject.exclusions.hash, "tasks": dict(subject.exclusions.reasons)},
        "oracle": {
            "hash": env.hash, "backend": env.backend, "isolation": env.isolation,
            "image_digest": env.image_digest, "facts": dict(env.facts),
        },
        "grader_code": subject.grader_code,
        "settings": asdict(settings),
        "host": host_facts(),
        "made_at": made_at,
        "wall_s": round(wall_s, 3),
        "green": not problems,
        "problems": problems,
        "weaknesses": [f"{t.task_id}: mutant survives: {r.kind}" for t in tasks for r in _survivors(t)],
        "impossible": sum(bool(task.impossible) for task in tasks),
        "timings": _timings(timings, settings),
        **_rates(tasks),
        "tasks": {task.task_id: _task(task, settings) for task in tasks},
    }  # fmt: skip


def _problems(task: Examined) -> list[str]:
    """Every non-pass of the canonical solution and every known-bad one that is not failed, in words."""
    if task.impossible:
        return list(_possible(task))
    out = []
    bad = [row for row in task.canonical if not good(row)]
    if bad:
        what = "tampered" if bad[0].verdict == "tampered" else _verdict(bad[0])
        out.append(f"{task.task_id}: the canonical solution is {what} in {len(bad)} of {len(task.canonical)} gradings")
    for row in task.wrong:
        if row.role == KNOWN_BAD and row.verdict == "pass":
            no_oracle = "an empty submission passes: this task is no oracle"
            passes = f"the known-bad solution '{row.kind}' passes"
            out.append(f"{task.task_id}: {no_oracle if row.kind == EMPTY else passes}")
        elif row.role == KNOWN_BAD and row.verdict == "unscored":
            out.append(f"{task.task_id}: the known-bad solution '{row.kind}' is {_verdict(row)}")
    return out


def _possible(task: Examined) -> Iterator[str]:
    """What speaks against a task's being impossible: anything that passes, and anything without a verdict."""
    missed = [row for row in task.canonical if row not in task.expected]
    if missed:
        yield (
            f"{task.task_id}: the attempt '{missed[0].kind}' is {_verdict(missed[0])} in {len(missed)} of "
            f"{len(task.canonical)} gradings, and this task must be impossible"
        )
    for row in task.wrong:
        if row.verdict in ("pass", "unscored"):
            yield f"{task.task_id}: the attempt '{row.kind}' is {_verdict(row)}, and this task must be impossible"


def _verdict(row: Row) -> str:
    flaky = f", flake rate {row.flake_rate:.2f}" if row.flake_rate else ""
    why = f"/{row.reason}" if row.reason else ""
    detail = f" ({row.detail.splitlines()[0][:160]})" if row.detail.strip() else ""
    return f"{row.verdict}{why}{flaky}{detail}"


def _survivors(task: Examined) -> list[Row]:
    return [row for row in task.wrong if row.role == MUTANT and row.verdict == "pass" and not task.impossible]


def _timings(timings: Sequence[float], settings: Settings) -> dict[str, JSON]:
    """Seconds of the canonical gradings that passed, and the time limit derived from them."""
    known = bool(timings)
    return {
        "n": len(timings),
        "median_s": round(median(timings), 6) if known else None,
        "p99_s": round(p99(timings), 6) if known else None,
        "max_s": round(max(timings), 6) if known else None,
        "timeout_s": round(settings.derived(timings), 6) if known else None,
    }


def _rates(tasks: Sequence[Examined]) -> dict[str, JSON]:
    """Sensitivity over solvable tasks; specificity over every wrong submission that was scored, and by role."""
    wrong = [row for task in tasks for row in task.wrong]
    return {
        "sensitivity": _rate([all(map(good, task.canonical)) for task in tasks if not task.impossible]),
        "specificity": _rejected(wrong),
        "specificity_known_bad": _rejected([r for r in wrong if r.role == KNOWN_BAD]),
        "specificity_mutants": _rejected([r for r in wrong if r.role == MUTANT]),
    }


def _rejected(rows: Sequence[Row]) -> dict[str, JSON]:
    return _rate([row.verdict != "pass" for row in rows if row.verdict != "unscored"])


def _rate(hits: Sequence[bool]) -> dict[str, JSON]:
    from recurve_eval.stats import Interval, Undefined, wilson

    rate = wilson(sum(hits), len(hits))
    interval = rate.interval
    known = isinstance(interval, Interval) and not isinstance(rate.value, Undefined)
    return {
        "count": rate.count,
        "n": rate.n,
        "value": rate.value if known else None,
        "low": interval.low if isinstance(interval, Interval) else None,
        "high": interval.high if isinstance(interval, Interval) else None,
    }


def _task(task: Examined, settings: Settings) -> dict[str, JSON]:
    timings = [row.wall_s for row in task.expected]
    return {
        "fingerprint": task.fingerprint,
        "impossible": task.impossible,
        "tests": list(task.tests),
        "limit_s": task.limit_s,
        "timeout_s": round(settings.derived(timings), 6) if timings else None,
        "sensitivity": _rate([good(row) for row in task.canonical if not task.impossible]),
        "specificity": _rejected(task.wrong),
        "canonical": [_graded(row) for row in task.canonical],
        "wrong": [{"role": row.role, "kind": row.kind, **_graded(row)} for row in task.wrong],
    }


def _graded(row: Row) -> dict[str, JSON]:
    names = ("submission", "verdict", "reason", "detail", "retried", "flake_rate", "wall_s")
    held = asdict(row)
    return {name: held[name] for name in names}


def covered(document: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The tasks of a calibration, by id."""
    tasks: Mapping[str, Mapping[str, Any]] = document["tasks"]
    return tasks
