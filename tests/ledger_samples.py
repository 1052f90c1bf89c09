"""Result rows and run directories for tests of what stores them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from recurve_eval.frozen import sealed

HASH = "ab" * 32
REPO = Path(__file__).resolve().parents[1]
ARMS = ("A0", "A1", "A3")


def cell_id(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:16]


def sample_row(number: int = 0, *, unscored: bool = False, padding: int = 0) -> dict[str, Any]:
    """A row as a real cell seals it; about 2.5 KB with ``padding=600``."""
    good, declared = number % 3 != 0, number % 4 != 1
    outcome = f"{'shipped' if declared else 'withheld'}_{'good' if good else 'bad'}"
    return {
        "identity": {
            "schema": 1, "cell_id": cell_id(number), "plan_hash": HASH, "experiment": "study", "benchmark": "demo",
            "task_id": f"demo/{number}", "arm": ARMS[number % 3], "model": "m1", "agent": "scripted",
            "simulated": True, "budget": "small", "seed": number % 2, "attempt": 1, "order": number,
        },
        "declaration": {"declared_done": declared, "declaration_source": "agent", "stop_reason": "declared"},
        "gate": {
            "outcome": "GREEN", "config": {"checks": [{"argv": ["pytest"], "binding": True}], "note": "ü" * padding},
            "claims": 0, "traps": 0, "rejections": 1, "tier": None, "boundary": {"mode": "none", "violations": 0},
            "hardening": None, "adversary": None, "governor": None, "challenge_events": [],
        },
        "verdict": {
            "oracle_verdict": "unscored" if unscored else "pass" if good else "fail",
            "reason": "infra" if unscored else None, "detail": "Größe ✓\n", "runs": 1, "flake_rate": 0.0,
            "tests_passed": 3 if good else 1, "tests_total": 3, "retried": False,
        },
        "derived": {
            "false_done": None if unscored else declared and not good, "outcome": "unscored" if unscored else outcome,
        },
        "usage": {
            "tokens_in": None, "tokens_out": 12, "tokens_cached": 0, "cost_usd": 0.1 * number, "cost_source": "priced",
            "steps": 1, "cycles": 2, "agent_wall_s": 1.25, "gate_wall_s": 0.1, "oracle_wall_s": 1e-9, "wall_s": 1.5,
        },
        "provenance": {
            "git_commit": "c" * 40, "git_dirty": None, "dependency_hash": HASH, "config_hash": HASH,
            "dataset_revision": "1", "dataset_hash": HASH, "oracle_env_hash": HASH, "exclusions_hash": None,
            "adapter_version": "1", "model_served": None, "host": {"cpus": 2, "platform": "Linux"},
        },
        "attestation": {
            "agent_sandbox": "process", "network": "host", "boundary": "none", "oracle_isolation": "process",
            "image_digest": None, "leak_scan": "clean", "submission_hash": HASH, "capture": {"solution.py": "ok"},
        },
    }  # fmt: skip


def plan_dir(outputs: Path, cells: int, **tracking: Any) -> Path:
    """A run directory as the planner leaves it, with files for its first cells and a tracker's spec."""
    import yaml

    run_dir = outputs / "study" / HASH[:16]
    run_dir.mkdir(parents=True)
    config = {"arm": {"name": "A1"}, "agent": {"argv": ["a", "b"], "prompt": "x" * 7000}, "seed": None, "on": True}
    config["task"] = {"name": "demo"}
    pins = {"benchmark": {"dataset_hash": HASH, "exclusions_hash": None}, "oracle": HASH}
    conditions = [{"index": 0, "config_hash": HASH, "config": config, "pins": pins}]
    provenance = {"git_commit": "c" * 40, "git_dirty": None, "dependency_hash": HASH}
    plan = {"plan_hash": HASH, "experiment": "study", "cells": cells, "study": {}, "provenance": provenance,
            "conditions": conditions}  # fmt: skip
    (run_dir / "plan.yaml").write_text(sealed(yaml.safe_dump(plan, sort_keys=False)))
    lines = [json.dumps({"cell_id": cell_id(n), "order": n, "condition": 0}) + "\n" for n in range(cells)]
    (run_dir / "matrix.jsonl").write_text("".join(lines))
    (run_dir / "tracking.json").write_text(json.dumps(tracking))
    return run_dir


def add_cell_files(run_dir: Path, number: int) -> None:
    folder = run_dir / "cells" / cell_id(number)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("arm: {name: A9}\nseed: 3\n")
    (folder / "grade.json").write_text('{"verdict": "pass"}\n')
    (folder / "transcript-1.txt").write_text("said and done\n")


@dataclass
class FileTracker:
    """Mirrors cell ids into a file; down while the file's directory is missing."""

    path: str
    placement: ClassVar[str] = "process"

    def open_study(self, run_dir: Path, plan: Mapping[str, Any]) -> None:
        Path(self.path).touch()

    def mirrored(self) -> frozenset[str]:
        return frozenset(Path(self.path).read_text().split())

    def mirror(self, rows: Sequence[Mapping[str, Any]]) -> None:
        with Path(self.path).open("a") as file:
            file.writelines(row["identity"]["cell_id"] + "\n" for row in rows)

    def close(self, status: str) -> None:
        """The file is closed already."""


def python(script: str, *args: object, **options: Any) -> subprocess.Popen[str]:
    """A Python process that can import the package and this module."""
    search = os.pathsep.join((str(REPO), str(REPO / "tests")))
    environment = {**os.environ, "PYTHONPATH": search}
    command = [sys.executable, "-c", script, *map(str, args)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
