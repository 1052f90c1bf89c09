#!/usr/bin/env python3
"""What a grading costs on each backend, beside the same work without isolation and by a container each.

HumanEval's canonical solutions with full isolation and canaries; a trivial grading beside `docker exec` and
`docker run`; two workers beside one; and BigCodeBench's numpy and pandas tasks beside their own time in a
warm interpreter. What is compared is run in turn, round by round. HumanEval's ratios are taken within a round, and the
median of them counts: a machine that is slow for a while slows both sides, and no best of one side meets the best of
another. Of what is shorter the best round counts. Backends that this machine lacks are left out, by name. Every aim is
printed with what was reached.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from _gradings import DECLARED, TRIVIAL, containers, humaneval, own_time, plainly, sci, scientific, timed

from recurve_eval.domain import OracleJob, OracleVerdict
from recurve_eval.oracle.bubblewrap import BubblewrapOracle
from recurve_eval.oracle.docker import DockerOracle
from recurve_eval.oracle.process import ProcessOracle
from recurve_eval.oracle.warm import WarmOracle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the median or the best counts")
    parser.add_argument("--bigcodebench", type=int, default=40, help="numpy and pandas tasks; 0 leaves them out")
    parser.add_argument("--enforce", action="store_true", help="exit 1 where an aim is missed")
    options = parser.parse_args()
    print(f"machine: {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    table = Table()
    measured = [Measured(name, oracle) for name, oracle in backends().items() if usable(name, oracle)]
    gradings(measured, options.rounds, table)
    for each in measured:
        if each.name == "docker":
            beside_containers(each, table)
    if options.bigcodebench and usable("docker on python-sci", sci()):
        bigcodebench(options.bigcodebench, options.rounds, table)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}; more than the processors would mean a busy machine")
    missed = table.close()
    sys.exit(1 if missed and options.enforce else 0)


@dataclass
class Table:
    """The aims and what was reached of them."""

    aims: list[tuple[str, float, str, float, bool]] = field(default_factory=list)

    def at_most(self, what: str, reached: float, aim: float) -> None:
        self.aims.append((what, reached, "at most", aim, reached <= aim))

    def at_least(self, what: str, reached: float, aim: float) -> None:
        self.aims.append((what, reached, "at least", aim, reached >= aim))

    def close(self) -> list[str]:
        """Print them; return those that were missed."""
        print(f"\n{'aim':62}{'reached':>9}   wanted")
        for what, reached, how, aim, met in self.aims:
            print(f"{what:62}{reached:9.2f}   {how} {aim:g}{'' if met else '   MISSED'}")
        missed = [what for what, *_, met in self.aims if not met]
        print(f"{len(self.aims) - len(missed)} of {len(self.aims)} aims are reached")
        return missed


@dataclass
class Measured:
    """One backend with one worker and with two.

    ``rounds`` holds, of each round, the seconds of a bare fork per task just before and after (their mean), of one worker
    and of two; ``trivial`` and ``processor`` are the best so far, in seconds.
    """

    name: str
    oracle: WarmOracle
    rounds: list[tuple[float, float, float]] = field(default_factory=list)
    trivial: float = float("inf")
    processor: float = float("inf")
    starts: tuple[int, int] = (0, 0)

    @property
    def by_fork(self) -> float:
        return statistics.median(single / bare for bare, single, _ in self.rounds)

    @property
    def by_two(self) -> float:
        return statistics.median(single / double for _, single, double in self.rounds)

    def middle(self, which: int) -> float:
        return statistics.median(each[which] for each in self.rounds)

    def open(self, jobs: list[OracleJob]) -> None:
        self.one, self.two = replace(self.oracle, concurrency=1), replace(self.oracle, concurrency=2)
        for oracle, workers in ((self.one, 1), (self.two, 2)):
            oracle.start(workers)
            grade_all(oracle, jobs, workers)

    def round(self, jobs: list[OracleJob]) -> None:
        before = sum(plainly(jobs, forks=True))
        used = processor_time(self.one)
        single = timed(lambda: grade_all(self.one, jobs, 1))
        self.processor = min(self.processor, processor_time(self.one) - used)
        double = timed(lambda: grade_all(self.two, jobs, 2))
        self.rounds.append(((before + sum(plainly(jobs, forks=True))) / 2, single, double))
        trivial = statistics.median(timed(lambda: self.one.grade(TRIVIAL)) for _ in range(50))
        self.trivial = min(self.trivial, trivial)

    def close(self) -> None:
        self.starts = (self.one._pools[0].starts, self.two._pools[0].starts)
        self.one.close()
        self.two.close()


def backends() -> dict[str, WarmOracle]:
    return {"process": ProcessOracle(), "bubblewrap": BubblewrapOracle(), "docker": DockerOracle(recipe="python-min")}


def usable(name: str, oracle: WarmOracle) -> bool:
    lack = oracle.check()
    if lack:
        print(f"{name} is left out: {lack}")
    return lack is None


def grade_all(oracle: WarmOracle, jobs: list[OracleJob], workers: int) -> None:
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(lambda job: grade(oracle, job), jobs))


def grade(oracle: WarmOracle, job: OracleJob) -> None:
    seen = oracle.grade(job)
    if seen.verdict is not OracleVerdict.PASS:
        raise SystemExit(f"{job.task_id} is graded {seen.verdict}: {seen.detail}")


def processor_time(oracle: WarmOracle) -> float:
    """Seconds that the servers and everything they ended have used."""
    servers = [psutil.Process(pid) for pid in oracle._pools[0].pids()]
    return sum(sum(each.cpu_times()[:4]) for server in servers for each in (server, *server.children(recursive=True)))


def gradings(measured: list[Measured], rounds: int, table: Table) -> None:
    jobs = humaneval()
    inside = []
    for each in measured:
        each.open(jobs)
    for _ in range(rounds):
        inside.append(sum(plainly(jobs, forks=False)))
        for each in measured:
            each.round(jobs)
    print(
        f"\n{len(jobs)} HumanEval canonical gradings      seconds  bare fork s  x bare fork  processor s  2 workers s  1 by 2"
        "  starts"
    )
    print(f"in one process, no isolation        {statistics.median(inside):8.2f}")
    for each in measured:
        each.close()
        print(
            f"{each.name:36}{each.middle(1):8.2f} {each.middle(0):12.2f} {each.by_fork:12.2f} {each.processor:12.2f}"
            f" {each.middle(2):12.2f} {each.by_two:7.2f}  {each.starts[0]} and {each.starts[1]}"
        )
    for each in measured:
        if each.name == "docker":
            table.at_most("HumanEval on docker, 1 worker, by a bare fork per task", each.by_fork, 1.5)
            table.at_least("two workers on docker, by one", each.by_two, 1.7)
            table.at_most("containers started by one worker", each.starts[0], 1)
            table.at_most("containers started by two workers", each.starts[1], 2)
    print(
        "processor s counts all that the servers used; where it exceeds the seconds, work went on beside the grading:"
    )
    print("the children of the next grading are made while the last one is wiped and answered, on a second processor.")


def beside_containers(docker: Measured, table: Table) -> None:
    into, run = containers(str(docker.oracle.image_digest()))
    trivial = docker.trivial
    print("\na trivial grading                        ms   x ours")
    print(f"docker, warm                       {1000 * trivial:8.2f} {1:8.1f}")
    print(f"docker exec                        {1000 * into:8.2f} {into / trivial:8.1f}")
    print(f"docker run                         {1000 * run:8.2f} {run / trivial:8.1f}")
    table.at_least("docker run by a trivial grading (hoped for: 100)", run / trivial, 50)
    table.at_least("docker exec by a trivial grading (hoped for: 25)", into / trivial, 15)


def bigcodebench(count: int, rounds: int, table: Table) -> None:
    oracle = sci()
    oracle.start(1)
    print(f"\n{'BigCodeBench: tasks of numpy and pandas':44}tasks  graded s  own time s  with a bare fork s")
    jobs = [job for job in scientific(count) if passes(oracle, job)]
    ours, own, forked = beside_own_time(oracle, jobs, rounds)
    print(
        f"{'these two preloaded':44}{len(jobs):5} {ours:9.2f} {own:8.2f} {ours / own:.2f}x {forked:8.2f} {ours / forked:.2f}x"
    )
    table.at_most("numpy and pandas tasks, by their own time in a warm interpreter", ours / own, 1.2)
    jobs = [replace(job, preload=DECLARED) for job in jobs]
    ours, own, forked = beside_own_time(oracle, jobs, rounds)
    print(
        f"{'all that the benchmark declares preloaded':44}{len(jobs):5} {ours:9.2f} {own:8.2f} {ours / own:.2f}x {forked:8.2f} {ours / forked:.2f}x"
    )
    oracle.close()


def passes(oracle: WarmOracle, job: OracleJob) -> bool:
    grade = oracle.grade(job)
    if grade.verdict is not OracleVerdict.PASS:
        print(f"  {job.task_id} is left out: {grade.verdict} ({grade.detail[:80]})")
    return grade.verdict is OracleVerdict.PASS


def beside_own_time(oracle: WarmOracle, jobs: list[OracleJob], rounds: int) -> tuple[float, float, float]:
    """Seconds of all jobs: graded, the tests' own, and these with a fork and the end of a process each."""
    ours: dict[str, float] = {}
    theirs: dict[str, tuple[float, float]] = {}
    grade_all(oracle, jobs, 1)
    # In turn, so that a machine that slows down slows both.
    for _ in range(rounds):
        for job in jobs:
            took = timed(lambda job=job: oracle.grade(job))  # type: ignore[misc]
            ours[job.task_id] = min(took, ours.get(job.task_id, took))
        for task, both in own_time(jobs, 1).items():
            theirs[task] = min(both, theirs.get(task, both))
    return sum(ours.values()), sum(own for own, _ in theirs.values()), sum(whole for _, whole in theirs.values())


if __name__ == "__main__":
    main()
