"""The mirror against a real MLflow database: exact rows, each cell once, whatever breaks in between."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_samples import HASH, add_cell_files, cell_id, plan_dir, python, sample_row

from recurve_eval.errors import ConfigError, Drift, RunLocked
from recurve_eval.ledger import Ledger
from recurve_eval.tracking.encoding import metrics_of, params_of, row_from_tags, row_tags
from recurve_eval.tracking.follower import Follower, load_tracker, mirror, read_status
from recurve_eval.tracking.mlflow import MlflowTracker

MLFLOW = {"target": "recurve_eval.tracking.mlflow.MlflowTracker", "options": {}}
HOST = """
import sys, time; from pathlib import Path; from recurve_eval.tracking.follower import Follower
f = Follower.start(Path(sys.argv[1])); print(f._process.pid, flush=True); time.sleep(60)
"""
MEMORY = {"target": "recurve_eval.tracking.memory.MemoryTracker", "options": {}}
NONE = {"target": "recurve_eval.tracking.memory.NoTracker", "options": {}}


def seal(run_dir: Path, first: int, last: int) -> list[dict[str, Any]]:
    ledger, rows = Ledger(run_dir), [sample_row(n, unscored=n % 7 == 3) for n in range(first, last)]
    for row in rows:
        ledger.seal(row)
    return rows


def uri(outputs: Path) -> str:
    return f"sqlite:///{outputs / 'mlflow.db'}"


def held(outputs: Path) -> list[dict[str, Any]]:
    rows = MlflowTracker(uri=uri(outputs)).rows(HASH)
    return sorted(rows, key=lambda row: row["identity"]["order"])


def runs(outputs: Path) -> tuple[Any, list[Any]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri(outputs) + "?timeout=30")
    experiment = client.get_experiment_by_name("study")
    return client, list(client.search_runs([experiment.experiment_id], max_results=1000))


def until(condition: Callable[[], bool], timeout_s: float = 200.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def made_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with its tables and nothing in it; making one takes seconds."""
    from recurve_eval.tracking.mlflow.client import connect as _connect

    path = tmp_path_factory.mktemp("made") / "mlflow.db"
    _connect(f"sqlite:///{path}", 30.0, 0)
    return path


@pytest.fixture
def outputs(tmp_path: Path, made_database: Path) -> Path:
    """An outputs directory whose database exists already."""
    with sqlite3.connect(made_database) as source, sqlite3.connect(tmp_path / "mlflow.db") as target:
        source.backup(target)
    source.close()
    target.close()
    return tmp_path


pytestmark = pytest.mark.usefixtures("clean_engines")


def test_thirty_cells_are_mirrored_and_rebuilt_exactly(outputs: Path) -> None:
    run_dir = plan_dir(outputs, 30, **MLFLOW)
    add_cell_files(run_dir, 1)
    with Follower.start(run_dir) as follower:
        rows = seal(run_dir, 0, 30)
        assert follower.drain(240), read_status(run_dir)
        assert follower.stop(30)
    assert held(outputs) == rows
    client, everything = runs(outputs)
    parents = [r for r in everything if r.data.tags["recurve.kind"] == "plan"]
    assert len(parents) == 1 and len(everything) == 31
    parent = parents[0]
    assert parent.info.status == "FINISHED" and parent.data.tags["recurve.plan_hash"] == HASH
    assert {a.path for a in client.list_artifacts(parent.info.run_id)} == {"pip-freeze.txt", "plan.yaml"}
    by_cell = {r.data.tags.get("recurve.cell_id"): r for r in everything}
    first, unscored = by_cell[cell_id(1)], by_cell[cell_id(3)]
    assert first.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert first.data.params == {"arm.name": "A9", "seed": "3"}
    names = {a.path for a in client.list_artifacts(first.info.run_id)}
    assert names == {"config.yaml", "grade.json", "transcript-1.txt"}
    assert (first.info.status, unscored.info.status) == ("FINISHED", "FAILED")
    assert unscored.data.tags["recurve.reason"] == "infra"
    assert "pass" not in unscored.data.metrics and "tests_total" not in unscored.data.metrics
    assert unscored.data.params["agent.prompt"].startswith("sha256:")
    assert first.data.metrics["pass"] == 1.0 and "tokens_in" not in first.data.metrics
    assert list(MlflowTracker(uri=uri(outputs)).rows("study")) and list(
        MlflowTracker(uri=uri(outputs)).rows(parent.info.run_id)
    )
    assert mirror(run_dir, load_tracker(run_dir)) == 0
    assert read_status(run_dir)["mirrored"] == 30


