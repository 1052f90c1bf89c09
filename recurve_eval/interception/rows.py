"""A decision as a result row (schema version 1), and what a report reads back from one.

The layer stands where a study has its arm and the item where it has its seed; the gate's GREEN is the declaration.
What has no place of its own in the schema stands in ``gate.config.interception``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recurve_eval.domain import Cell, Grade, OracleVerdict, Outcome, UnscoredReason, outcome_of
from recurve_eval.interception.items import Item, standing
from recurve_eval.interception.judge import BLOCKED, FAILED, PASSED, UNABLE, Own
from recurve_eval.interception.layers import Layer
from recurve_eval.plan import Condition
from recurve_eval.results import ROW_SCHEMA, RunFacts


@dataclass(frozen=True, slots=True)
class Decision:
    """One layer's decision on one item, as sealed. ``stopped`` says that it or a layer below refused the item."""

    item: str
    task_id: str
    layer: str
    own: str
    outcome: str
    stopped: bool
    standing: str
    role: str
    kind: str
    author: str
    attempt: int
    claims_by: str
    verdict: str
    why: str
    facts: Mapping[str, Any]
    wall_s: float
    oracle_wall_s: float


@dataclass(frozen=True)
class Recorder:
    """What all rows of an interception share."""

    facts: RunFacts
    isolation: str
    image_digest: str | None
    env_hash: str
    attestation: Mapping[str, Any]
    cumulative: bool

    def row(
        self, item: Item, cell: Cell, condition: Condition, layer: Layer, own: Own, below: Sequence[Mapping[str, Any]],
        grade: Grade, simulated: bool, claims_by: str,
    ) -> dict[str, Any]:  # fmt: skip
        """The row of one decision. ``below`` are the own decisions of the layers below, where layers add up."""
        stack = [*below, {"decision": own.decision, "outcome": own.outcome}] if self.cumulative else [
            {"decision": own.decision, "outcome": own.outcome}
        ]  # fmt: skip
        if own.decision == FAILED and not any(b["decision"] == BLOCKED for b in below):
            grade = Grade(OracleVerdict.UNSCORED, UnscoredReason.INFRA, own.why)
        blocked = next((b for b in stack if b["decision"] == BLOCKED), None)
        scored = grade.verdict is not OracleVerdict.UNSCORED
        declared = blocked is None and own.decision != FAILED
        judged = [b["outcome"] for b in stack if b["decision"] == PASSED and b["outcome"] != "none"]
        outcome = blocked["outcome"] if blocked else ("GREEN" if judged else "none")
        stop = "gate_green" if declared else "infra" if own.decision == FAILED and not blocked else "max_cycles"
        result = outcome_of(declared, grade.verdict)
        return {
            "identity": self._identity(cell, simulated),
            "declaration": {"declared_done": declared, "declaration_source": "gate", "stop_reason": stop},
            "gate": _gate(outcome, blocked is not None, item, layer, own, claims_by),
            "verdict": {
                "oracle_verdict": grade.verdict.value, "reason": grade.reason.value if grade.reason else None,
                "detail": grade.detail[:2000], "runs": grade.runs, "flake_rate": grade.flake_rate,
                "tests_passed": grade.tests_passed, "tests_total": grade.tests_total, "retried": grade.retried,
            },
            "derived": {
                "false_done": result is Outcome.SHIPPED_BAD if scored else None, "outcome": result.value,
            },
            "usage": _usage(own, grade),
            "provenance": self._provenance(condition),
            "attestation": {
                **{k: str(v) for k, v in self.attestation.items()}, "oracle_isolation": self.isolation,
                "image_digest": self.image_digest, "leak_scan": "not_run",
                "submission_hash": item.submission.sha256, "capture": dict.fromkeys(sorted(item.files), "ok"),
            },
        }  # fmt: skip

    def _identity(self, cell: Cell, simulated: bool) -> dict[str, Any]:
        at = cell.at
        return {
            "schema": ROW_SCHEMA, "cell_id": cell.cell_id, "plan_hash": self.facts.plan_hash,
            "experiment": self.facts.experiment, "benchmark": at.benchmark, "task_id": at.task_id, "arm": at.arm,
            "model": at.model, "agent": at.agent, "simulated": simulated, "budget": at.budget, "seed": at.seed,
            "attempt": 1, "order": cell.order,
        }  # fmt: skip

    def _provenance(self, condition: Condition) -> dict[str, Any]:
        pins: Mapping[str, Any] = condition.pins["benchmark"]
        return {
            **self.facts.provenance, "config_hash": condition.hash, "dataset_revision": pins.get("dataset_revision"),
            "dataset_hash": pins.get("dataset_hash"), "oracle_env_hash": self.env_hash,
            "exclusions_hash": pins.get("exclusions_hash"), "adapter_version": str(condition.pins["code"])[:16],
            "model_served": None,
        }  # fmt: skip


