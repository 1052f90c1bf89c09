#!/usr/bin/env python3
"""How long an analysis takes from the ledger and from MLflow, and how much memory, at many rows.

The rows are drawn, not run: eleven arms, several models and seeds, sealed as the harness seals them. MLflow's store
is filled in bulk: the mirror itself sends one cell, whose run is then copied in SQL for each other row, with the
row's own tags and metrics. ``--store`` fills another database than a SQLite file (postgresql+psycopg2://...; it must
be empty), and ``--server`` has a tracking server of its own answer for it too. A time is shown beside what this
machine needs to parse the same rows as JSON, which is the ratio to compare; processor time says more than wall time
where other work runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
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


def make_run(outputs: Path, count: int, store: str) -> Path:
    """A run directory with its plan, the configuration of a real cell, and its ledger."""
    import yaml

    from recurve_eval import app
    from recurve_eval.compose import compose
    from recurve_eval.domain import canonical_json
    from recurve_eval.frozen import sealed
    from recurve_eval.ledger import row_seal

    run_dir = outputs / "bench" / HASH[:16]
    run_dir.mkdir(parents=True)
    with app.initialised():
        config = compose(["experiment=ladder", "arm=A10"])
    pins = {"benchmark": {"dataset_hash": HASH, "exclusions_hash": None}, "oracle": HASH}
    study = {"name": "bench", "primary": {"baseline": "A0", "treatment": "A3"}, "contrasts": [],
             "noise_floor": {"baseline": "A0", "treatment": "A0b"}}  # fmt: skip
    plan = {"plan_hash": HASH, "experiment": "bench", "cells": count, "study": study,
            "conditions": [{"index": 0, "config": json.loads(canonical_json(config)), "pins": pins}],
            "analysis": {"resamples": 10_000, "figures": False}}  # fmt: skip
    (run_dir / "plan.yaml").write_text(sealed(yaml.safe_dump(plan, sort_keys=False)), encoding="utf-8")
    spec = {"target": "recurve_eval.tracking.mlflow.MlflowTracker", "options": {"uri": store}}
    (run_dir / "tracking.json").write_text(json.dumps(spec), encoding="utf-8")
    with (run_dir / "results.jsonl").open("wb") as file, (run_dir / "matrix.jsonl").open("w") as matrix:
        for row in rows(count):
            text = canonical_json(row).encode()
            cell = row["identity"]["cell_id"]
            file.write(b'{"cell_id":"%s","seal":"%s","row":%s}\n' % (cell.encode(), row_seal(text).encode(), text))
            matrix.write(json.dumps({"cell_id": cell, "order": row["identity"]["order"], "condition": 0}) + "\n")
    return run_dir


def fill_mlflow(run_dir: Path, store: str) -> None:
    """The store as the mirror leaves it: one cell by the client, which needs 20 ms for each, the others by SQL."""
    import sqlalchemy as sa

    from recurve_eval.ledger import read_rows
    from recurve_eval.tracking.follower import load_tracker
    from recurve_eval.tracking.study import read_plan

    tracker: Any = load_tracker(run_dir)
    tracker.open_study(run_dir, read_plan(run_dir))
    others = iter(read_rows(run_dir))
    first = next(others)
    tracker.mirror([first])
    tracker.close("FINISHED")
    engine = sa.create_engine(store)
    tables = sa.MetaData()
    tables.reflect(engine, only=["runs", "tags", "metrics", "latest_metrics", "params"])
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA cache_size=-200000")
        _Copies(connection, tables.tables, first).make(others)


class _Copies:
    """Runs like that of one cell, for other rows."""

    def __init__(self, connection: Any, tables: Any, first: dict[str, Any]) -> None:
        import sqlalchemy as sa

        from recurve_eval.tracking.encoding import CELL_TAG

        self._connection, self._tables, self._sa = connection, tables, sa
        tags = tables["tags"]
        of = sa.select(tags.c.run_uuid).where(tags.c.key == CELL_TAG, tags.c.value == first["identity"]["cell_id"])
        self._like = connection.scalar(of)
        self._run = dict(connection.execute(self._of("runs")).mappings().one())
        self._tags = {t["key"]: t["value"] for t in connection.execute(self._of("tags")).mappings()}
        self._metric = dict(connection.execute(self._of("metrics").limit(1)).mappings().one())
        own = self._own(first)
        missing = own.keys() - self._tags.keys()
        if missing:
            raise SystemExit(f"the mirror does not write what this benchmark would: {sorted(missing)}")
        self._shared = {k: v for k, v in self._tags.items() if k not in own}

    def _of(self, table: str) -> Any:
        return self._sa.select(self._tables[table]).where(self._tables[table].c.run_uuid == self._like)

    def _own(self, row: dict[str, Any]) -> dict[str, str]:
        from recurve_eval.tracking.encoding import labels_of, row_tags

        return {**labels_of(row), **row_tags(row)}

    def make(self, others: Iterator[dict[str, Any]]) -> None:
        while batch := list(islice(others, 2000)):
            self._make(batch)
        params, runs = self._tables["params"], self._tables["runs"]
        both = params.join(runs, self._sa.true())
        crossed = (
            self._sa.select(params.c.key, params.c.value, runs.c.run_uuid)
            .select_from(both)
            .where(params.c.run_uuid == self._like, runs.c.name.like("copy of %"))
            .order_by(params.c.key, runs.c.run_uuid)  # as the table's index lies
        )
        self._connection.execute(params.insert().from_select(["key", "value", "run_uuid"], crossed))

    def _make(self, batch: list[dict[str, Any]]) -> None:
        from recurve_eval.tracking.encoding import metrics_of

        found: dict[str, list[dict[str, Any]]] = {"runs": [], "tags": [], "metrics": []}
        for row in batch:
            run = hashlib.md5(row["identity"]["cell_id"].encode()).hexdigest()
            where = self._run["artifact_uri"].replace(self._like, run)
            found["runs"].append({**self._run, "run_uuid": run, "name": f"copy of {self._like}", "artifact_uri": where})
            tags = {**self._shared, **self._own(row)}
            found["tags"] += [{"key": k, "value": v, "run_uuid": run} for k, v in tags.items()]
            numbers = metrics_of(row).items()
            found["metrics"] += [{**self._metric, "key": k, "value": v, "run_uuid": run} for k, v in numbers]
        for table, values in {**found, "latest_metrics": found["metrics"]}.items():
            self._connection.execute(self._tables[table].insert(), values)


@contextmanager
def served(store: str, place: Path) -> Iterator[str]:
    """The address of a tracking server over the store."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    words = ["--backend-store-uri", store, "--artifacts-destination", str(place / "artifacts"), "--workers", "1"]
    with (place / "server.log").open("wb") as log:
        command = [sys.executable, "-m", "mlflow", "server", *words, "--port", str(port)]
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        server = subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait(60)


