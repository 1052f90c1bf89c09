"""A study mirrored to a real tracking server and analyzed from there: over SQLite, and over Postgres where there is one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.__main__ import main
from recurve_eval.ledger import read_rows
from recurve_eval.tracking.mlflow import MlflowTracker
from recurve_eval.tracking.mlflow.client import connect
from recurve_eval.tracking.mlflow.source import ROWS_HASH_TAG

POSTGRES = "RECURVE_TEST_POSTGRES"  # address of a database of its own, postgresql+psycopg2://user@host:port/name
STUDY = "served"
pytestmark = pytest.mark.usefixtures("clean_engines")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def store_of(kind: str, place: Path) -> str:
    """The address of the database behind the server."""
    if kind == "sqlite":
        return f"sqlite:///{place / 'server.db'}"
    address = os.environ.get(POSTGRES)
    if not address:
        pytest.skip(f"{POSTGRES} names no Postgres database")
    return address


def serving(process: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    for _ in range(600):
        if process.poll() is not None:
            pytest.fail(f"the server ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            time.sleep(0.2)
    return False


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Addresses of a running tracking server and of its database."""
    place = tmp_path_factory.mktemp("server")
    store, port, log = store_of(request.param, place), free_port(), place / "log"
    words = ["server", "--backend-store-uri", store, "--artifacts-destination", str(place / "artifacts")]
    words += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *words], cwd=place, env=environment, stdout=out, stderr=out
        )
    try:
        assert serving(process, port, log), f"no answer: {log.read_text()[-2000:]}"
        yield f"http://127.0.0.1:{port}", store
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def study(server: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory whose rows and answer the server has."""
    outputs = tmp_path_factory.mktemp("outputs")
    words = ["task=demo", "task.select={n: 6, seed: 0}", "arm=A0,A1", f"study.name={STUDY}", "sandbox=process",
             "study.primary={baseline: A0, treatment: A1}", "oracle=process", f"tracking.uri={server[0]}",
             f"run.outputs={outputs}", "run.progress=none",
             "analysis.figures=false", "analysis.report=true"]  # fmt: skip
    assert main(["run", *words]) == 0
    (run_dir,) = (outputs / STUDY).iterdir()
    return run_dir


def plan_run(address: str) -> Any:
    client, _ = connect(address, 30.0, 2)
    experiment = client.get_experiment_by_name(STUDY)
    (run,) = client.search_runs([experiment.experiment_id], "tags.`recurve.kind` = 'plan'")
    return client, run


def by_cell(rows: Any) -> dict[str, Any]:
    return {row["identity"]["cell_id"]: row for row in rows}


@pytest.mark.parametrize("of", ["experiment", "experiment id", "run id", "plan hash"])
@pytest.mark.parametrize("way", ["server", "database"])
def test_the_rows_and_the_answer_are_those_of_the_ledger(
    server: tuple[str, str], study: Path, tmp_path: Path, of: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run = plan_run(server[0])
    names = {"experiment": STUDY, "experiment id": run.info.experiment_id, "run id": run.info.run_id,
             "plan hash": run.data.tags["recurve.plan_hash"]}  # fmt: skip
    address = server[0] if way == "server" else server[1]
    found = MlflowTracker(uri=address).held(names[of])
    assert found.path == {"server": "the rows' file at the server", "database": "its database, by SQL"}[way]
    assert by_cell(row for _, row in found.rows()) == by_cell(read_rows(study))
    into = tmp_path / "there"
    words = ["--uri", address, "--from", names[of], "--into", str(into), "--outputs", str(study.parents[1])]
    assert main(["analyze", *words]) == 0
    assert "12 rows from the tracker; the ledger agrees" in capsys.readouterr().err
    assert (into / "summary.json").read_bytes() == (study / "analysis" / "summary.json").read_bytes()


def test_without_the_file_of_rows_a_server_gives_them_page_by_page(
    server: tuple[str, str], study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recurve_eval.tracking.mlflow import client as reaching

    client, run = plan_run(server[0])
    client.delete_tag(run.info.run_id, ROWS_HASH_TAG)
    monkeypatch.setattr(reaching, "PAGE", 4)
    try:
        found = MlflowTracker(uri=server[0]).held(STUDY)
        assert "page by page" in found.path
        assert by_cell(row for _, row in found.rows()) == by_cell(read_rows(study))
    finally:
        client.set_tag(run.info.run_id, ROWS_HASH_TAG, run.data.tags[ROWS_HASH_TAG])


def test_the_answer_stands_at_the_server(server: tuple[str, str], study: Path) -> None:
    client, run = plan_run(server[0])
    assert run.info.status == "FINISHED" and run.data.tags["answer"]
    assert "analysis/report.html" in {a.path for a in client.list_artifacts(run.info.run_id, "analysis")}
    arms = client.search_runs([run.info.experiment_id], "tags.`recurve.kind` = 'arm'")
    assert sorted(a.data.params["arm"] for a in arms) == ["A0", "A1"]
    shipped = {a.data.params["arm"]: a.data.tags["p ship bad"].split(" = ")[0] for a in arms}
    rows = list(read_rows(study))
    bad = {a: sum(r["derived"]["outcome"] == "shipped_bad" for r in rows if r["identity"]["arm"] == a) for a in shipped}
    assert shipped == {a: f"{n}/6" for a, n in bad.items()}


def test_a_server_that_is_down_leaves_the_ledger(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--uri", f"http://127.0.0.1:{free_port()}", "--no-log", "--into", str(study / "again")]
    assert main(["analyze", *words, str(study)]) == 0
    assert "the tracker cannot be read" in capsys.readouterr().err
