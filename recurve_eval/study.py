"""A study: its plan with the parts that run it, and what all of its conditions must agree on."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from recurve_eval import config as cfg
from recurve_eval import provenance
from recurve_eval.axes import Point
from recurve_eval.calibration.subject import Subject
from recurve_eval.cell import Adapters
from recurve_eval.domain import JSON, OracleEnv, canonical_json
from recurve_eval.errors import ConfigError, Drift
from recurve_eval.exclusions import Exclusions
from recurve_eval.locks import locked
from recurve_eval.plan import Plan
from recurve_eval.ports import Benchmark, OracleBackend, Reviewing

KERNEL = (
    "domain", "ports", "cell", "rounds", "bounds", "offline", "tiers", "capture", "leak", "workspace", "testids",
    "results", "plan", "recordings", "mutation.mutants", "mutation.rewrites",
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A plan with its parts, ready to run. ``config`` is what all conditions share."""

    plan: Plan
    config: Mapping[str, Any]
    adapters: tuple[Adapters, ...]
    envs: tuple[OracleEnv, ...]
    points: tuple[Point, ...]
    own: Path | None = None  # the directory of the user's own options that it was composed from

    @property
    def run_dir(self) -> Path:
        return self.plan.directory(Path(self.config["run"]["outputs"]))

    def lock(self) -> dict[str, JSON]:
        """oracle.lock.json: every distinct oracle environment of the plan."""
        tables = {c.config["task"]["name"]: c.pins["benchmark"]["exclusions_hash"] for c in self.plan.conditions}
        return lock_of(self.envs, tables)

    def subjects(self, paid: bool | None = None) -> list[tuple[Subject, Point]]:
        """What must be calibrated for the conditions (those that are paid, or are not, where asked), each once.

        Beside each stands a point whose overrides compose it.
        """
        tasks: dict[tuple[str, str, str], dict[str, None]] = {}
        parts: dict[tuple[str, str, str], int] = {}
        for c, env in zip(self.plan.conditions, self.envs, strict=True):
            if paid is not None and c.paid is not paid:
                continue
            key = (c.config["task"]["name"], canonical_json(c.pins["benchmark"]), env.hash)
            tasks.setdefault(key, {}).update(dict.fromkeys(c.task_ids))
            parts.setdefault(key, c.index)
        out = []
        for key, index in parts.items():
            c, adapters = self.plan.conditions[index], self.adapters[index]
            table = Exclusions(c.excluded)
            subject = subject_of(adapters.benchmark, adapters.oracle, self.envs[index], table, tuple(tasks[key]))
            out.append((subject, self.points[index]))
        return out


def lock_of(envs: Sequence[OracleEnv], exclusions: Mapping[str, JSON]) -> dict[str, JSON]:
    """oracle.lock.json for these environments and the exclusion tables' hashes, by benchmark."""
    every = {e.hash: e for e in envs}
    return {
        "schema": 1,
        "environments": {h: locked(e) for h, e in sorted(every.items())},
        "exclusions": dict(exclusions),
        "host": provenance.host_facts(),
    }


def interception_code(kernel: JSON) -> str:
    """Hash of the code behind an interception's decisions, ``kernel`` being that of its parts."""
    ours = siblings("recurve_eval.interception.judge") | siblings("recurve_eval.mutation.mutants")
    return provenance.code_hash(sorted(ours)) + str(kernel)


def subject_of(
    benchmark: Benchmark, oracle: OracleBackend, env: OracleEnv, table: Exclusions, tasks: tuple[str, ...]
) -> Subject:  # fmt: skip
    code = {"recurve_eval.domain", "recurve_eval.testids"}
    code |= siblings(type(benchmark).__module__) | siblings(type(oracle).__module__)
    return Subject(benchmark, oracle, env, benchmark.pins(), table, provenance.code_hash(sorted(code)), tasks)


def reviewing(parts: Adapters) -> list[Reviewing]:
    """The components that consult another agent."""
    return [c for c in parts.components if isinstance(c, Reviewing)]


def code_of(parts: Adapters) -> str:
    """Hash of the source that produces a verdict: the kernel's, and the package of every adapter in use."""
    used = (
        parts.benchmark,
        parts.agent,
        parts.sandbox,
        parts.controller,
        parts.oracle,
        *parts.components,
        *parts.auditors,
        *(r.agent for r in reviewing(parts)),
    )
    modules = {f"recurve_eval.{name}" for name in KERNEL}
    for part in used:
        modules |= siblings(type(part).__module__)
    return provenance.code_hash(tuple(sorted(modules)))


@cache
def siblings(module: str) -> frozenset[str]:
    """A module and, where it is one of ours, its whole package: adapters share helpers within theirs."""
    package, _, _ = module.rpartition(".")
    if not package.startswith("recurve_eval."):
        return frozenset({module})
    found = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    return frozenset({package, *(m.name for m in found if not m.ispkg)})


def agreed(configs: Sequence[Mapping[str, Any]], points: Sequence[Point]) -> dict[str, Any]:
    """What all conditions must agree on. Raises ConfigError naming both sides of a contradiction."""
    first = configs[0]
    for config, point in zip(configs[1:], points[1:], strict=True):
        for group in cfg.PLAN_LEVEL:
            if first[group] is config[group]:
                continue
            mine, other = dict(cfg.leaves(first[group])), dict(cfg.leaves(config[group]))
            for key in sorted(mine.keys() | other.keys()):
                if mine.get(key) != other.get(key):
                    a, b = " ".join(points[0].overrides) or "defaults", " ".join(point.overrides)
                    raise ConfigError(
                        f"the conditions of one plan contradict each other on {group}.{key}: "
                        f"{mine.get(key)!r} ({a}) against {other.get(key)!r} ({b}). Run them as two studies"
                    )
    return {group: first[group] for group in cfg.PLAN_LEVEL}


def hold_to_pins(plan: Plan, pins: Mapping[str, Any], envs: Sequence[OracleEnv]) -> None:
    """Hold the plan against what the study says it expects."""
    found: dict[str, set[Any]] = {
        "dataset_hash": {c.pins["benchmark"].get("dataset_hash") for c in plan.conditions},
        "oracle_env_hash": {e.hash for e in envs},
        "plan_hash": {plan.hash},
    }
    for key, expected in pins.items():
        if expected is not None and found[key] != {expected}:
            got = ", ".join(sorted(map(str, found[key])))
            raise Drift(f"pins.{key} expects {expected} and finds {got}: find out what moved, or set the pin anew")
