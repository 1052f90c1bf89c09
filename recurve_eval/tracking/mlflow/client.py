"""How MLflow is reached: its client, searched in pages, and its artifact stores."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SQLITE = "sqlite:///"
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # the page then opens on its runs
    "mlflow.note.content": "A study is a run, and its cells stand below it; each arm is a run beside it, named by its "
    "FDR (bad of declared), for the table and the comparison. Columns that answer: the metrics `fdr`, `p_ship_bad`, "
    "`yield` and `vs_baseline_*`, or the tags of the same names, with raw fractions and intervals.",
}
PAGE = 500  # runs that a search returns at once; each carries its whole row


def connect(uri: str, timeout_s: float, http_retries: int) -> tuple[Any, Path | None]:
    """A client, and the file of its SQLite database where it has one."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(max(1, int(timeout_s))))
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", str(http_retries))
    database = database_of(uri)
    if database is not None:
        database.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(database, timeout=timeout_s)
        try:
            connection.execute("PRAGMA journal_mode=WAL")  # readers and the one writer do not wait for each other
        finally:
            connection.close()
        uri = uri if "?" in uri else f"{uri}?timeout={timeout_s:g}"
    with warnings.catch_warnings():
        # MLflow's own use of deprecated interfaces of its dependencies is not this program's to mend.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        from mlflow.tracking import MlflowClient

        return MlflowClient(uri), database


def database_of(uri: str) -> Path | None:
    """The file of a SQLite tracking URI."""
    return Path(uri.removeprefix(SQLITE).partition("?")[0]).resolve() if uri.startswith(SQLITE) else None


def outputs_of(uri: str) -> list[Path]:
    """The directory of results that a tracking URI implies: where its SQLite database lies, if it is one."""
    database = database_of(uri)
    return [] if database is None else [database.parent]


def experiment_id(client: Any, name: str, location: str | None) -> str:
    """The id of an experiment, made or restored where need be."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=location, tags=EXPERIMENT_TAGS))
        except MlflowException:  # another study may have created it in this instant
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def search(client: Any, experiments: Sequence[str], condition: str) -> Iterator[Any]:
    """Active runs that meet a condition, a page at a time."""
    token: str | None = None
    while True:
        page = client.search_runs(list(experiments), condition, max_results=PAGE, page_token=token,
                                  order_by=["attributes.start_time ASC"])  # fmt: skip
        yield from page
        token = page.token
        if not token:
            return


def upload(client: Any, artifact_uri: str, paths: Sequence[Path], into: str | None = None) -> None:
    """Send those of the files and directories that exist; a server may keep the artifacts and pass them on itself."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    present = [path for path in paths if path.exists()]
    if not present:
        return
    repository: Any = get_artifact_repository(artifact_uri, tracking_uri=client.tracking_uri)
    for path in present:
        if path.is_dir():
            repository.log_artifacts(str(path), f"{into}/{path.name}" if into else path.name)
        else:
            repository.log_artifact(str(path), into)
