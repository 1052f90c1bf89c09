"""Cells as jobs of Hydra's stock launchers (basic, joblib, ...): one job runs and seals one cell."""

from __future__ import annotations

import atexit
import contextlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from recurve_eval import app
from recurve_eval.compose import job_text
from recurve_eval.domain import Cell, Coordinates
from recurve_eval.errors import ConfigError, Drift, Interrupted, RecurveError
from recurve_eval.execute.bench import Bench, preflight, run_facts
from recurve_eval.execute.run import Run
from recurve_eval.ledger import run_owner
from recurve_eval.tracking.study import read_plan

CHUNK = 256  # jobs handed to a launcher at once, so that an interrupted run loses little time


def run_stock(run: Run, launcher: Any, watch: Callable[[], Any]) -> None:
    """Hand the pending cells to a stock launcher in chunks. Raises Interrupted, or a job's own error."""
    points = run.study.points
    for start in range(0, len(run.pending), CHUNK):
        if run.bench.cancelled.is_set():
            raise Interrupted("stopped")
        chunk = run.pending[start : start + CHUNK]
        jobs = [[*points[c.condition].overrides, f"cell_id='{c.cell_id}'"] for c in chunk]
        returns = launcher.launch(jobs, initial_job_idx=start)
        _raise_first(returns)
        run.bench.tally.recount(run.bench.ledger.counts())
        watch()


def _raise_first(returns: Sequence[Any]) -> None:
    for job in returns:
        _ = job.return_value  # raises what the job raised


def execute_job(composed: Any, run_dir: Path) -> None:
    """One job: the cell that ``composed.cell_id`` names. Hydra's task function.

    Raises Drift where the job's configuration is not the one that was planned for this cell.
    """
    cell_id, text = job_text(composed)
    if not cell_id:
        raise ConfigError("a job needs cell_id: start a study with `recurve-eval run`, not with a job's overrides")
    if run_owner(run_dir) is None:
        raise RecurveError(f"{run_dir} has no running owner: start the study with `recurve-eval run`")
    cell = _planned(run_dir, cell_id)
    bench = _bench(run_dir, cell.condition, text)
    try:
        bench.execute(cell)
    finally:
        with contextlib.suppress(OSError):  # on whichever machine this is; the run's owner cleans up on its own
            bench.scratch_root.rmdir()


@cache
def _frozen(run_dir: Path) -> dict[str, Any]:
    return read_plan(run_dir)


@cache
def _matrix(run_dir: Path) -> dict[str, dict[str, Any]]:
    with (run_dir / "matrix.jsonl").open(encoding="utf-8") as lines:
        return {row["cell_id"]: row for row in map(json.loads, lines)}


def _planned(run_dir: Path, cell_id: str) -> Cell:
    try:
        row = dict(_matrix(run_dir)[cell_id])
    except KeyError:
        raise ConfigError(f"{run_dir}/matrix.jsonl has no cell {cell_id}") from None
    order, condition = row.pop("order"), row.pop("condition")
    row.pop("cell_id")
    return Cell(cell_id, order, condition, Coordinates(**row))


@cache
def _bench(run_dir: Path, index: int, text: str) -> Bench:
    """One bench per process and condition; its graders stay warm from job to job."""
    frozen = _frozen(run_dir)
    planned = frozen["conditions"][index]
    condition, parts, env = app.job_parts(text, index, Coordinates(task_id="", **planned["labels"]))
    if condition.hash != planned["config_hash"]:
        raise Drift(f"this job's configuration or code is not what {run_dir}/plan.yaml froze for condition {index}")
    facts = run_facts(frozen["plan_hash"], frozen["experiment"])
    limit = condition.config["spend"]["max_usd"]
    bench = Bench(run_dir, facts, {index: condition}, {index: parts}, {index: env}, limit)
    preflight(bench.adapters.values())  # a job may run on another machine than the one that planned it
    bench.open()
    bench.start(1)
    atexit.register(bench.close)
    return bench
