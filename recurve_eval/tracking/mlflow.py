"""MLflow as a mirror: a parent run per plan, a child run per cell, the exact row inside its tags."""

from __future__ import annotations

import os
import sqlite3
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from recurve_eval import provenance
from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError, InfraError
from recurve_eval.tracking.encoding import (
    CELL_TAG,
    MAX_TAG,
    PLAN_TAG,
    SEAL_TAG,
    labels_of,
    metrics_of,
    params_of,
    row_from_tags,
    row_tags,
)  # fmt: skip
from recurve_eval.tracking.study import Study

PARENT_TAG = "mlflow.parentRunId"
KIND_TAG = "recurve.kind"
_SQLITE = "sqlite:///"
_PAGE = 500  # runs a search returns at once; each carries its whole row
_BATCH = 100  # params that one request may hold
_CELL_FILES = ("config.yaml", "grade.json", "transcript*")


@dataclass
class MlflowTracker:
    """Mirrors rows into an MLflow tracking server or database.

    name : label of the option.
    uri : tracking URI; empty means ``sqlite:///<outputs>/mlflow.db``, two directories above the run's.
    experiment : experiment name; empty means the study's own.
    artifacts : whether config.yaml, grade.json and the transcript of each cell are sent too.
    timeout_s : seconds to wait for a locked database or for one HTTP request.
    http_retries : how often one HTTP request is repeated before the mirror backs off as a whole.

    Raises InfraError, or whatever MLflow raises, when the tracker is down or its database has gone.
    """

    name: str = "mlflow"
    uri: str = ""
    experiment: str = ""
    artifacts: bool = True
    timeout_s: float = 30.0
    http_retries: int = 2
    placement: ClassVar[str] = "process"

    def __post_init__(self) -> None:
        if self.timeout_s <= 0 or self.http_retries < 0:
            raise ConfigError("tracking.timeout_s must be above 0 and tracking.http_retries at least 0")

    def open_study(self, run_dir: Path, plan: Mapping[str, JSON]) -> None:
        """Find or create the experiment and the parent run."""
        study = Study(run_dir, plan)
        uri = self._uri_of(study.run_dir)
        client, database = _connect(uri, self.timeout_s, self.http_retries)
        self._opened.append(_OpenStudy(client, database, study, self.experiment or study.experiment, self.artifacts))
        self._study.adopt_parent()

    def mirrored(self) -> frozenset[str]:
        """Cells whose child run is complete; half-made children are deleted on the way."""
        return self._study.settle_children()

    def mirror(self, rows: Sequence[Mapping[str, JSON]]) -> None:
        for row in rows:
            self._study.send(row)

    def close(self, status: str) -> None:
        self._study.end(status)
        self._opened.clear()

    def _uri_of(self, run_dir: Path) -> str:
        if self.uri:
            return self.uri
        place = run_dir.resolve().parents[1]
        if set("#?%") & set(str(place)):
            raise ConfigError(
                f"{place} has a character that no database address can carry: set tracking.uri or run.outputs"
            )
        return f"{_SQLITE}{place / 'mlflow.db'}"

    def read_study(self, run_dir: Path, plan: Mapping[str, JSON], uri: str = "") -> Iterator[dict[str, Any]]:
        """The rows that the tracker holds of one run directory's plan. Raises as :meth:`rows`."""
        reader = replace(self, uri=uri or self._uri_of(Path(run_dir)))
        return reader.rows(str(plan["plan_hash"]))

    def rows(self, of: str) -> Iterator[dict[str, Any]]:
        """Rows rebuilt from the tracker alone, a page at a time.

        ``of`` is a plan hash (64 hex digits), a parent run id (32 hex digits) or an experiment name. Raises
        ConfigError when there is no such thing or no ``uri``, Drift when a row no longer matches its seal.
        """
        if not self.uri:
            raise ConfigError("reading rows from MLflow needs tracking.uri")
        client, _ = _connect(self.uri, self.timeout_s, self.http_retries)
        experiments, condition = _selection(client, of)
        for run in _search(client, experiments, condition):
            if SEAL_TAG in run.data.tags and run.info.status != "RUNNING":
                yield row_from_tags(run.data.tags)

    @cached_property
    def _opened(self) -> list[_OpenStudy]:
        return []

    @property
    def _study(self) -> _OpenStudy:
        if not self._opened:
            raise InfraError("the tracker has no open study")
        return self._opened[-1]


