"""Rows of schema version 1 as slim records, and the order in which everything is reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from recurve_eval.domain import OracleVerdict, Outcome, outcome_of
from recurve_eval.errors import ConfigError, Drift

Row = Mapping[str, Any]
PINS = ("dataset_revision", "dataset_hash", "oracle_env_hash", "exclusions_hash")


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
    verdict: str
    reason: str | None
    outcome: str
    usage: Mapping[str, Any]
    key: PairKey
    scored: bool
    good: bool
    ship_bad: bool
    ship_good: bool
    tokens: int | None
    arm_description: str
    served: str | None
    agent_sandbox: str
    oracle_isolation: str


def records_of(rows: Iterable[Row]) -> list[Record]:
    """Records in a canonical order that does not depend on the order of the rows.

    Raises
    ------
    ConfigError
        A row that is not of schema version 1, or whose outcome contradicts its own verdict.
    """
    strata: dict[Stratum, Stratum] = {}
    records = [_record(row, number, strata) for number, row in enumerate(rows, 1)]
    ranks = {arm: natural(arm) for arm in {r.arm for r in records}}
    return sorted(records, key=lambda r: (r.stratum, ranks[r.arm], r.task, r.seed, r.cell_id))


def _record(row: Row, number: int, strata: dict[Stratum, Stratum]) -> Record:
    try:
        at, said, gate, verdict = row["identity"], row["declaration"], row["gate"], row["verdict"]
        stratum = Stratum(at["benchmark"], at["model"], at["agent"], at["budget"])
        outcome = outcome_of(said["declared_done"], OracleVerdict(verdict["oracle_verdict"]))
        record = Record(
            stratum=strata.setdefault(stratum, stratum),
            task=TaskKey(at["benchmark"], at["task_id"]),
            seed=at["seed"],
            arm=at["arm"],
            cell_id=at["cell_id"],
            plan_hash=at["plan_hash"],
            experiment=at["experiment"],
            simulated=at["simulated"],
            declared=said["declared_done"],
            stop_reason=said["stop_reason"],
            gate_outcome=gate["outcome"],
            rejections=gate["rejections"],
            verdict=verdict["oracle_verdict"],
            reason=verdict["reason"],
            outcome=outcome.value,
            usage=row["usage"],
            key=PairKey(at["benchmark"], at["task_id"], at["model"], at["agent"], at["budget"], at["seed"]),
            scored=outcome is not Outcome.UNSCORED,
            good=verdict["oracle_verdict"] == "pass",
            ship_bad=outcome is Outcome.SHIPPED_BAD,
            ship_good=outcome is Outcome.SHIPPED_GOOD,
            tokens=_total(row["usage"]),
            arm_description=str((gate["config"].get("arm") or {}).get("description") or ""),
            served=row["provenance"]["model_served"],
            agent_sandbox=row["attestation"]["agent_sandbox"],
            oracle_isolation=row["attestation"]["oracle_isolation"],
        )
        claimed = row["derived"]["outcome"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"row {number} is not a result row of schema version 1: {error!r}") from None
    if claimed != record.outcome:
        raise ConfigError(f"row {number} ({record.cell_id}) says {claimed}, but its parts make it {record.outcome}")
    return record


def _total(usage: Mapping[str, Any]) -> int | None:
    tokens_in, tokens_out = usage["tokens_in"], usage["tokens_out"]
    return None if tokens_in is None or tokens_out is None else int(tokens_in + tokens_out)


def refuse_unlike_pins(rows: Sequence[Row]) -> None:
    """Rows of several plans may be joined only where their pins agree, benchmark by benchmark.

    Raises
    ------
    Drift
        Names the pin, the plans and both values.
    """
    if len({row["identity"]["plan_hash"] for row in rows}) < 2:
        return
    seen: dict[tuple[str, str], dict[str, set[str]]] = {}
    for row in rows:
        at = row["identity"]
        for pin in PINS:
            by_plan = seen.setdefault((at["benchmark"], pin), {})
            by_plan.setdefault(at["plan_hash"], set()).add(str(row["provenance"][pin]))
    for (benchmark, pin), by_plan in sorted(seen.items()):
        first, *others = sorted(by_plan)
        for other in others:
            if by_plan[other] != by_plan[first]:
                raise Drift(
                    f"plans {first[:16]} and {other[:16]} cannot be joined: {pin} of benchmark '{benchmark}' is "
                    f"{', '.join(sorted(by_plan[first]))} in one and {', '.join(sorted(by_plan[other]))} in the other"
                )


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts A2 before A10 and A0 before A0b."""
    return tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in re.split(r"([0-9]+)", text) if p)
