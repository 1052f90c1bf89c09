#!/usr/bin/env python3
"""Gradings a second for each benchmark, and the share of a grading that is not its tests.

Canonical solutions, one worker, warm. The tests' own time is that of the same sources in a child forked from a
plain interpreter (with the same libraries imported), without isolation, channel or canaries; for tests by
reference, both solutions on every input. Benchmarks whose data or image this machine lacks are left out, by name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval import app
from recurve_eval.domain import OracleJob, OracleVerdict, Submission
from recurve_eval.errors import RecurveError
from recurve_eval.exclusions import read_exclusions
from recurve_eval.oracle.docker import DockerOracle
from recurve_eval.oracle.protocol import encoded
from recurve_eval.oracle.warm import WarmOracle
from recurve_eval.ports import Benchmark

DATA = Path(os.environ.get("RECURVE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
MAIN = [
    ("demo", "process"),
    ("humaneval", "process"),
    ("evalplus_humaneval", "process"),
    ("bigcodebench_hard", "python-sci"),
]


@dataclass(frozen=True)
class Pair:
    """A benchmark and the oracle that grades it."""

    benchmark: Benchmark
    oracle: WarmOracle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=30, help="tasks of each benchmark, spread evenly")
    parser.add_argument(
        "--slowest", type=float, default=2.0, help="tasks whose tests take longer (seconds) are left out"
    )
    parser.add_argument("--only", nargs="*", help="names of benchmarks")
    options = parser.parse_args()
    os.environ.setdefault("RECURVE_DATA", str(DATA))
    print(f"load {os.getloadavg()[0]:.1f} at the start, {os.cpu_count()} processors")
    print(
        f"{'benchmark':22} {'oracle':12} {'tasks':>5} {'gradings/s':>10} {'tests alone/s':>13} {'outside the tests':>18}"
    )
    for task, oracle in MAIN:
        if not options.only or task in options.only:
            try:
                measure(task, pair(task, oracle), options.tasks, options.slowest)
            except RecurveError as error:
                print(f"{task} is left out: {error}")
    print(f"load {os.getloadavg()[0]:.1f} at the end; more than the processors would mean a busy machine")


def pair(task: str, oracle: str) -> Pair:
    with app.initialised():
        config = app.compose([f"task={task}", f"oracle={oracle}", "oracle.concurrency=1"])
        parts = Pair(app.instantiate(config["task"]), app.instantiate(config["oracle"]))
    lack = parts.oracle.check()
    if lack:
        raise RecurveError(lack)
    return parts


def measure(name: str, parts: Pair, count: int, slowest: float) -> None:
    jobs = canonical_jobs(parts.benchmark, count)
    own = own_times(parts.oracle, jobs)
    kept = [job for job in jobs if own.get(job.task_id) is not None and own[job.task_id] <= slowest]
    parts.oracle.start(1)
    try:
        took = {}
        for job in kept:
            parts.oracle.grade(job)
            started = time.perf_counter()
            grade = parts.oracle.grade(job)
            if grade.verdict is OracleVerdict.PASS:
                took[job.task_id] = time.perf_counter() - started
    finally:
        parts.oracle.close()
    total, tests = sum(took.values()), sum(own[task_id] for task_id in took)
    print(f"{name:22} {parts.oracle.name:12} {len(took):5} {len(took) / total:10.1f} {len(took) / tests:13.1f} "
          f"{max(0.0, 1 - tests / total):17.0%}")  # fmt: skip


def canonical_jobs(benchmark: Benchmark, count: int) -> list[OracleJob]:
    excluded = read_exclusions(benchmark.name).reasons
    ids = [task_id for task_id in benchmark.task_ids() if task_id not in excluded]
    return [
        benchmark.oracle_job(task_id, Submission.of_reference("canonical", benchmark.solutions(task_id).canonical))
        for task_id in ids[:: max(1, -(-len(ids) // count))]
    ]


# -- the tests alone -----------------------------------------------------------------------------

_ALONE = r"""
import base64, importlib, json, os, sys, tempfile, time, types, unittest
sys.path += json.loads(sys.argv[1])
jobs = json.load(sys.stdin)
for name in jobs[0]["preload"]:
    importlib.import_module(name)


def module(name, source):
    made = types.ModuleType(name)
    made.__file__ = name + ".py"
    sys.modules[name] = made
    exec(compile(source, name, "exec", dont_inherit=True), made.__dict__)
    return made


def suites(job, held, solution):
    loader = unittest.TestLoader()
    if job["convention"] == "namespace":
        exec(compile(*held.popitem()[::-1], "exec", dont_inherit=True), solution.__dict__)
        return loader.loadTestsFromTestCase(getattr(solution, job["params"]["case"]))
    return unittest.TestSuite(loader.loadTestsFromModule(module(k[:-3], v)) for k, v in sorted(held.items()))


def reference(job, held, solution):
    params, entry = job["params"], job["params"]["entry_point"]
    right, mine = getattr(module("reference", held[params["reference"] + ".py"]), entry), getattr(solution, entry)
    for _, file in params["groups"]:
        for line in held[file].splitlines():
            try:
                right(*json.loads(line)) == mine(*json.loads(line))
            except AssertionError:
                pass


def run(job):
    place = tempfile.mkdtemp()
    os.chdir(place)
    held = {k: base64.b64decode(v) for k, v in job["held_out"].items()}
    for path, content in job["files"].items():
        os.makedirs(os.path.dirname(os.path.join(place, path)), exist_ok=True)
        with open(os.path.join(place, path), "wb") as file:
            file.write(base64.b64decode(content))
    sys.path.insert(0, place)
    sys.stdout = sys.stderr = open(os.devnull, "w")
    started = time.perf_counter()
    solution = importlib.import_module(job["params"].get("module", "solution"))
    if job["convention"] == "check":
        module("held", held.popitem()[1]).check(getattr(solution, job["params"]["entry_point"]))
    elif job["convention"] == "reference":
        reference(job, held, solution)
    else:
        suites(job, held, solution).run(unittest.TestResult())
    return time.perf_counter() - started


found = {}
for job in jobs:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, b"%f" % run(job))
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    said = os.read(reading, 64)
    os.close(reading)
    if said:
        found[job["task_id"]] = float(said)
print(json.dumps(found))
"""


def own_times(oracle: WarmOracle, jobs: Sequence[OracleJob]) -> dict[str, float]:
    """Seconds of the tests alone, by task; a task that fails this way is left out."""
    words = [oracle.interpreter(), "-I", "-S", "-c", _ALONE, json.dumps(list(oracle.paths))]
    if isinstance(oracle, DockerOracle):
        environment = [
            word for pair in ("MPLBACKEND=Agg", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1") for word in ("-e", pair)
        ]
        words = ["docker", "run", "-i", "--rm", "--network", "none", *environment, oracle.image_digest(), *words]
    answer = subprocess.run(
        words, input=json.dumps([_plain(job) for job in jobs]), capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise SystemExit(f"the reference run failed: {answer.stderr[-500:]}")
    found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return found


def _plain(job: OracleJob) -> dict[str, Any]:
    return {
        "task_id": job.task_id, "convention": job.convention, "params": dict(job.params), "preload": list(job.preload),
        "files": encoded({**job.submission.contents, **job.support}), "held_out": encoded(job.held_out),
    }  # fmt: skip


if __name__ == "__main__":
    main()
