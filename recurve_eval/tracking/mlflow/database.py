"""MLflow's database read directly, whatever its engine: the client needs minutes where SQL needs seconds.

Only three tables and a few of their columns are relied on (``experiments``, ``runs``, ``tags``), which have kept
their names since MLflow 1.0. Importing MLflow itself is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import sqlalchemy as sa

from recurve_eval.errors import InfraError
from recurve_eval.tracking.encoding import CELL_TAG, KIND_TAG, PARENT_TAG, PLAN_TAG, SEAL_TAG, sealed_row
from recurve_eval.tracking.mlflow.source import Held, SealedRow

_PAGE = 500  # cells a query returns at once: some 5,000 tags
_EXPERIMENTS = sa.table("experiments", *map(sa.column, ("experiment_id", "name", "lifecycle_stage")))
_RUNS = sa.table("runs", *map(sa.column, ("run_uuid", "experiment_id", "lifecycle_stage", "status")))
_TAGS = sa.table("tags", *map(sa.column, ("run_uuid", "key", "value")))


def held_in_database(uri: str, of: str, timeout_s: float) -> Held:
    """What the database at ``uri`` holds of ``of``. Raises InfraError where it cannot be read."""
    engine = _engine(uri, timeout_s)
    try:
        with engine.connect() as connection:
            plans = _plans(connection, of)
    except sa.exc.SQLAlchemyError as error:
        raise InfraError(f"MLflow's database at {engine.url!r} cannot be read: {error}") from error
    finally:
        engine.dispose()
    return Held(list(plans.values()), lambda: _rows(uri, timeout_s, list(plans)), "its database, by SQL")


def _engine(uri: str, timeout_s: float) -> sa.Engine:
    options = {"timeout": timeout_s} if uri.startswith("sqlite:") else {}
    try:
        return sa.create_engine(uri, connect_args=options, poolclass=sa.NullPool)
    except (sa.exc.ArgumentError, ImportError) as error:
        raise InfraError(f"MLflow's database cannot be opened: {error}") from error


def _plans(connection: sa.Connection, of: str) -> dict[str, Mapping[str, str]]:
    """Tags of the active runs of kind ``plan`` that ``of`` names, by run id, in the order of their ids."""
    experiment = connection.scalar(sa.select(_EXPERIMENTS.c.experiment_id).where(_EXPERIMENTS.c.name == of))
    if experiment is None and of.isdecimal() and len(of) < 19:
        wanted = _EXPERIMENTS.c.experiment_id == int(of)
        experiment = connection.scalar(sa.select(_EXPERIMENTS.c.experiment_id).where(wanted))
    query = _active(_TAGS.c.key == KIND_TAG, _TAGS.c.value == "plan")
    if experiment is not None:
        query = query.where(_RUNS.c.experiment_id == experiment)
    else:
        named = sa.select(_TAGS.c.run_uuid).where(_TAGS.c.key == PLAN_TAG, _TAGS.c.value == of)
        query = query.where(sa.or_(_RUNS.c.run_uuid == of, _RUNS.c.run_uuid.in_(named)))
    ids = list(connection.scalars(query))
    return dict(_tags(connection, ids)) if ids else {}


def _active(*conditions: Any) -> Any:
    joined = _TAGS.join(_RUNS, _TAGS.c.run_uuid == _RUNS.c.run_uuid)
    query = sa.select(_RUNS.c.run_uuid).select_from(joined).where(_RUNS.c.lifecycle_stage == "active", *conditions)
    return query.order_by(_RUNS.c.run_uuid)


def _rows(uri: str, timeout_s: float, plans: Sequence[str]) -> Iterator[SealedRow]:
    engine = _engine(uri, timeout_s)
    try:
        with engine.connect() as connection:
            complete = _active(_TAGS.c.key == PARENT_TAG, _TAGS.c.value.in_(plans), _RUNS.c.status != "RUNNING")
            ids = iter(list(connection.scalars(complete)))
            wanted = sa.or_(_TAGS.c.key.like("recurve.row%"), _TAGS.c.key == CELL_TAG)
            while page := list(islice(ids, _PAGE)):
                for _, tags in _tags(connection, page, wanted):
                    if SEAL_TAG in tags:
                        yield sealed_row(tags)
    finally:
        engine.dispose()


def _tags(
    connection: sa.Connection,
    ids: Sequence[str],
    condition: Any = sa.true(),  # noqa: B008 - a constant of SQL
) -> Iterator[tuple[str, Mapping[str, str]]]:
    query = sa.select(_TAGS.c.run_uuid, _TAGS.c.key, _TAGS.c.value).where(_TAGS.c.run_uuid.in_(ids), condition)
    found: dict[str, dict[str, str]] = {run: {} for run in ids}
    for run, key, value in connection.execute(query):
        found[run][key] = value
    yield from found.items()
