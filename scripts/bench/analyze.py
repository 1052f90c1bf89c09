#!/usr/bin/env python3
"""How long an analysis takes from the ledger and from MLflow's database, and how much memory, at many rows.

The rows are drawn, not run: eleven arms, several models and seeds, sealed as the harness seals them. A time is
shown beside what this machine needs to parse the same rows as JSON, which is the ratio to compare; processor time
says more than wall time where other work runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARMS = ("A0", "A0b", "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9")
MODELS, SEEDS = ("haiku", "sonnet", "opus"), (0, 1, 2)
HASH = "ab" * 32


def rows(count: int) -> Iterator[dict[str, Any]]:
    """``count`` rows of about 2.5 KB, tasks by models by seeds by arms."""
    draw, made = random.Random(3), 0
    for task in range(count):
        for model in MODELS:
            for seed in SEEDS:
                for arm in ARMS:
                    if made == count:
                        return
                    yield _row(made, f"task/{task:06d}", model, seed, arm, draw)
                    made += 1


def _row(number: int, task: str, model: str, seed: int, arm: str, draw: random.Random) -> dict[str, Any]:
    good, declared, scored = draw.random() > 0.4, draw.random() > 0.2, draw.random() > 0.005
    outcome = f"{'shipped' if declared else 'withheld'}_{'good' if good else 'bad'}" if scored else "unscored"
    config = {
        "arm": {"name": arm, "description": f"what {arm} composes, in a sentence", "stream": 0},
        "gate": {part: {"_target_": "package.module.Part", "name": part, "binding": True, "note": "x" * 90}
                 for part in ("checks", "traps", "hardening", "boundary", "adversary", "governor")},
        "controller": {"name": "gate", "preamble": "y" * 200},
    }  # fmt: skip
    return {
        "identity": {
            "schema": 1, "cell_id": hashlib.sha256(str(number).encode()).hexdigest()[:16], "plan_hash": HASH,
            "experiment": "bench", "benchmark": "drawn", "task_id": task, "arm": arm, "model": model,
            "agent": "claude_code", "simulated": True, "budget": "60k", "seed": seed, "attempt": 1, "order": number,
        },
        "declaration": {"declared_done": declared, "declaration_source": "gate", "stop_reason": "gate_green"},
        "gate": {
            "outcome": "GREEN" if declared else "RED", "config": config, "claims": 3, "traps": 4,
            "rejections": int(not declared), "tier": "trap_hardened", "boundary": {"mode": "mount", "violations": 0},
            "hardening": None, "adversary": None, "governor": None, "challenge_events": [],
        },
        "verdict": {
            "oracle_verdict": ("pass" if good else "fail") if scored else "unscored",
            "reason": None if scored else "infra", "detail": "", "runs": 1, "flake_rate": 0.0,
            "tests_passed": 7, "tests_total": 9, "retried": False,
        },
        "derived": {"false_done": declared and not good if scored else None, "outcome": outcome},
        "usage": {
            "tokens_in": draw.randint(10_000, 900_000), "tokens_out": draw.randint(100, 9_000), "tokens_cached": None,
            "cost_usd": draw.random(), "cost_source": "priced", "steps": 4, "cycles": 1 + int(not declared),
            "agent_wall_s": draw.random() * 90, "gate_wall_s": 0.1, "oracle_wall_s": 0.05, "wall_s": 91.5,
        },
        "provenance": {
            "git_commit": "c" * 40, "git_dirty": None, "dependency_hash": HASH,
            "config_hash": hashlib.sha256(f"{arm}{model}{seed}".encode()).hexdigest(), "dataset_revision": "1",
            "dataset_hash": HASH, "oracle_env_hash": HASH, "exclusions_hash": None, "adapter_version": "1",
            "model_served": f"{model}-2026", "host": {"cpus": 2, "platform": "Linux", "memory_bytes": 8 << 30},
        },
        "attestation": {
            "agent_sandbox": "docker", "network": "allowed hosts", "boundary": "mount", "oracle_isolation": "docker",
            "image_digest": f"sha256:{HASH}", "leak_scan": "clean", "submission_hash": HASH,
            "capture": {"solution.py": "ok"},
        },
    }  # fmt: skip


def make_run(outputs: Path, count: int) -> Path:
    """A run directory with its plan and its ledger."""
    import yaml

    from recurve_eval.domain import canonical_json
    from recurve_eval.frozen import sealed
    from recurve_eval.ledger import row_seal

    run_dir = outputs / "bench" / HASH[:16]
    run_dir.mkdir(parents=True)
    study = {"name": "bench", "primary": {"baseline": "A0", "treatment": "A3"}, "contrasts": [],
             "noise_floor": {"baseline": "A0", "treatment": "A0b"}}  # fmt: skip
    plan = {"plan_hash": HASH, "experiment": "bench", "cells": count, "study": study, "conditions": [],
            "analysis": {"resamples": 10_000, "figures": False}}  # fmt: skip
    (run_dir / "plan.yaml").write_text(sealed(yaml.safe_dump(plan, sort_keys=False)), encoding="utf-8")
    spec = {"target": "recurve_eval.tracking.mlflow.MlflowTracker", "options": {}}
    (run_dir / "tracking.json").write_text(json.dumps(spec), encoding="utf-8")
    with (run_dir / "results.jsonl").open("wb") as file:
        for row in rows(count):
            text = canonical_json(row).encode()
            cell = row["identity"]["cell_id"]
            file.write(b'{"cell_id":"%s","seal":"%s","row":%s}\n' % (cell.encode(), row_seal(text).encode(), text))
    return run_dir


def fill_mlflow(outputs: Path, run_dir: Path) -> None:
    """MLflow's database as the mirror leaves it, written in bulk: one run a cell costs the client 20 ms."""
    from sqlalchemy import create_engine, insert

    from recurve_eval.ledger import read_rows
    from recurve_eval.tracking.encoding import CELL_TAG, labels_of, metrics_of, row_tags
    from recurve_eval.tracking.follower import load_tracker
    from recurve_eval.tracking.study import read_plan

    tracker: Any = load_tracker(run_dir)
    tracker.open_study(run_dir, read_plan(run_dir))
    parent, experiment = tracker.parent_run()
    tracker.close("FINISHED")
    from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag

    engine = create_engine(f"sqlite:///{outputs / 'mlflow.db'}")
    batch: dict[Any, list[dict[str, Any]]] = {SqlRun: [], SqlTag: [], SqlMetric: [], SqlLatestMetric: [], SqlParam: []}
    with engine.begin() as connection:
        for number, row in enumerate(read_rows(run_dir), 1):
            run = hashlib.md5(row["identity"]["cell_id"].encode()).hexdigest()
            tags = {"mlflow.parentRunId": parent, "recurve.kind": "cell", **labels_of(row), **row_tags(row)}
            batch[SqlRun].append({"run_uuid": run, "name": tags[CELL_TAG], "status": "FINISHED", "start_time": number,
                                  "lifecycle_stage": "active", "experiment_id": int(experiment)})  # fmt: skip
            batch[SqlTag] += [{"key": k, "value": v, "run_uuid": run} for k, v in tags.items()]
            numbers = metrics_of(row)
            batch[SqlMetric] += [{"key": k, "value": v, "run_uuid": run, "timestamp": 1, "step": 0, "is_nan": False}
                                 for k, v in numbers.items()]  # fmt: skip
            batch[SqlLatestMetric] += [dict(m) for m in batch[SqlMetric][-len(numbers) :]]
            batch[SqlParam] += [{"key": f"group.key{n}", "value": "some value", "run_uuid": run} for n in range(25)]
            if number % 2000 == 0:
                _flush(connection, batch, insert)
        _flush(connection, batch, insert)