def test_a_follower_killed_in_the_middle_is_repaired_by_mirror(outputs: Path) -> None:
    run_dir = plan_dir(outputs, 60, **MLFLOW)
    rows = seal(run_dir, 0, 60)
    follower = Follower.start(run_dir)
    assert follower._process is not None
    until(lambda: read_status(run_dir).get("mirrored", 0) >= 20)
    time.sleep(0.1)
    os.kill(follower._process.pid, signal.SIGKILL)
    assert not follower.drain(30)
    assert not follower.stop()
    before = len(held(outputs))
    assert 20 <= before < 60
    _, interrupted = runs(outputs)
    half_made = [r for r in interrupted if r.info.status == "RUNNING" and r.data.tags["recurve.kind"] == "cell"]
    if not half_made:  # the kill fell between two cells: make the half child that it would have left
        client, everything = runs(outputs)
        parent = next(r for r in everything if r.data.tags["recurve.kind"] == "plan")
        tags = {"mlflow.parentRunId": parent.info.run_id, "recurve.kind": "cell", "recurve.cell_id": cell_id(59)}
        client.create_run(parent.info.experiment_id, tags=tags)
    assert mirror(run_dir, load_tracker(run_dir)) == 60 - before
    assert held(outputs) == rows
    _, everything = runs(outputs)
    assert len(everything) == 61
    assert {r.info.status for r in everything} == {"FINISHED", "FAILED"}


def test_a_locked_database_delays_the_mirror_alone(outputs: Path) -> None:
    run_dir = plan_dir(outputs, 12, **{**MLFLOW, "options": {"timeout_s": 0.5, "artifacts": False}})
    with Follower.start(run_dir) as follower:
        rows = seal(run_dir, 0, 2)
        assert follower.drain(240), read_status(run_dir)
        blocker = sqlite3.connect(outputs / "mlflow.db", isolation_level=None)
        blocker.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()
        rows += seal(run_dir, 2, 12)
        assert time.monotonic() - start < 2.0
        assert not follower.drain(3.0)
        blocker.execute("COMMIT")
        blocker.close()
        assert follower.drain(240), read_status(run_dir)
        assert follower.stop(30)
    assert held(outputs) == rows


def test_a_database_removed_in_the_middle_is_noticed_and_filled_anew(outputs: Path) -> None:
    tracking = outputs / "elsewhere"
    options = {"uri": f"sqlite:///{tracking / 'mlflow.db'}", "artifacts": False}
    run_dir = plan_dir(outputs, 10, target=MLFLOW["target"], options=options)
    with Follower.start(run_dir) as follower:
        rows = seal(run_dir, 0, 5)
        assert follower.drain(240), read_status(run_dir)
        shutil.rmtree(tracking)
        rows += seal(run_dir, 5, 10)
        until(lambda: read_status(run_dir).get("state") == "retrying")
        assert "removed or replaced" in read_status(run_dir)["last_error"]
        assert follower.drain(240), read_status(run_dir)
        assert follower.stop(30)
    found = MlflowTracker(uri=options["uri"]).rows(HASH)
    assert sorted(found, key=lambda row: row["identity"]["order"]) == rows


def test_a_tracker_that_is_down_costs_the_cells_nothing_and_catches_up(tmp_path: Path) -> None:
    away = tmp_path / "away" / "cells.txt"
    run_dir = plan_dir(tmp_path, 3, target="ledger_samples.FileTracker", options={"path": str(away)})
    with Follower.start(run_dir) as follower:
        seal(run_dir, 0, 3)
        until(lambda: read_status(run_dir).get("state") == "retrying")
        assert "No such file" in read_status(run_dir)["last_error"]
        assert not follower.drain(0.2)
        away.parent.mkdir()
        assert follower.drain(60), read_status(run_dir)
        assert follower.stop(30)
    assert away.read_text().split() == [cell_id(n) for n in range(3)]


def test_a_tracker_that_stays_down_is_left_behind(outputs: Path) -> None:
    run_dir = plan_dir(outputs, 3, target="ledger_samples.FileTracker", options={"path": "/nowhere/at/all"})
    with Follower.start(run_dir) as follower:
        seal(run_dir, 0, 3)
        until(lambda: read_status(run_dir).get("state") == "retrying")
        assert not follower.stop(0.2)
    assert len(Ledger(run_dir).sealed_ids()) == 3
    assert mirror(run_dir, MlflowTracker(uri=uri(outputs))) == 3


