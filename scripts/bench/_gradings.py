"""What `oracle.py` grades, and what it compares with: the same work without isolation, or by a container each."""

from __future__ import annotations

import ast
import gzip
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from recurve_eval.benchmarks.humaneval import HumanEval
from recurve_eval.domain import OracleJob, Submission
from recurve_eval.oracle.docker import DockerOracle
from recurve_eval.oracle.process import ProcessOracle

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("RECURVE_DATA", ROOT.parent / "shared" / "data"))
PACKAGES = "/usr/local/lib/python3.11/dist-packages"
THE_TWO = ("numpy", "pandas")
DECLARED = tuple(yaml.safe_load((ROOT / "conf" / "task" / "bigcodebench.yaml").read_text())["preload"])
TRIVIAL = OracleJob(
    task_id="trivial", submission=Submission.of_reference("canonical", {"solution.py": b"def f(x):\n    return x + 1\n"}),
    held_out={"c.py": b"def check(candidate):\n    assert candidate(1) == 2\n"}, convention="check",
    params={"module": "solution", "entry_point": "f"}, expected=("check",),
)  # fmt: skip


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


_PLAIN = """
import json, os, sys, time
jobs, forks = json.load(sys.stdin)

def run(solution, test, entry):
    names = {}
    exec(solution, names)
    exec(test, names)
    names["check"](names[entry])

took = []
for job in jobs:
    started = time.perf_counter()
    if forks:
        pid = os.fork()
        if pid == 0:
            try:
                run(*job)
                os._exit(0)
            except BaseException:
                os._exit(1)
        if os.waitpid(pid, 0)[1]:
            sys.exit("a canonical solution failed")
    else:
        run(*job)
    took.append(time.perf_counter() - started)
print(json.dumps(took))
"""


def plainly(jobs: list[OracleJob], forks: bool) -> list[float]:
    """Seconds of each task without any isolation in a small interpreter: with a fork each, or all in one process."""
    plain = [
        [job.submission.contents["solution.py"].decode(), next(iter(job.held_out.values())).decode(),
         job.params["entry_point"]]
        for job in jobs
    ]  # fmt: skip
    answer = subprocess.run(
        [ProcessOracle().interpreter(), "-I", "-S", "-c", _PLAIN], input=json.dumps([plain, forks]),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    took: list[float] = json.loads(answer.stdout.splitlines()[-1])
    return took


def containers(image: str) -> tuple[float, float]:
    """Seconds of the trivial grading by `docker exec` into a running container, and by `docker run`."""
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
    return into, run


def _quiet(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


# -- numpy and pandas tasks ----------------------------------------------------------------------


def sci() -> DockerOracle:
    return DockerOracle(
        recipe="python-sci", paths=[PACKAGES], memory_mb=16384, processes=96, file_mb=256, concurrency=1
    )


def scientific(count: int) -> list[OracleJob]:
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
        expected=_ids(test), preload=THE_TWO, timeout_s=60.0,
    )  # fmt: skip


def _ids(test: str) -> tuple[str, ...]:
    return tuple(
        f"{node.name}.{method.name}"
        for node in ast.parse(test).body if isinstance(node, ast.ClassDef)
        for method in node.body if isinstance(method, ast.FunctionDef) and method.name.startswith("test")
    )  # fmt: skip


_WARM = """
import importlib, json, os, sys, tempfile, time, unittest, types
sys.path.append({packages!r})
for name in {preload!r}:
    importlib.import_module(name)
jobs, rounds = json.load(sys.stdin)
found = {{}}
for name, code, test in jobs:
    for _ in range(rounds):
        reading, writing = os.pipe()
        os.environ["HOME"] = tempfile.mkdtemp()  # no task finds what another has cached
        begun = time.perf_counter()
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
        took = float(os.read(reading, 64)), time.perf_counter() - begun
        os.close(reading), os.close(writing)
        found[name] = min(took, found.get(name, took))
print(json.dumps(found))
"""


def own_time(jobs: list[OracleJob], rounds: int) -> dict[str, tuple[float, float]]:
    """Loading a solution and running its tests in an interpreter that has imported the libraries, in the same image.

    Seconds without and with the fork and the end of the process that this is done in.
    """
    image = sci().image_digest()
    sources = [
        [j.task_id, j.submission.contents["solution.py"].decode(), next(iter(j.held_out.values())).decode()]
        for j in jobs
    ]
    answer = subprocess.run(
        ["docker", "run", "-i", "--rm", "--network", "none", "-e", "MPLBACKEND=Agg", "-e", "OMP_NUM_THREADS=1",
         "-e", "OPENBLAS_NUM_THREADS=1", image, "python3", "-I", "-S", "-c", _WARM.format(packages=PACKAGES, preload=jobs[0].preload)],
        input=json.dumps([sources, rounds]), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if answer.returncode:
        raise SystemExit(f"the reference run failed: {answer.stderr[-500:]}")
    found: dict[str, tuple[float, float]] = json.loads(answer.stdout.splitlines()[-1])
    return found
