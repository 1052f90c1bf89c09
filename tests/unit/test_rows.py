"""Rows are checked by the schema, every broken field is named, and flattening loses nothing."""

from __future__ import annotations

import copy
import json
import random
import time
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ledger_samples import cell_id, sample_row

from recurve_eval.errors import InfraError
from recurve_eval.rows import InvalidRow, flatten, frame, schema, validate
from recurve_eval.tiers import tier_of


@pytest.mark.parametrize("unscored", [False, True])
def test_a_sealed_row_is_valid(unscored: bool) -> None:
    validate(sample_row(1, unscored=unscored))


@pytest.mark.parametrize(
    ("group", "field", "value", "named"),
    [
        ("identity", "cell_id", "XYZ", "identity.cell_id"),
        ("identity", "seed", "0", "identity.seed"),
        ("identity", "seed", True, "identity.seed"),
        ("declaration", "stop_reason", "tired", "declaration.stop_reason"),
        ("verdict", "oracle_verdict", "maybe", "verdict.oracle_verdict"),
        ("verdict", "flake_rate", 1.5, "verdict.flake_rate"),
        ("usage", "cost_usd", -0.01, "usage.cost_usd"),
        ("usage", "wall_s", float("nan"), "usage.wall_s"),
        ("usage", "agent_wall_s", float("inf"), "usage.agent_wall_s"),
        ("attestation", "capture", {"a.py": "fine"}, "attestation.capture.a.py"),
        ("derived", "false_done", None, "derived.false_done"),
    ],
)
def test_a_broken_field_is_named(group: str, field: str, value: Any, named: str) -> None:
    row = sample_row(1)
    row[group][field] = value
    with pytest.raises(InvalidRow, match=named.replace(".", r"\.")) as caught:
        validate(row)
    assert isinstance(caught.value, InfraError) and isinstance(caught.value, ValueError)


def test_missing_and_unknown_fields_are_named() -> None:
    missing, unknown, groupless = sample_row(), sample_row(), sample_row()
    del missing["usage"]["steps"]
    unknown["usage"]["stepz"] = 1
    del groupless["gate"]
    for row, word in ((missing, "'steps' is a required"), (unknown, "stepz"), (groupless, "'gate' is a required")):
        with pytest.raises(InvalidRow, match=word):
            validate(row)


def test_an_unscored_row_needs_its_reason_and_no_false_done() -> None:
    row = sample_row(1, unscored=True)
    row["verdict"]["reason"] = None
    with pytest.raises(InvalidRow, match=r"verdict\.reason"):
        validate(row)


def test_the_compiled_validator_agrees_with_the_reference_validator() -> None:
    rng, reference = random.Random(7), Draft202012Validator(schema())
    values = [None, 0, 1, -1, 0.5, "x", "pass", "unscored", True, [], {}, "a" * 64, "infra"]
    verdicts = set()
    for _ in range(1500):
        row = copy.deepcopy(sample_row(rng.randrange(9), unscored=rng.random() < 0.3))
        group = rng.choice(list(row))
        field = rng.choice(list(row[group]))
        if rng.random() < 0.2:
            del row[group][field]
        elif rng.random() < 0.6:
            row[group][field] = rng.choice(values)
        expected = reference.is_valid(row) and row["gate"]["tier"] == tier_of(row["gate"])
        verdicts.add(expected)
        try:
            validate(row)
        except InvalidRow:
            assert not expected, (group, field, row[group].get(field))
        else:
            assert expected, (group, field, row[group].get(field))
    assert verdicts == {True, False}


def test_flatten_names_every_leaf() -> None:
    flat = flatten(sample_row(2))
    assert flat["gate.outcome"] == "GREEN"
    assert flat["gate.boundary.violations"] == 0
    assert flat["gate.challenge_events"] == "[]"
    assert json.loads(str(flat["gate.config.checks"])) == sample_row()["gate"]["config"]["checks"]
    assert flat["usage.tokens_in"] is None
    assert all(value is None or isinstance(value, str | int | float | bool) for value in flat.values())


def test_frame_has_a_line_per_row_and_leaves_unknown_missing() -> None:
    table = frame([sample_row(n) for n in range(5)])
    assert list(table["identity.cell_id"]) == [cell_id(n) for n in range(5)]
    assert table["usage.tokens_in"].isna().all()
    assert len(frame([])) == 0


def test_validation_is_a_small_part_of_sealing() -> None:
    row = sample_row(1, padding=600)
    validate(row)
    start = time.process_time()
    for _ in range(100):
        validate(row)
    assert (time.process_time() - start) / 100 < 0.002


def test_a_tier_written_by_hand_is_refused() -> None:
    row = copy.deepcopy(sample_row(1))
    row["gate"] |= {"outcome": "GREEN", "claims": 1, "admission": {"admitted": True, "red_first": True}}
    row["gate"]["tier"] = "trap_hardened"
    validate(row)
    for tier in (None, "self_probe", "adversary_cross_model", "platinum"):
        row["gate"]["tier"] = tier
        with pytest.raises(InvalidRow, match=r"gate\.tier: .* a tier is derived"):
            validate(row)