def _gate(outcome: str, blocked: bool, item: Item, layer: Layer, own: Own, claims_by: str) -> dict[str, Any]:
    asked = {"layer": layer.name, "own": asdict(own), "item": item.facts, "claims_by": claims_by}
    return {
        "outcome": outcome, "config": {"gate": dict(layer.settings), "interception": asked}, "claims": 0, "traps": 0,
        "rejections": int(blocked), "boundary": {"mode": "none", "violations": 0, "paths": []}, "admission": None,
        "flakes": [], "hardening": None, "adversary": None, "governor": None, "challenge_events": [], "tier": None,
    }  # fmt: skip


def _usage(own: Own, grade: Grade) -> dict[str, Any]:
    return {
        "tokens_in": 0, "tokens_out": 0, "tokens_cached": 0, "cost_usd": 0.0, "cost_source": "free", "steps": 0,
        "cycles": 0, "agent_wall_s": 0.0, "gate_wall_s": round(own.wall_s, 6),
        "oracle_wall_s": round(grade.wall_s, 6), "wall_s": round(own.wall_s + grade.wall_s, 6),
    }  # fmt: skip


def own_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A sealed row's own decision: ``decision``, ``outcome``, ``why``, ``wall_s``, ``facts``."""
    found: Mapping[str, Any] = row["gate"]["config"]["interception"]["own"]
    return found


def grade_of(row: Mapping[str, Any]) -> Grade | None:
    """The grading that a sealed row rests on, or None where that row itself is without a verdict."""
    v = row["verdict"]
    if v["oracle_verdict"] == "unscored":
        return None
    return Grade(
        OracleVerdict(v["oracle_verdict"]), None, v["detail"], v["tests_passed"], v["tests_total"], (), v["runs"],
        v["flake_rate"], v["retried"], row["usage"]["oracle_wall_s"],
    )  # fmt: skip


def decisions(rows: Iterable[Mapping[str, Any]]) -> list[Decision]:
    """The decisions of an interception's rows, in the plan's order."""
    return [_decision(row) for row in sorted(rows, key=lambda r: int(r["identity"]["order"]))]


def _decision(row: Mapping[str, Any]) -> Decision:
    asked = row["gate"]["config"]["interception"]
    item, own, verdict = asked["item"], asked["own"], row["verdict"]["oracle_verdict"]
    return Decision(
        item=f"{row['identity']['task_id']}\0{item['author']}\0{item['attempt']}\0{item['cell']}\0"
        f"{item['submission']}",
        task_id=row["identity"]["task_id"], layer=row["identity"]["arm"], own=own["decision"], outcome=own["outcome"],
        stopped=bool(row["gate"]["rejections"]), standing=standing(item["role"], verdict), role=item["role"],
        kind=item["kind"], author=item["author"], attempt=item["attempt"], claims_by=asked["claims_by"],
        verdict=verdict, why=own["why"], facts=own["facts"], wall_s=own["wall_s"],
        oracle_wall_s=row["usage"]["oracle_wall_s"],
    )  # fmt: skip


__all__ = ["BLOCKED", "FAILED", "PASSED", "UNABLE", "Decision", "Recorder", "decisions", "grade_of", "own_of"]
