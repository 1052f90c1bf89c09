#!/usr/bin/env python3
"""What the harness costs a cell: a scripted agent that writes one file, a trivial grading, MLflow on.

One worker on the process backends. Reports wall time a cell by stage, early against late cells, and the
memory of the harness. The reference is a peer's 81 ms a sample (a no-op solver in its local sandbox).
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _tasks import write_tasks

PEER_MS = 81.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--tracking", default="mlflow")
    parser.add_argument("--sample", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    cells = options.cells
    import recurve_eval

    tasks = min(cells, 500)
    with tempfile.TemporaryDirectory() as place:
        words = [
            "task=directory", f"task.path={write_tasks(Path(place) / 'tasks', tasks)}", "sandbox=process", "oracle=process",
            "model.skill=1.0", f"run.outputs={place}/outputs", "run.workers=1", f"seed=range({cells // tasks})",
            "run.analyze=false", "run.mirror_timeout_s=3600", f"tracking={options.tracking}",
        ]  # fmt: skip
        handle = recurve_eval.submit(words)
        memory: list[float] = []
        marks: list[tuple[int, float]] = []
        while not handle.done():
            time.sleep(0.05)
            done = handle.progress().sealed
            if done >= len(marks) * max(1, cells // 10):
                marks.append((done, time.perf_counter()))
                memory.append(_memory_mb())
        report = handle.result()
        rows = recurve_eval.load(report.run_dir).rows
        _print(rows, marks, memory)


def _print(rows: list[dict[str, Any]], marks: list[tuple[int, float]], memory: list[float]) -> None:
    def mean(key: str, part: list[dict[str, Any]]) -> float:
        return 1000 * statistics.fmean(r["usage"][key] for r in part)

    rows.sort(key=lambda r: r["identity"]["order"])
    work = [r for r in rows if r["identity"]["order"] >= 10]
    wall = mean("wall_s", work)
    (first, began), (last, ended) = marks[1] if len(marks) > 2 else marks[0], marks[-1]
    each = 1000 * (ended - began) / max(1, last - first)
    print(
        f"{len(rows)} cells, one worker: {each:.1f} ms from cell to cell = 1/{PEER_MS / each:.1f} of the peer's {PEER_MS:.0f} ms"
    )
    print(
        f"  in the cell {wall:.1f} ms: agent {mean('agent_wall_s', work):.1f}, oracle {mean('oracle_wall_s', work):.1f}, "
        f"rest {wall - mean('agent_wall_s', work) - mean('oracle_wall_s', work):.1f}; outside (seal, hand-over) {each - wall:.1f}"
    )
    tenth = max(1, len(work) // 10)
    print(f"  first tenth {mean('wall_s', work[:tenth]):.1f} ms, last tenth {mean('wall_s', work[-tenth:]):.1f} ms")
    print(f"  memory of the harness {memory[min(1, len(memory) - 1)]:.0f} MB early, {memory[-1]:.0f} MB late")


def _memory_mb() -> float:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