def _flush(connection: Any, batch: dict[Any, list[dict[str, Any]]], insert: Any) -> None:
    for table, found in batch.items():
        if found:
            connection.execute(insert(table), found)
            found.clear()


def _measured(*words: str) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory (MiB) of one analysis in a process of its own."""
    script = (
        "import resource, sys; from recurve_eval.__main__ import main; code = main(['analyze', *sys.argv[1:]]);"
        "print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
    )
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode not in (0, 4):
        raise SystemExit(done.stderr)
    for line in done.stderr.splitlines():
        if not line.startswith("PEAK"):
            print(f"    {line}")
    return seconds, worked, int(done.stderr.rpartition("PEAK ")[2]) / 1024


def _parse_only(run_dir: Path) -> float:
    """Processor seconds to parse the rows and do nothing with them."""
    start = time.process_time()
    with (run_dir / "results.jsonl").open("rb") as file:
        for line in file:
            json.loads(line)
    return time.process_time() - start


def _bootstrap() -> float:
    import numpy as np

    from recurve_eval.stats import resampled_sums

    columns = np.random.default_rng(0).random((1000, 11))
    start = time.process_time()
    resampled_sums(columns, resamples=10_000)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--no-mlflow", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        outputs = Path(place) / "outputs"
        run_dir = make_run(outputs, options.rows)
        parse = _parse_only(run_dir)
        print(
            f"{options.rows} rows, {(run_dir / 'results.jsonl').stat().st_size >> 20} MiB; json.loads alone {parse:.1f} s"
        )
        _say("analyze --source ledger", parse, *_measured("--source", "ledger", "--no-log", str(run_dir)))
        if not options.no_mlflow:
            fill_mlflow(outputs, run_dir)
            print(f"mlflow.db {(outputs / 'mlflow.db').stat().st_size >> 20} MiB")
            _say("analyze (MLflow, held against the ledger)", parse, *_measured("--no-log", str(run_dir)))
            address = f"sqlite:///{outputs / 'mlflow.db'}"
            into = str(Path(place) / "elsewhere")
            words = ("--uri", address, "--from", "bench", "--outputs", place, "--into", into)
            _say("analyze --from an experiment, without a ledger", parse, *_measured(*words))
    print(f"bootstrap of 10,000 resamples x 1,000 tasks x 11 arms: {_bootstrap():.2f} s")
    print(f"peak memory of this script {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


def _say(what: str, parse: float, seconds: float, worked: float, mib: float) -> None:
    ratio = f"{worked / parse:4.1f} x json.loads"
    print(f"{what:<48} {seconds:6.1f} s, of the processor {worked:5.1f} s = {ratio}, {mib:5.0f} MiB")


if __name__ == "__main__":
    main()
