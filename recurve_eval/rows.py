"""Result rows: checked against schema version 1, flattened to columns, gathered into a table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from recurve_eval.domain import JSON, canonical_json
from recurve_eval.errors import InfraError
from recurve_eval.resources import schema_path
from recurve_eval.tiers import tier_of

if TYPE_CHECKING:
    import pandas

Scalar = str | int | float | bool | None
GROUPS = ("identity", "declaration", "gate", "verdict", "derived", "usage", "provenance", "attestation")


class InvalidRow(InfraError, ValueError):
    """A row breaks the schema; the message names the field."""


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a row, version 1."""
    loaded: dict[str, Any] = json.loads(schema_path("row-1").read_text())
    return loaded


def validate(row: Mapping[str, JSON]) -> None:
    """Check a row of plain JSON values against the schema. Raises InvalidRow, naming the field."""
    fast, error = _fast_validator()
    try:
        fast(row)
    except error as failure:
        raise InvalidRow(_explain(row) or str(failure)) from None
    gate = row["gate"]
    if gate["tier"] != tier_of(gate):
        raise InvalidRow(f"row field gate.tier: '{gate['tier']}' is not what ran ({tier_of(gate)}): a tier is derived")
    infinite = [name for name, value in flatten(row).items() if isinstance(value, float) and not math.isfinite(value)]
    if infinite:
        raise InvalidRow(f"row field {infinite[0]}: a number must be finite; unknown is null")


def flatten(value: Mapping[str, JSON], prefix: str = "") -> dict[str, Scalar]:
    """Nested mappings as one, with names such as ``gate.outcome``; lists become their JSON text."""
    flat: dict[str, Scalar] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            flat.update(flatten(item, f"{name}."))
        elif isinstance(item, Mapping | list | tuple):
            flat[name] = canonical_json(item)
        else:
            flat[name] = item
    return flat


def frame(rows: Iterable[Mapping[str, JSON]]) -> pandas.DataFrame:
    """One table line per row, one column per flattened field; a field that a row lacks is missing there."""
    import pandas

    return pandas.DataFrame([flatten(row) for row in rows])


@cache
def _fast_validator() -> tuple[Any, type[Exception]]:
    # Compiled to Python source: about twenty times faster than walking the schema for every row.
    import fastjsonschema

    return fastjsonschema.compile(schema()), fastjsonschema.JsonSchemaException


def _explain(row: Mapping[str, JSON]) -> str:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError, best_match

    def leaves(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
        for error in errors:
            yield from leaves(error.context) if error.context else (error,)

    worst = best_match(leaves(Draft202012Validator(schema()).iter_errors(row)))
    if worst is None:
        return ""
    return f"row field {'.'.join(str(part) for part in worst.absolute_path) or '(row)'}: {worst.message[:300]}"