def test_a_resumed_run_finds_its_parent_again(outputs: Path) -> None:
    run_dir = plan_dir(outputs, 6, **MLFLOW)
    seal(run_dir, 0, 3)
    assert mirror(run_dir, load_tracker(run_dir)) == 3
    _, interrupted = runs(outputs)
    assert [r.info.status for r in interrupted if r.data.tags["recurve.kind"] == "plan"] == ["KILLED"]
    seal(run_dir, 3, 6)
    assert mirror(run_dir, load_tracker(run_dir)) == 3
    _, everything = runs(outputs)
    assert [r.info.status for r in everything if r.data.tags["recurve.kind"] == "plan"] == ["FINISHED"]
    assert len(everything) == 7


def test_a_row_altered_in_the_tracker_is_drift(outputs: Path) -> None:
    run_dir = plan_dir(outputs, 1, **MLFLOW)
    seal(run_dir, 0, 1)
    mirror(run_dir, load_tracker(run_dir))
    client, everything = runs(outputs)
    cell = next(r for r in everything if r.data.tags["recurve.kind"] == "cell")
    verdict = cell.data.tags["recurve.row.verdict"]
    client.set_tag(cell.info.run_id, "recurve.row.verdict", verdict.replace('"fail"', '"pass"'))
    with pytest.raises(Drift, match=cell_id(0)):
        held(outputs)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "cells.txt")}
    run_dir = plan_dir(tmp_path, 1, target="ledger_samples.FileTracker", options=options)
    with Follower.start(run_dir) as follower:
        until(lambda: read_status(run_dir).get("state") == "following")
        with pytest.raises(RunLocked, match="follower"):
            mirror(run_dir, load_tracker(run_dir))
        assert follower.stop(30)


def test_a_follower_drains_and_ends_when_its_host_is_killed(tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "cells.txt")}
    run_dir = plan_dir(tmp_path, 4, target="ledger_samples.FileTracker", options=options)
    seal(run_dir, 0, 4)
    host = python(HOST, run_dir)
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    host.kill()
    host.communicate()
    until(lambda: not _runs_follower(pid))
    assert read_status(run_dir)["state"] == "done"
    assert (tmp_path / "cells.txt").read_text().split() == [cell_id(n) for n in range(4)]


def _runs_follower(pid: int) -> bool:
    try:
        return b"follower" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_memory_tracker_follows_in_a_thread(tmp_path: Path) -> None:
    run_dir = plan_dir(tmp_path, 3, **MEMORY)
    with Follower.start(run_dir) as follower:
        rows = seal(run_dir, 0, 3)
        assert follower.drain(10) and follower.stop()
    tracker: Any = follower.tracker
    assert list(tracker.rows.values()) == rows and tracker.statuses == ["FINISHED"]


def test_no_tracker_needs_nothing(tmp_path: Path) -> None:
    run_dir = plan_dir(tmp_path, 3, **NONE)
    with Follower.start(run_dir) as follower:
        seal(run_dir, 0, 3)
        assert follower.drain(0) and follower.stop()
    assert not (run_dir / "mirror.json").exists()


def test_a_spec_that_names_no_tracker_is_refused(tmp_path: Path) -> None:
    run_dir = plan_dir(tmp_path, 1, target="recurve_eval.tracking.mlflow.MlflowTrakker", options={})
    with pytest.raises(ConfigError, match="MlflowTrakker"):
        Follower.start(run_dir)


@pytest.mark.parametrize("padding", [0, 600, 20_000, 600_000])
def test_rows_of_any_size_survive_tags(padding: int) -> None:
    row = sample_row(1, padding=padding)
    tags = row_tags(row)
    assert row_from_tags(tags) == row
    assert all(len(value) <= 5000 for value in tags.values())
    assert ("recurve.row.gate.1" in tags) == (padding > 600)


def test_params_and_metrics_fit_the_tracker() -> None:
    row = sample_row(1)
    row["usage"]["wall_s"] = math.inf
    assert "wall_s" not in metrics_of(row)
    params = params_of({"a/b": 1, "a:b": 2, "..": 3, "x" * 400: 4, "n": None, "t": True, "long": "y" * 6001})
    assert len(params) == 7 and params["n"] == "null" and params["t"] == "true"
    assert params["long"].startswith("sha256:") and all(len(key) <= 250 for key in params)


def test_a_large_row_and_many_params_pass_through_mlflow(outputs: Path) -> None:
    run_dir = plan_dir(outputs, 1, **MLFLOW)
    row = sample_row(0, padding=50_000)
    Ledger(run_dir).seal(row)
    folder = run_dir / "cells" / cell_id(0)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("".join(f"key{n}: {n}\n" for n in range(250)) + "../odd/key: ' '\n")
    mirror(run_dir, load_tracker(run_dir))
    assert held(outputs) == [row]
    _, everything = runs(outputs)
    cell = next(r for r in everything if r.data.tags["recurve.kind"] == "cell")
    assert len(cell.data.params) == 251
