"""How fast an interception goes, and where its time goes: ratios within one run.

`python scripts/bench/intercept.py [MUTANTS A TASK]`: HumanEval's mutants through the warm oracle (two at once), the same
tests without any isolation, and the visible tests in the agent's sandbox beside a bare interpreter.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _gradings import DATA, humaneval, plainly, timed

from recurve_eval.benchmarks.humaneval import HumanEval
from recurve_eval.domain import OracleJob, Submission
from recurve_eval.mutation.mutants import mutants
from recurve_eval.oracle.bubblewrap import BubblewrapOracle
from recurve_eval.ports import Command
from recurve_eval.sandbox.bubblewrap import BubblewrapSandbox

WORKERS = 2
STARTS = 30


def jobs_of(count: int) -> list[OracleJob]:
    """Mutants that end by themselves: a time-out measures the limit and nothing else."""
    benchmark = HumanEval(path=str(DATA / "humaneval" / "HumanEval.jsonl.gz"))
    return [
        benchmark.oracle_job(task, Submission.of_reference("mutant", m.files))
        for task in benchmark.task_ids()
        for m in mutants(benchmark.solutions(task).canonical, count, 0, task)
        if "returns None" in m.kind
    ]


def graded(oracle: BubblewrapOracle, jobs: list[OracleJob]) -> float:
    with ThreadPoolExecutor(WORKERS) as pool:
        return timed(lambda: list(pool.map(oracle.grade, jobs)))


def sandboxed() -> tuple[float, float]:
    """Seconds of one start of the interpreter in the agent's sandbox, and bare."""
    sandbox = BubblewrapSandbox()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "workspace").mkdir()
        session = sandbox.open(place / "workspace", place / "scratch", "bench")
        inside = timed(lambda: [session.run(Command(("{python}", "-c", ""))) for _ in range(STARTS)])
        session.close()
    bare = timed(lambda: [subprocess.run([sandbox.interpreter, "-c", ""], check=True) for _ in range(STARTS)])
    return inside / STARTS, bare / STARTS


def main() -> None:
    jobs, canonical = jobs_of(int(sys.argv[1]) if len(sys.argv) > 1 else 4), humaneval()
    oracle = BubblewrapOracle(concurrency=WORKERS)
    oracle.start(WORKERS)
    oracle.grade(canonical[0])
    started = time.perf_counter()
    through, plain = graded(oracle, canonical), sum(plainly(canonical, forks=True)) / WORKERS
    wall = graded(oracle, jobs)
    oracle.close()
    inside, bare = sandboxed()
    print(f"mutants through the warm oracle: {len(jobs)} in {wall:.2f} s, {len(jobs) / wall:.0f} gradings a second")
    print(f"canonical solutions through it: {through:.2f} s; the same tests in plain forks: {plain:.2f} s")
    print(f"share of a grading's time outside the tests: {1 - plain / through:.0%}")
    print(f"a start in the agent's sandbox: {1000 * inside:.1f} ms, {inside / bare:.1f} times the bare interpreter's")
    print(f"in all {time.perf_counter() - started:.1f} s, {WORKERS} workers")


if __name__ == "__main__":
    main()
