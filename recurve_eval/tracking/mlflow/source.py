"""Rows out of MLflow: from its database by SQL where the address is one, else from its server."""

from __future__ import annotations

import gzip
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval.errors import ConfigError, Drift
from recurve_eval.ledger import open_line, seal_of_line
from recurve_eval.tracking.encoding import KIND_TAG, PARENT_TAG, PLAN_TAG, SEAL_TAG, sealed_row
from recurve_eval.tracking.mlflow.client import connect, database_of, search

SealedRow = tuple[str, dict[str, Any]]
ROWS_FILE = "results.jsonl.gz"
ROWS_HASH_TAG = "recurve.rows_sha256"
ROWS_COUNT_TAG = "recurve.rows"
_REST = ("http://", "https://", "databricks", "file:", "/")


@dataclass(frozen=True)
class Held:
    """What a tracker holds of one or several plans.

    ``plans`` are the tags of the plans' runs. ``rows()`` gives each cell's seal and row, in no certain order, a
    page at a time; it raises Drift where a row no longer matches its seal. ``path`` says how they are read.
    """

    plans: Sequence[Mapping[str, str]]
    rows: Callable[[], Iterator[SealedRow]]
    path: str


def held(uri: str, of: str, timeout_s: float, http_retries: int) -> Held:
    """Look a study up in the tracker at ``uri``. Raises ConfigError where there is none."""
    database = database_of(uri)
    if database is not None and not database.is_file():
        raise ConfigError(f"there is no tracker database {database}")
    if not uri.startswith(_REST):
        from recurve_eval.tracking.mlflow.database import held_in_database

        found = held_in_database(uri, of, timeout_s)
    else:
        found = _held_by_server(connect(uri, timeout_s, http_retries)[0], of)
    if not found.plans:
        raise ConfigError(
            f"the tracker at {uri} has no study '{of}': give an experiment's name or id, the id of a study's run, "
            "or a plan's hash"
        )
    return found


def _held_by_server(client: Any, of: str) -> Held:
    plans = {r.info.run_id: r for r in search(client, *_plans_condition(client, of))}
    tags = [run.data.tags for run in plans.values()]
    kept = all(ROWS_HASH_TAG in t for t in tags)
    read = (lambda: _from_files(client, plans)) if kept else (lambda: _from_runs(client, plans))
    return Held(tags, read, "the rows' file at the server" if kept else "the server's runs, page by page")


def _plans_condition(client: Any, of: str) -> tuple[list[str], str]:
    from mlflow.exceptions import MlflowException

    named = client.get_experiment_by_name(of)
    if named is None and of.isdecimal() and len(of) < 32:
        try:
            named = client.get_experiment(of)
        except MlflowException:
            named = None
    if named is not None:
        return [named.experiment_id], f"tags.`{KIND_TAG}` = 'plan'"
    everywhere = [e.experiment_id for e in client.search_experiments()]
    if not of.isalnum():
        return everywhere, f"tags.`{KIND_TAG}` = 'plan' and tags.`{PLAN_TAG}` = '-'"
    where = f"attributes.run_id = '{of}'" if len(of) == 32 else f"tags.`{PLAN_TAG}` = '{of}'"
    return everywhere, f"tags.`{KIND_TAG}` = 'plan' and {where}"


def _from_runs(client: Any, plans: Mapping[str, Any]) -> Iterator[SealedRow]:
    for run_id, plan in plans.items():
        condition = f"tags.`{PARENT_TAG}` = '{run_id}' and tags.`{KIND_TAG}` = 'cell'"
        for run in search(client, [plan.info.experiment_id], condition):
            if SEAL_TAG in run.data.tags and run.info.status != "RUNNING":
                yield sealed_row(run.data.tags)


def _from_files(client: Any, plans: Mapping[str, Any]) -> Iterator[SealedRow]:
    for run_id, plan in plans.items():
        tags = plan.data.tags
        with tempfile.TemporaryDirectory(prefix="recurve-eval-") as place:
            path = Path(client.download_artifacts(run_id, ROWS_FILE, place))
            with path.open("rb") as file:
                same = hashlib.file_digest(file, "sha256").hexdigest() == tags[ROWS_HASH_TAG]
            if not same:
                raise Drift(f"{ROWS_FILE} of run {run_id} is not the file that was logged; mirror it anew")
            yield from _lines(path, run_id, int(tags[ROWS_COUNT_TAG]))


def _lines(path: Path, run_id: str, expected: int) -> Iterator[SealedRow]:
    number = 0
    with gzip.open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            row = open_line(line.rstrip(b"\n"))
            if row is None:
                raise Drift(f"{ROWS_FILE} of run {run_id}, line {number}: the row does not match its seal")
            yield seal_of_line(line), row
    if number != expected:
        raise Drift(f"{ROWS_FILE} of run {run_id} has {number} rows and should have {expected}")


def forget_rows(client: Any, run_id: str, tags: Mapping[str, str]) -> None:
    """More rows follow, so the file of rows that a plan's run has is no longer all of them."""
    for tag in (ROWS_HASH_TAG, ROWS_COUNT_TAG):
        if tag in tags:
            client.delete_tag(run_id, tag)
