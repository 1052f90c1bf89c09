#!/usr/bin/env python3
"""Resuming over 100,000 sealed rows: from process start to the first cell's agent."""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _tasks import write_tasks

TASKS = 164


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--sample", type=int, help=argparse.SUPPRESS)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        tasks = write_tasks(place / "tasks", TASKS)
        words = [
            "task=directory", f"task.path={tasks}", "sandbox=process", "oracle=process", "tracking=none", "agent=command",
            f"agent.command='date +%s.%N >> {place}/started; echo x=1 > solution.py'", "agent.paid=false", "model=unnamed",
            f"run.outputs={place}/outputs", f"seed=range({rows // TASKS + 1})", "run.analyze=false", "run.workers=1",
        ]  # fmt: skip
        _seal_all_but_one_seed(words, rows)
        started = time.time()
        run = subprocess.Popen([sys.executable, "-m", "recurve_eval", "run", *words], stderr=subprocess.DEVNULL)
        while not (place / "started").exists() or not (place / "started").read_text():
            assert run.poll() is None, "the run ended without a cell"
            time.sleep(0.005)
        took = float((place / "started").read_text().split()[0]) - started
        run.terminate()
        run.wait()
    print(f"resume over {rows} sealed rows: first agent after {took:.2f} s (aim: under 2 s)")


def _seal_all_but_one_seed(words: list[str], rows: int) -> None:
    """Freeze the plan and write a ledger of ``rows`` sealed rows, all copies of one real row but for their ids."""
    from recurve_eval import api
    from recurve_eval.domain import canonical_json
    from recurve_eval.execute.run import Run
    from recurve_eval.ledger import Ledger, _line

    study = api.plan([*words, "run.progress=none"])
    with Run(study, 1) as run:
        run.bench.start(1)
        template = copy.deepcopy(dict(run.bench.execute(run.pending[0])))
        with (run.dir / "results.jsonl").open("ab") as ledger:
            for cell in run.pending[1:rows]:
                template["identity"] |= {"cell_id": cell.cell_id, "order": cell.order, "seed": cell.at.seed}
                ledger.write(_line(cell.cell_id, canonical_json(template).encode()) + b"\n")
        Ledger(run.dir, study.plan.hash)  # a run writes its index as it goes; these rows came by another way
    (Path(words[6].split(">> ")[1].split(";")[0])).unlink()


if __name__ == "__main__":
    main()