class _OpenStudy:
    def __init__(self, client: Any, database: Path | None, study: Study, experiment: str, artifacts: bool) -> None:
        self._client, self._study, self._artifacts = client, study, artifacts
        self._database = database
        self._inode = None if database is None else database.stat().st_ino
        location = None if database is None else (database.parent / "mlartifacts").as_uri()
        self._experiment_id = _experiment_id(client, experiment, location)
        self._parent_id = ""
        self._fresh = False
        self._sent: set[str] = set()

    def adopt_parent(self) -> None:
        condition = f"tags.`{PLAN_TAG}` = '{self._study.plan_hash}' and tags.`{KIND_TAG}` = 'plan'"
        found = next(_search(self._client, [self._experiment_id], condition), None)
        self._fresh = found is None
        if found is None:
            tags = {PLAN_TAG: self._study.plan_hash, KIND_TAG: "plan", **_plan_tags(self._study.plan)}
            name = f"{self._study.experiment} {self._study.plan_hash[:8]}"
            found = self._client.create_run(self._experiment_id, tags=tags, run_name=name)
        elif found.info.status != "RUNNING":
            self._client.update_run(found.info.run_id, status="RUNNING")
        self._parent_id = found.info.run_id
        if self._artifacts and "recurve.described" not in found.data.tags:
            self._describe(found.info.artifact_uri)

    def _describe(self, artifact_uri: str) -> None:
        self._client.log_text(self._parent_id, "\n".join(provenance.freeze()) + "\n", "pip-freeze.txt")
        _upload(artifact_uri, [self._study.run_dir / "plan.yaml"])
        self._client.set_tag(self._parent_id, "recurve.described", "true")

    def settle_children(self) -> frozenset[str]:
        if self._fresh:
            return frozenset()
        for run in _search(self._client, [self._experiment_id], f"tags.`{PARENT_TAG}` = '{self._parent_id}'"):
            cell_id = run.data.tags.get(CELL_TAG, "")
            # A child is complete once its status is final: that is the last thing written.
            if run.info.status == "RUNNING" or SEAL_TAG not in run.data.tags or cell_id in self._sent:
                self._client.delete_run(run.info.run_id)
            else:
                self._sent.add(cell_id)
        return frozenset(self._sent)

    def send(self, row: Mapping[str, Any]) -> None:
        self._demand_same_database()
        cell_id = row["identity"]["cell_id"]
        if cell_id in self._sent:
            return
        end_ms = self._ended_ms(cell_id)
        tags = {PARENT_TAG: self._parent_id, KIND_TAG: "cell", **labels_of(row), **row_tags(row)}
        start_ms = end_ms - int(row["usage"]["wall_s"] * 1000)
        run = self._client.create_run(self._experiment_id, start_time=start_ms, tags=tags, run_name=_run_name(row))
        if self._artifacts:
            cell_dir = self._study.cell_dir(cell_id)
            _upload(run.info.artifact_uri, [p for pattern in _CELL_FILES for p in sorted(cell_dir.glob(pattern))])
        self._log(run.info.run_id, params_of(self._study.config(cell_id)), metrics_of(row), end_ms)
        scored = row["verdict"]["oracle_verdict"] != "unscored"
        self._client.set_terminated(run.info.run_id, "FINISHED" if scored else "FAILED", end_ms)
        self._sent.add(cell_id)

    def _log(self, run_id: str, params: Mapping[str, str], metrics: Mapping[str, float], at_ms: int) -> None:
        from mlflow.entities import Metric, Param

        pending = iter([Param(key, value) for key, value in params.items()])
        numbers = [Metric(key, value, at_ms, 0) for key, value in metrics.items()]
        batch = list(islice(pending, _BATCH))
        while batch or numbers:
            self._client.log_batch(run_id, metrics=numbers, params=batch)
            batch, numbers = list(islice(pending, _BATCH)), []

    def end(self, status: str) -> None:
        self._demand_same_database()
        self._client.set_terminated(self._parent_id, status)

    def _ended_ms(self, cell_id: str) -> int:
        try:
            return int((self._study.cell_dir(cell_id) / "grade.json").stat().st_mtime * 1000)
        except OSError:
            return int(time.time() * 1000)

    def _demand_same_database(self) -> None:
        # SQLite goes on writing into a deleted file without an error.
        if self._database is None:
            return
        try:
            same = self._database.stat().st_ino == self._inode
        except OSError:
            same = False
        if not same:
            raise InfraError(f"the tracker's database {self._database} was removed or replaced")


def _connect(uri: str, timeout_s: float, http_retries: int) -> tuple[Any, Path | None]:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(max(1, int(timeout_s))))
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", str(http_retries))
    database = _database_of(uri)
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


def _database_of(uri: str) -> Path | None:
    return Path(uri.removeprefix(_SQLITE).partition("?")[0]).resolve() if uri.startswith(_SQLITE) else None


def _experiment_id(client: Any, name: str, location: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:  # another study may have created it in this instant
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _search(client: Any, experiments: Sequence[str], condition: str) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = client.search_runs(list(experiments), condition, max_results=_PAGE, page_token=token,
                                  order_by=["attributes.start_time ASC"])  # fmt: skip
        yield from page
        token = page.token
        if not token:
            return


def _selection(client: Any, of: str) -> tuple[list[str], str]:
    named = client.get_experiment_by_name(of)
    if named is not None:
        return [named.experiment_id], f"tags.`{KIND_TAG}` = 'cell'"
    is_hex = set(of) <= set("0123456789abcdef")
    if not is_hex or len(of) not in (32, 64):
        raise ConfigError(f"MLflow has no experiment '{of}', and that is neither a parent run id nor a plan hash")
    everywhere = [e.experiment_id for e in client.search_experiments()]
    tag = PARENT_TAG if len(of) == 32 else PLAN_TAG
    return everywhere, f"tags.`{tag}` = '{of}' and tags.`{KIND_TAG}` = 'cell'"


def _upload(artifact_uri: str, paths: Sequence[Path]) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    present = [path for path in paths if path.exists()]
    if not present:
        return
    repository: Any = get_artifact_repository(artifact_uri)
    for path in present:
        if path.is_dir():
            repository.log_artifacts(str(path), path.name)
        else:
            repository.log_artifact(str(path))


def _plan_tags(plan: Mapping[str, Any]) -> dict[str, str]:
    origin = plan.get("provenance") or {}
    tags = {f"recurve.{key}": origin.get(key) for key in ("git_commit", "git_dirty", "dependency_hash")}
    tags["mlflow.note.content"] = plan.get("study", {}).get("description")
    tags["recurve.cells"] = plan.get("cells")
    return {name: str(value)[:MAX_TAG] for name, value in tags.items() if value}


def _run_name(row: Mapping[str, Any]) -> str:
    at = row["identity"]
    return f"{at['task_id']} {at['arm']} {at['model']} seed {at['seed']}"[:250]