def _measured(*words: str) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory (MiB) of one analysis in a process of its own."""
    script = (
        "import sys; from recurve_eval.__main__ import main; code = main(['analyze', *sys.argv[1:]]);"
        # not ru_maxrss, which a process inherits from the one that started it
        "peak = next(x for x in open('/proc/self/status') if x.startswith('VmHWM')).split()[1];"
        "print('PEAK', peak, file=sys.stderr); sys.exit(code)"
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
    parser.add_argument("--store", default="", help="an empty database to fill instead of a SQLite file")
    parser.add_argument("--server", action="store_true", help="also through a tracking server over that store")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        place = Path(text)
        store = options.store or f"sqlite:///{place / 'outputs' / 'mlflow.db'}"
        run_dir = make_run(place / "outputs", options.rows, store)
        parse = _parse_only(run_dir)
        size = (run_dir / "results.jsonl").stat().st_size >> 20
        print(f"{options.rows} rows, {size} MiB; json.loads alone {parse:.1f} s")
        _say("analyze --source ledger", parse, *_measured("--source", "ledger", "--no-log", str(run_dir)))
        if not options.no_mlflow:
            _through_mlflow(run_dir, store, place, parse, options.server)
    print(f"bootstrap of 10,000 resamples x 1,000 tasks x 11 arms: {_bootstrap():.2f} s")
    print(f"peak memory of this script {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


def _through_mlflow(run_dir: Path, store: str, place: Path, parse: float, server: bool) -> None:
    start = time.perf_counter()
    fill_mlflow(run_dir, store)
    size = f", {(run_dir.parents[1] / 'mlflow.db').stat().st_size >> 20} MiB" if store.startswith("sqlite") else ""
    print(f"{store.partition(':')[0]} filled in {time.perf_counter() - start:.0f} s{size}")
    elsewhere = ("--from", "bench", "--outputs", str(place / "none"), "--into", str(place / "elsewhere"))
    _say("analyze (MLflow, held against the ledger)", parse, *_measured("--no-log", str(run_dir)))
    _say("analyze --from an experiment, from its database", parse, *_measured("--uri", store, *elsewhere))
    if not server:
        return
    with served(store, place) as address:
        _say("analyze --from an experiment, runs of a server", parse, *_measured("--uri", address, *elsewhere))
        _say("analyze and log back", parse, *_measured(str(run_dir)))
        _say("analyze --from an experiment, rows' file of a server", parse, *_measured("--uri", address, *elsewhere))


def _say(what: str, parse: float, seconds: float, worked: float, mib: float) -> None:
    ratio = f"{worked / parse:4.1f} x json.loads"
    print(f"{what:<52} {seconds:6.1f} s, of the processor {worked:5.1f} s = {ratio}, {mib:5.0f} MiB")


if __name__ == "__main__":
    main()
