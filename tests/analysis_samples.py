"""Rows of schema version 1 for the tests of the analysis."""

from __future__ import annotations

import hashlib
from typing import Any

from recurve_eval.domain import OracleVerdict, outcome_of

Row = dict[str, Any]


def row(
    task: str = "t1",
    arm: str = "A0",
    *,
    seed: int = 0,
    model: str = "m",
    agent: str = "scripted",
    declared: bool = True,
    verdict: str = "pass",
    reason: str | None = None,
    stop: str = "declared",
    gate: str = "none",
    rejections: int = 0,
    tokens: tuple[int, int] | None = (100, 10),
    usd: float | None = 0.5,
    wall_s: float = 2.0,
    simulated: bool = False,
    plan: str = "a" * 64,
    budget: str = "small",
    benchmark: str = "demo",
    cycles: int = 1,
    parts: dict[str, Any] | None = None,
    oracle_env: str = "b" * 64,
) -> Row:
    """One valid row; everything that the analysis does not read is filled in plainly."""
    outcome = outcome_of(declared, OracleVerdict(verdict)).value
    where = f"{plan}/{benchmark}/{task}/{model}/{arm}/{budget}/{seed}" + f"/{agent}" * (agent != "scripted")
    known = tokens or (None, None)
    config = {} if parts is None else {"controller": parts.get("controller"), "gate": parts}
    setup = hashlib.sha256(f"{arm}/{parts}".encode()).hexdigest()
    return {
        "identity": {
            "schema": 1, "cell_id": hashlib.sha256(where.encode()).hexdigest()[:16], "plan_hash": plan,
            "experiment": "unit", "benchmark": benchmark, "task_id": task, "arm": arm, "model": model, "agent": agent,
            "simulated": simulated, "budget": budget, "seed": seed, "attempt": 1, "order": 0,
        },
        "declaration": {
            "declared_done": declared, "declaration_source": "agent" if declared else "none", "stop_reason": stop,
        },
        "gate": {
            "outcome": gate, "config": config, "claims": 0, "traps": 0, "rejections": rejections, "tier": None,
            "boundary": {"mode": "none", "violations": 0}, "hardening": None, "adversary": None, "governor": None,
            "challenge_events": [],
        },
        "verdict": {
            "oracle_verdict": verdict, "reason": reason, "detail": "", "runs": 1, "flake_rate": 0.0,
            "tests_passed": 1, "tests_total": 1, "retried": False,
        },
        "derived": {"false_done": None if verdict == "unscored" else outcome == "shipped_bad", "outcome": outcome},
        "usage": {
            "tokens_in": known[0], "tokens_out": known[1], "tokens_cached": None, "cost_usd": usd,
            "cost_source": "unknown" if usd is None else "reported", "steps": 1, "cycles": cycles, "agent_wall_s": wall_s,
            "gate_wall_s": 0.0, "oracle_wall_s": 0.1, "wall_s": wall_s,
        },
        "provenance": {
            "git_commit": None, "git_dirty": None, "dependency_hash": "c" * 64, "config_hash": setup,
            "dataset_revision": None, "dataset_hash": "e" * 64, "oracle_env_hash": oracle_env, "exclusions_hash": None,
            "adapter_version": "1", "model_served": None, "host": {},
        },
        "attestation": {
            "agent_sandbox": "process", "network": "none", "boundary": "none", "oracle_isolation": "process",
            "image_digest": None, "leak_scan": "clean", "submission_hash": None, "capture": {},
        },
    }  # fmt: skip


def unscored(task: str, arm: str, **more: Any) -> Row:
    return row(task, arm, verdict="unscored", reason="oracle_timeout", **more)


def plan_of(baseline: str = "A0", treatment: str = "A1", **study: Any) -> dict[str, Any]:
    primary = {"baseline": baseline, "treatment": treatment}
    return {
        "study": {"name": "unit", "primary": primary, "contrasts": [], "noise_floor": None, **study},
        "analysis": {"alpha": 0.05, "power": 0.8, "seed": 0, "resamples": 2000, "figures": False},
    }


def historical() -> list[Row]:
    """The recorded smoke run: BigCodeBench/13, budget 60,000 tokens, seed 0."""
    task = {"task": "BigCodeBench/13", "usd": None}
    failed = {"declared": False, "verdict": "fail", "stop": "process_failed", "gate": "RED", "rejections": 1}
    green = {"verdict": "fail", "stop": "gate_green", "gate": "GREEN"}
    rows = [
        row(**task, arm="A0", model="haiku", tokens=(141524, 2211)),
        row(**task, arm="A3", model="haiku", tokens=(6726157, 31532), **failed),
        row(**task, arm="A0", model="sonnet", tokens=(1142888, 8874)),
        row(**task, arm="A3", model="sonnet", tokens=(4892688, 37050), **green),
    ]
    for one in rows:
        one["identity"] |= {"benchmark": "bigcodebench", "agent": "claude_code", "budget": "60k", "experiment": "smoke"}
    return rows
