"""From a finished trial to its result row (schema version 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recurve_eval.cell import Trial, declared, gate_outcome, rejections
from recurve_eval.domain import JSON, CostSource, OracleEnv, OracleVerdict, Outcome, outcome_of
from recurve_eval.offline import as_asked
from recurve_eval.tiers import tier_of

ROW_SCHEMA = 1


@dataclass(frozen=True)
class RunFacts:
    """What every row of a run repeats: its plan and its provenance."""

    plan_hash: str
    experiment: str
    provenance: Mapping[str, JSON]  # git_commit, git_dirty, dependency_hash, host


def row_of(trial: Trial, facts: RunFacts, env: OracleEnv) -> dict[str, Any]:
    """The row of a trial. Every group of the schema is present; what is unknown is None."""
    assert trial.grade is not None
    return {
        "identity": _identity(trial, facts),
        "declaration": _declaration(trial),
        "gate": _gate(trial),
        "verdict": _verdict(trial),
        "derived": _derived(trial),
        "usage": _usage(trial),
        "provenance": _provenance(trial, facts, env),
        "attestation": _attestation(trial, env),
    }


def _identity(trial: Trial, facts: RunFacts) -> dict[str, Any]:
    at = trial.cell.at
    return {
        "schema": ROW_SCHEMA,
        "cell_id": trial.cell.cell_id,
        "plan_hash": facts.plan_hash,
        "experiment": facts.experiment,
        "benchmark": at.benchmark,
        "task_id": at.task_id,
        "arm": at.arm,
        "model": at.model,
        "agent": at.agent,
        "simulated": trial.condition.simulated,
        "budget": at.budget,
        "seed": at.seed,
        "attempt": trial.attempt,
        "order": trial.cell.order,
    }


def _declaration(trial: Trial) -> dict[str, Any]:
    reason = trial.decision.reason
    assert reason is not None
    return {
        "declared_done": declared(trial),
        "declaration_source": trial.decision.source or "none",
        "stop_reason": reason.value,
    }


def _gate(trial: Trial) -> dict[str, Any]:
    config, record = trial.condition.config, trial.record
    section = {
        "outcome": gate_outcome(trial),
        "config": {k: config[k] for k in ("arm", "gate", "controller")},
        "claims": record.claims,
        "traps": record.traps,
        "rejections": rejections(trial),
        "boundary": {"mode": record.boundary, "violations": len(record.violations), "paths": record.violations},
        "admission": record.admission and {**record.admission, "turns": _authored(trial)},
        "flakes": record.flakes,
        "hardening": record.hardening or _audited(trial, "hardening"),
        "adversary": record.adversary,
        "governor": record.governor,
        "challenge_events": record.challenge_events,
    }
    tier = tier_of(section)
    events = [*record.challenge_events, *_falsified(trial, tier)]
    return section | {"tier": tier, "challenge_events": events}


def _falsified(trial: Trial, tier: str | None) -> list[dict[str, Any]]:
    """What the oracle's later word is to a gate that let the work go: a challenge after publication."""
    grade = trial.grade
    if grade is None or tier is None or not declared(trial):
        return []
    if grade.verdict not in (OracleVerdict.FAIL, OracleVerdict.TAMPERED):
        return []
    reason = grade.detail or f"{grade.tests_passed} of {grade.tests_total} held-out tests pass"
    event = {"phase": "post_publication", "by": "oracle", "kind": "falsified", "claim": None}
    return [event | {"reason": reason[:400], "tier_held": tier}]


def _authored(trial: Trial) -> int:
    """Turns that went into claims; ``cycles`` counts the turns at the work, as budgets do."""
    return trial.rounds.authored if trial.rounds is not None else 0


def _audited(trial: Trial, component: str) -> dict[str, Any] | None:
    seen = trial.rounds.observations if trial.rounds is not None else []
    return next((dict(o.facts) for o in seen if o.component == component), None)


def _verdict(trial: Trial) -> dict[str, Any]:
    grade = trial.grade
    assert grade is not None
    return {
        "oracle_verdict": grade.verdict.value,
        "reason": grade.reason.value if grade.reason else None,
        "detail": grade.detail[:2000],
        "runs": grade.runs,
        "flake_rate": grade.flake_rate,
        "tests_passed": grade.tests_passed,
        "tests_total": grade.tests_total,
        "retried": grade.retried,
    }


def _derived(trial: Trial) -> dict[str, Any]:
    assert trial.grade is not None
    outcome = outcome_of(declared(trial), trial.grade.verdict)
    scored = trial.grade.verdict is not OracleVerdict.UNSCORED
    return {"false_done": outcome is Outcome.SHIPPED_BAD if scored else None, "outcome": outcome.value}


def _usage(trial: Trial) -> dict[str, Any]:
    used = trial.usage
    return {
        "tokens_in": used.tokens_in,
        "tokens_out": used.tokens_out,
        "tokens_cached": used.tokens_cached,
        "cost_usd": used.cost_usd,
        "cost_source": CostSource(used.cost_source).value,
        "steps": used.steps,
        "cycles": len(trial.turns) - _authored(trial),
        "agent_wall_s": round(sum(t.wall_s for t in trial.turns), 6),
        "gate_wall_s": round(trial.gate_wall_s, 6),
        "oracle_wall_s": round(trial.grade.wall_s, 6) if trial.grade else 0.0,
        "wall_s": round(trial.wall_s, 6),
    }


def _provenance(trial: Trial, facts: RunFacts, env: OracleEnv) -> dict[str, Any]:
    pins: Mapping[str, Any] = trial.condition.pins["benchmark"]
    served = [t.model_served for t in trial.turns if t.model_served]
    return {
        **facts.provenance,
        "config_hash": trial.condition.hash,
        "dataset_revision": pins.get("dataset_revision"),
        "dataset_hash": pins.get("dataset_hash"),
        "oracle_env_hash": env.hash,
        "exclusions_hash": pins.get("exclusions_hash"),
        "adapter_version": str(trial.condition.pins["code"])[:16],
        "model_served": served[-1] if served else None,
    }


def _attestation(trial: Trial, env: OracleEnv) -> dict[str, Any]:
    submission = trial.submission
    return {
        **{k: str(v) for k, v in as_asked(trial.parts.sandbox, trial.task).attestation().items()},
        "boundary": trial.record.boundary,
        "oracle_isolation": env.isolation,
        "candidate": trial.candidate,
        "image_digest": trial.image or env.image_digest,
        "leak_scan": trial.leak_scan,
        "submission_hash": submission.sha256 if submission else None,
        "capture": {f.path: f.status.value for f in submission.files} if submission else {},
    }
