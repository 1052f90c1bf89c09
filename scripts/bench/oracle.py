#!/usr/bin/env python3
"""What a grading costs on each backend, as ratios to a bare fork per task in the same run.

HumanEval's canonical solutions with full isolation and canaries; a trivial grading beside `docker exec` and
`docker run`; two workers beside one; and BigCodeBench's numpy and pandas tasks beside their own time in a
warm interpreter. Backends that this machine lacks are left out, by name.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from recurve_eval.benchmarks.humaneval import HumanEval
from recurve_eval.domain import OracleJob, OracleVerdict, Submission
from recurve_eval.oracle.bubblewrap import BubblewrapOracle
from recurve_eval.oracle.docker import DockerOracle
from recurve_eval.oracle.process import ProcessOracle
from recurve_eval.oracle.warm import WarmOracle

DATA = Path(os.environ.get("RECURVE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
PACKAGES = "/usr/local/lib/python3.11/dist-packages"
TRIVIAL = OracleJob(
    task_id="trivial", submission=Submission.of_reference("canonical", {"solution.py": b"def f(x):\n    return x + 1\n"}),
    held_out={"c.py": b"def check(candidate):\n    assert candidate(1) == 2\n"}, convention="check",
    params={"module": "solution", "entry_point": "f"}, expected=("check",),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds; every figure is the best of them")
    parser.add_argument("--bigcodebench", type=int, default=40, help="numpy and pandas tasks; 0 leaves them out")
    options = parser.parse_args()
    jobs = humaneval()
    print(f"machine: {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    available = {name: oracle for name, oracle in backends().items() if usable(name, oracle)}
    bare = forks(jobs, options.rounds)
    print(f"\n{len(jobs)} HumanEval canonical gradings    seconds   x bare fork   trivial ms   2 workers x")
    print(f"bare fork per task                 {bare:8.2f}      1.00")
    trivial = {}
    for name, oracle in available.items():
        trivial[name] = report(name, oracle, jobs, bare, options.rounds)
    again = forks(jobs, options.rounds)
    print(f"bare fork per task, once more      {again:8.2f}  {again / bare:8.2f}")
    if "docker" in available:
        containers(trivial["docker"])
    if options.bigcodebench and usable("docker sci", sci()):
        bigcodebench(options.bigcodebench, options.rounds)
    print(f"load at the end {os.getloadavg()[0]:.1f}: above the number of processors the ratios are of a busy machine")


def backends() -> dict[str, WarmOracle]:
    return {"process": ProcessOracle(), "bubblewrap": BubblewrapOracle(), "docker": DockerOracle(recipe="python-min")}


def sci() -> DockerOracle:
    return DockerOracle(recipe="python-sci", paths=[PACKAGES], memory_mb=16384, processes=96, file_mb=256)


def usable(name: str, oracle: WarmOracle) -> bool:
    lack = oracle.check()
    if lack:
        print(f"{name} is left out: {lack}")
    return lack is None


def best(rounds: int, action: Callable[[], float]) -> float:
    return min(action() for _ in range(rounds))


def timed(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def humaneval() -> list[OracleJob]:
    benchmark = HumanEval(path=str(DATA / "humaneval" / "HumanEval.jsonl.gz"))
    return [
        benchmark.oracle_job(task, Submission.of_reference("canonical", benchmark.solutions(task).canonical))
        for task in benchmark.task_ids()
    ]


_FORKS = """
import json, os, sys, time
jobs, rounds = json.load(sys.stdin)
best = None
for _ in range(rounds):
    started = time.perf_counter()
    for solution, test, entry in jobs:
        pid = os.fork()
        if pid == 0:
            try:
                names = {}
                exec(solution, names)
                exec(test, names)
                names["check"](names[entry])
                os._exit(0)
            except BaseException:
                os._exit(1)
        if os.waitpid(pid, 0)[1]:
            sys.exit("a canonical solution failed")
    took = time.perf_counter() - started
    best = took if best is None else min(best, took)
