#!/usr/bin/env python3
"""Planning 10,000 cells (164 tasks x 61 conditions, each composed by itself) against Hydra's own sweeper and launcher.

Hydra's BasicSweeper composes every job and its BasicLauncher composes it again; that is measured on a
sample of jobs of the same configuration and scaled, because the whole would take most of an hour.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _tasks import write_tasks

TASKS, CONDITIONS = 164, 61
COMMON = ("task=directory", "sandbox=process", "oracle=process", "tracking=none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=40, help="jobs to compose Hydra's way")
    sample = parser.parse_args().sample
    with tempfile.TemporaryDirectory() as place:
        tasks = write_tasks(Path(place) / "tasks", TASKS)
        words = [*COMMON, f"task.path={tasks}"]
        ours = _timed([sys.executable, "-m", "recurve_eval", "plan", *words, f"agent.seed=range({CONDITIONS})"], place)
        few = _timed(_hydra(words, 2), place)
        many = _timed(_hydra(words, 2 + sample), place)
    jobs = TASKS * CONDITIONS
    theirs = few + (many - few) / sample * (jobs - 2)
    print(f"plan {jobs} cells: {ours:.1f} s; Hydra's sweeper and launcher, scaled from {sample} jobs: {theirs:.0f} s")
    print(f"ratio 1/{theirs / ours:.0f} (aim: 1/20)")


def _hydra(words: list[str], jobs: int) -> list[str]:
    program = (
        "import hydra; from recurve_eval.resources import conf_dir\n"
        "hydra.main(version_base='1.3', config_path=str(conf_dir()), config_name='config')(lambda cfg: None)()"
    )
    plain = ["hydra/sweeper=basic", "hydra/launcher=basic", "hydra.sweep.subdir=${hydra.job.num}"]
    return [sys.executable, "-c", program, *words, *plain, f"seed=range({jobs})"]


def _timed(command: list[str], place: str) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
