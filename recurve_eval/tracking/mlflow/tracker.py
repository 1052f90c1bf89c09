"""A parent run per plan, a child run per cell, the exact row inside its tags; and the answer, when there is one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from recurve_eval import provenance
from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError, InfraError, UnknownName
from recurve_eval.tracking.encoding import (
    CELL_TAG,
    KIND_TAG,
    MAX_TAG,
    PARENT_TAG,
    PLAN_TAG,
    SEAL_TAG,
    labels_of,
    metrics_of,
    params_of,
    question_tags,
    row_tags,
)  # fmt: skip
from recurve_eval.tracking.mlflow.client import SQLITE, connect, experiment_id, search, upload
from recurve_eval.tracking.mlflow.source import Held, forget_rows, held
from recurve_eval.tracking.study import Study

SCHEMES = ("databricks", "file", "http", "https", "mssql", "mysql", "postgresql", "sqlite")
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
        scheme = self.uri.partition("://")[0].partition("+")[0]
        if "://" in self.uri and scheme not in SCHEMES:
            raise UnknownName("scheme", scheme, SCHEMES, "tracking.uri")

    def open_study(self, run_dir: Path, plan: Mapping[str, JSON]) -> None:
        """Find or create the experiment and the parent run."""
        study = Study(run_dir, plan)
        uri = self._uri_of(study.run_dir)
        client, database = connect(uri, self.timeout_s, self.http_retries)
        self._opened.append(_OpenStudy(client, database, study, self.experiment or study.experiment, self.artifacts))
        self._study.adopt_parent()

    def mirrored(self) -> frozenset[str]:
        """Cells whose child run is complete; half-made children are deleted on the way."""
        return self._study.settle_children()

    def mirror(self, rows: Sequence[Mapping[str, JSON]]) -> None:
        for row in rows:
            self._study.send(row)

    def publish(self, analysis: Path) -> None:
        """Log an analysis (the directory that holds summary.json) to the parent run, its arms as runs of their own."""
        self._study.publish(analysis)

    def parent_run(self) -> tuple[str, str]:
        """The ids of the open study's parent run and experiment."""
        return self._study.place

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
        return f"{SQLITE}{place / 'mlflow.db'}"

    def held(self, of: str) -> Held:
        """What the tracker holds of ``of``: an experiment's name or id, a parent run's id or a plan's hash.

        Raises ConfigError when there is no such thing or no ``uri``; see :class:`Held` for its rows.
        """
        if not self.uri:
            raise ConfigError("reading rows from MLflow needs its address: tracking.uri, or --uri")
        return held(self.uri, of, self.timeout_s, self.http_retries)

    def held_of(self, run_dir: Path, plan: Mapping[str, JSON], uri: str = "") -> Held:
        """What the tracker holds of one run directory's plan."""
        return replace(self, uri=uri or self.uri or self._uri_of(Path(run_dir))).held(str(plan["plan_hash"]))

    def rows(self, of: str) -> Iterator[dict[str, Any]]:
        """The rows alone of :meth:`held`."""
        return (row for _, row in self.held(of).rows())

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
        self._experiment_id = experiment_id(client, experiment, location)
        self._parent_id = ""
        self._parent_tags: Mapping[str, str] = {}
        self._fresh = False
        self._sent: set[str] = set()

    def adopt_parent(self) -> None:
        condition = f"tags.`{PLAN_TAG}` = '{self._study.plan_hash}' and tags.`{KIND_TAG}` = 'plan'"
        found = next(search(self._client, [self._experiment_id], condition), None)
        self._fresh = found is None
        if found is None:
            tags = {PLAN_TAG: self._study.plan_hash, KIND_TAG: "plan", **_plan_tags(self._study.plan)}
            tags.update(question_tags(self._study.plan))
            name = f"{self._study.experiment} {self._study.plan_hash[:8]}"
            found = self._client.create_run(self._experiment_id, tags=tags, run_name=name)
        elif found.info.status != "RUNNING":
            self._client.update_run(found.info.run_id, status="RUNNING")
        self._parent_id = found.info.run_id
        self._parent_tags = found.data.tags
        if self._artifacts and "recurve.described" not in found.data.tags:
            self._describe(found.info.artifact_uri)

    def _describe(self, artifact_uri: str) -> None:
        self._client.log_text(self._parent_id, "\n".join(provenance.freeze()) + "\n", "pip-freeze.txt")
        upload(self._client, artifact_uri, [self._study.run_dir / "plan.yaml"])
        self._client.set_tag(self._parent_id, "recurve.described", "true")

    def settle_children(self) -> frozenset[str]:
        if self._fresh:
            return frozenset()
        condition = f"tags.`{PARENT_TAG}` = '{self._parent_id}' and tags.`{KIND_TAG}` = 'cell'"
        for run in search(self._client, [self._experiment_id], condition):
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
        forget_rows(self._client, self._parent_id, self._parent_tags)
        self._parent_tags = {}
        end_ms = self._ended_ms(cell_id)
        tags = {PARENT_TAG: self._parent_id, KIND_TAG: "cell", **labels_of(row), **row_tags(row)}
        start_ms = end_ms - int(row["usage"]["wall_s"] * 1000)
        run = self._client.create_run(self._experiment_id, start_time=start_ms, tags=tags, run_name=_run_name(row))
        if self._artifacts:
            cell_dir = self._study.cell_dir(cell_id)
            upload(
                self._client,
                run.info.artifact_uri,
                [p for pattern in _CELL_FILES for p in sorted(cell_dir.glob(pattern))],
            )
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

    def publish(self, analysis: Path) -> None:
        from recurve_eval.tracking.mlflow.publish import publish  # numpy is behind it; a plan needs none of that

        self._demand_same_database()
        publish(self._client, self._experiment_id, self._parent_id, self._study.run_dir, analysis)

    @property
    def place(self) -> tuple[str, str]:
        return self._parent_id, self._experiment_id

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


def _plan_tags(plan: Mapping[str, Any]) -> dict[str, str]:
    origin = plan.get("provenance") or {}
    tags = {f"recurve.{key}": origin.get(key) for key in ("git_commit", "git_dirty", "dependency_hash")}
    tags["mlflow.note.content"] = plan.get("study", {}).get("description")
    tags["recurve.cells"] = plan.get("cells")
    return {name: str(value)[:MAX_TAG] for name, value in tags.items() if value}


def _run_name(row: Mapping[str, Any]) -> str:
    at = row["identity"]
    return f"{at['task_id']} {at['arm']} {at['model']} seed {at['seed']}"[:250]
