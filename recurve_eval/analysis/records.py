"""Rows of schema version 1 as slim records, and the order in which everything is reported."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from recurve_eval.domain import OracleVerdict, Outcome, canonical_json, outcome_of
from recurve_eval.errors import ConfigError

Row = Mapping[str, Any]


class Stratum(NamedTuple):
    """Cells that may be compared: nothing but arm, task and seed differs within one."""

    benchmark: str
    model: str
    agent: str
    budget: str


class TaskKey(NamedTuple):
    benchmark: str
    task_id: str


class PairKey(NamedTuple):
    """What two cells must share to be partners."""

    benchmark: str
    task_id: str
    model: str
    agent: str
    budget: str
    seed: int


@dataclass(frozen=True, slots=True)
class Setup:
    """What all cells of one arm in one condition share. ``parts`` are the arm's parts by name, as canonical JSON."""

    description: str
    parts: Mapping[str, str]


@dataclass(slots=True)  # never changed; frozen would double the time to build one
class Record:
    """What the analysis needs of one sealed cell. ``None`` is unknown."""

    stratum: Stratum
    task: TaskKey
    seed: int
    arm: str
    cell_id: str
    plan_hash: str
    experiment: str
    simulated: bool
    declared: bool
    stop_reason: str
    gate_outcome: str
    rejections: int
    claims: int
    traps: int
    tier: str | None
    violations: int
    challenges: tuple[str, ...]
    verdict: str
    reason: str | None
    tests_passed: int
    tests_total: int
    flake_rate: float
    outcome: str
    cost_usd: float | None
    steps: int | None
    cycles: int
    wall_s: float | None
    key: PairKey
    scored: bool
    good: bool
    ship_bad: bool
    ship_good: bool
    tokens: int | None
    setup: Setup
    served: str | None
    agent_sandbox: str
    oracle_isolation: str


class _Reader:
    """Builds records; what many rows repeat is kept once, since a study may have very many rows."""

    def __init__(self) -> None:
        self._same: dict[Any, Any] = {}
        self._setups: dict[tuple[str, str, str], Setup] = {}

    def record(self, row: Row, number: int) -> Record:
        try:
            record, claimed = self._record(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"row {number} is not a result row of schema version 1: {error!r}") from None
        if claimed != record.outcome:
            raise ConfigError(f"row {number} ({record.cell_id}) says {claimed}, but its parts make it {record.outcome}")
        return record

    def _record(self, row: Row) -> tuple[Record, str]:
        at, said, gate, verdict = row["identity"], row["declaration"], row["gate"], row["verdict"]
        origin, attested, usage, one = row["provenance"], row["attestation"], row["usage"], self._once
        stratum = one(Stratum(one(at["benchmark"]), one(at["model"]), one(at["agent"]), one(at["budget"])))
        task = one(TaskKey(stratum.benchmark, one(at["task_id"])))
        outcome = outcome_of(said["declared_done"], OracleVerdict(verdict["oracle_verdict"]))
        record = Record(
            stratum=stratum,
            task=task,
            seed=at["seed"],
            arm=one(at["arm"]),
            cell_id=at["cell_id"],
            plan_hash=one(at["plan_hash"]),
            experiment=one(at["experiment"]),
            simulated=at["simulated"],
            declared=said["declared_done"],
            stop_reason=one(said["stop_reason"]),
            gate_outcome=one(gate["outcome"]),
            rejections=gate["rejections"],
            claims=gate["claims"],
            traps=gate["traps"],
            tier=one(gate["tier"]),
            violations=gate["boundary"]["violations"],
            challenges=one(tuple(str(e.get("phase")) for e in gate["challenge_events"])),
            verdict=one(verdict["oracle_verdict"]),
            reason=one(verdict["reason"]),
            tests_passed=verdict["tests_passed"],
            tests_total=verdict["tests_total"],
            flake_rate=verdict["flake_rate"],
            outcome=outcome.value,
            cost_usd=usage["cost_usd"],
            steps=usage["steps"],
            cycles=usage["cycles"],
            wall_s=usage["wall_s"],
            key=PairKey(task.benchmark, task.task_id, stratum.model, stratum.agent, stratum.budget, at["seed"]),
            scored=outcome is not Outcome.UNSCORED,
            good=verdict["oracle_verdict"] == "pass",
            ship_bad=outcome is Outcome.SHIPPED_BAD,
            ship_good=outcome is Outcome.SHIPPED_GOOD,
            tokens=_total(usage),
            setup=self._setup(at["plan_hash"], origin["config_hash"], at["arm"], gate["config"]),
            served=one(origin["model_served"]),
            agent_sandbox=one(attested["agent_sandbox"]),
            oracle_isolation=one(attested["oracle_isolation"]),
        )
        return record, row["derived"]["outcome"]

    def _once(self, value: Any) -> Any:
        return self._same.setdefault(value, value)

    def _setup(self, plan_hash: str, config_hash: str, arm: str, config: Mapping[str, Any]) -> Setup:
        key = (plan_hash, config_hash, arm)
        if key not in self._setups:
            self._setups[key] = Setup(str((config.get("arm") or {}).get("description") or ""), parts_of(config))
        return self._setups[key]


def records_of(rows: Iterable[Row]) -> list[Record]:
    """Records in a canonical order that does not depend on the order of the rows; each row is read once.

    Raises
    ------
    ConfigError
        A row that is not of schema version 1, or whose outcome contradicts its own verdict.
    """
    reader = _Reader()
    with collector_paused():
        records = [reader.record(row, number) for number, row in enumerate(rows, 1)]
    arms = {arm: natural(arm) for arm in {r.arm for r in records}}
    strata = {s: in_order(s) for s in {r.stratum for r in records}}
    return sorted(records, key=lambda r: (strata[r.stratum], arms[r.arm], r.task, r.seed, r.cell_id))


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cycle collection meanwhile: over very many long-lived objects it costs more than all else."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def parts_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The parts of an arm (``controller``, ``checks``, ``traps``, ...) that are there, as canonical JSON."""
    found = {"controller": config.get("controller"), **(config.get("gate") or {})}
    return {name: canonical_json(part) for name, part in sorted(found.items()) if part is not None}


def _total(usage: Mapping[str, Any]) -> int | None:
    tokens_in, tokens_out = usage["tokens_in"], usage["tokens_out"]
    return None if tokens_in is None or tokens_out is None else int(tokens_in + tokens_out)


def in_order(stratum: Stratum) -> tuple[Any, ...]:
    """A sort key by which budgets and models stand as people count them: 20k before 200k."""
    return tuple(natural(part) for part in stratum)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts A2 before A10 and A0 before A0b."""
    return tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in re.split(r"([0-9]+)", text) if p)