print(best)
"""


def forks(jobs: list[OracleJob], rounds: int) -> float:
    """One fork a task from a small interpreter, without any isolation: what there is to pay for in any case."""
    plain = [
        [
            j.submission.contents["solution.py"].decode(),
            next(iter(j.held_out.values())).decode(),
            j.params["entry_point"],
        ]
        for j in jobs
    ]
    interpreter = ProcessOracle().interpreter()
    answer = subprocess.run(
        [interpreter, "-I", "-S", "-c", _FORKS],
        input=json.dumps([plain, rounds]),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(answer.stdout)


def report(name: str, oracle: WarmOracle, jobs: list[OracleJob], bare: float, rounds: int) -> float:
    one = replace(oracle, concurrency=1)
    one.start(1)
    grade_all(one, jobs, 1)
    single = best(rounds, lambda: timed(lambda: grade_all(one, jobs, 1)))
    trivial = best(rounds, lambda: statistics.median(timed(lambda: one.grade(TRIVIAL)) for _ in range(100)))
    starts = one._pools[0].starts
    one.close()
    two = replace(oracle, concurrency=2)
    two.start(2)
    grade_all(two, jobs[:20], 2)
    double = best(rounds, lambda: timed(lambda: grade_all(two, jobs, 2)))
    starts = max(starts, two._pools[0].starts)
    two.close()
    print(
        f"{name:34} {single:8.2f}  {single / bare:8.2f}    {1000 * trivial:8.2f}     {single / double:8.2f}"
        f"    (servers started: {starts})"
    )
    return trivial


def grade_all(oracle: WarmOracle, jobs: list[OracleJob], workers: int) -> None:
    with ThreadPoolExecutor(workers) as threads:
        for job, grade in zip(jobs, threads.map(oracle.grade, jobs), strict=True):
            if grade.verdict is not OracleVerdict.PASS:
                raise SystemExit(f"{job.task_id} is graded {grade.verdict}: {grade.detail}")


def containers(trivial: float) -> None:
    """The same trivial grading by a container each, and by `docker exec` into a running one."""
    image = DockerOracle(recipe="python-min").image_digest()
    script = "def f(x):\n    return x + 1\nassert f(1) == 2\n"
    isolated = ["--network", "none", "--read-only", "--cap-drop", "ALL", "--user", "65534"]
    run = statistics.median(
        timed(lambda: _quiet("docker", "run", "--rm", *isolated, image, "python3", "-I", "-c", script))
        for _ in range(5)
    )
    held = _quiet("docker", "run", "-d", "--rm", *isolated, image, "python3", "-c", "import time; time.sleep(600)")
    try:
        into = statistics.median(
            timed(lambda: _quiet("docker", "exec", held, "python3", "-I", "-c", script)) for _ in range(10)
        )
    finally:
        _quiet("docker", "kill", held)
    print(f"\ntrivial grading, docker: {1000 * trivial:.2f} ms; docker exec {1000 * into:.0f} ms ({into / trivial:.0f} x), "
          f"docker run {1000 * run:.0f} ms ({run / trivial:.0f} x)")  # fmt: skip


def _quiet(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


# -- numpy and pandas tasks ----------------------------------------------------------------------


def bigcodebench(count: int, rounds: int) -> None:
    jobs = _scientific(count)
    oracle = replace(sci(), concurrency=1)
    oracle.start(1)
    gradings: dict[str, float] = {}
    for job in jobs:
        grade = oracle.grade(job)
        if grade.verdict is not OracleVerdict.PASS:
            print(f"  {job.task_id} is left out: {grade.verdict} ({grade.detail[:80]})")
            continue
        gradings[job.task_id] = best(rounds, lambda job=job: timed(lambda: oracle.grade(job)))  # type: ignore[misc]
    oracle.close()
    own = _own_time([job for job in jobs if job.task_id in gradings], rounds)
    total, theirs = sum(gradings.values()), sum(own.values())
    print(f"\n{len(gradings)} numpy and pandas tasks of BigCodeBench: {total:.2f} s graded, {theirs:.2f} s in a warm "
          f"interpreter without isolation ({total / theirs:.2f} x)")  # fmt: skip


def _scientific(count: int) -> list[OracleJob]:
    with gzip.open(DATA / "bigcodebench" / "BigCodeBench.hf_data.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    wanted = []
    for row in rows:
        libraries = row["libs"] if isinstance(row["libs"], list) else json.loads(row["libs"].replace("'", '"'))
        used = set(libraries)
        if used & {"numpy", "pandas"} and used <= {"numpy", "pandas", "random", "collections", "itertools", "math"}:
            wanted.append(row)
    return [_job(row) for row in wanted[:count]]


def _job(row: dict[str, Any]) -> OracleJob:
    code = row["complete_prompt"] + "\n" + row["canonical_solution"]
    test = "import solution\nfrom solution import *\nfrom solution import task_func\n" + row["test"]
    return OracleJob(
        task_id=row["task_id"], submission=Submission.of_reference("canonical", {"solution.py": code.encode()}),
        held_out={"test_task.py": test.encode()}, convention="unittest", params={"module": "solution"},
        expected=_ids(test), preload=("numpy", "pandas"), timeout_s=60.0,
    )  # fmt: skip


def _ids(test: str) -> tuple[str, ...]:
    import ast

    return tuple(
        f"{node.name}.{method.name}"
        for node in ast.parse(test).body if isinstance(node, ast.ClassDef)
        for method in node.body if isinstance(method, ast.FunctionDef) and method.name.startswith("test")
    )  # fmt: skip


_WARM = """
import gc, json, os, sys, time, unittest, types
sys.path.append({packages!r})
import numpy, pandas
jobs, rounds = json.load(sys.stdin)
found = {{}}
for name, code, test in jobs:
    for _ in range(rounds):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.chdir("/tmp")
            started = time.perf_counter()
            solution = types.ModuleType("solution")
            sys.modules["solution"] = solution
            exec(compile(code, "solution.py", "exec"), solution.__dict__)
            module = types.ModuleType("held_out")
            exec(compile(test, "held_out.py", "exec"), module.__dict__)
            unittest.defaultTestLoader.loadTestsFromModule(module).run(unittest.TestResult())
            os.write(writing, b"%f" % (time.perf_counter() - started))
            os._exit(0)
        os.waitpid(pid, 0)
        took = float(os.read(reading, 64))
        os.close(reading), os.close(writing)
        found[name] = min(took, found.get(name, took))
print(json.dumps(found))
"""


def _own_time(jobs: list[OracleJob], rounds: int) -> dict[str, float]:
    """Loading a solution and running its tests in an interpreter that has imported the libraries, in the same image."""
    image = sci().image_digest()
    sources = [
        [j.task_id, j.submission.contents["solution.py"].decode(), next(iter(j.held_out.values())).decode()]
        for j in jobs
    ]
    answer = subprocess.run(
        ["docker", "run", "-i", "--rm", "--network", "none", "-e", "MPLBACKEND=Agg", "-e", "OMP_NUM_THREADS=1",
         "-e", "OPENBLAS_NUM_THREADS=1", image, "python3", "-I", "-S", "-c", _WARM.format(packages=PACKAGES)],
        input=json.dumps([sources, rounds]), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if answer.returncode:
        raise SystemExit(f"the reference run failed: {answer.stderr[-500:]}")
    found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
