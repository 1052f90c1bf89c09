"""Calibration files and gradings: sealed, named for what they were made for, and refused once altered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.calibration.document import Settings, p99
from recurve_eval.calibration.judge import rates_for_run
from recurve_eval.calibration.store import Row, Store, seal_of
from recurve_eval.calibration.subject import key_of
from recurve_eval.errors import Drift
from recurve_eval.locks import facts_moved

HASHES = ("a" * 64, "b" * 64, "c" * 64)
KEY = key_of(*HASHES)


def document(**changes: Any) -> dict[str, Any]:
    rate = {"count": 9, "n": 10, "value": 0.9, "low": 0.6, "high": 0.98}
    base = {
        "schema": 1, "key": KEY, "oracle": {"hash": HASHES[0]}, "dataset": {"hash": HASHES[1]},
        "exclusions": {"hash": HASHES[2]}, "green": True, "sensitivity": rate, "specificity": {**rate, "count": 8},
        "tasks": {},
    }  # fmt: skip
    return {**base, **changes}


def row(attempt: int = 0, **changes: Any) -> Row:
    fields: dict[str, Any] = {
        "task_id": "t", "role": "canonical", "kind": "", "submission": "s", "fingerprint": "f", "attempt": attempt,
        "verdict": "pass", "reason": None, "detail": "", "tests_passed": 1, "tests_total": 1, "retried": False,
        "flake_rate": 0.0, "wall_s": 0.1,
    }  # fmt: skip
    return Row(**{**fields, **changes})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "some/bench mark")


def test_what_is_written_is_read_back(store: Store) -> None:
    path = store.write(document())
    held = store.read(KEY)
    assert held is not None and held["seal"] == seal_of(document())
    assert path.parent.name == "some_bench_mark"
    assert [p.name for p in path.parent.iterdir()] == [f"{KEY}.json"]
    assert store.read("0" * 32) is None


def altered(change: Callable[[dict[str, Any]], None]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        held = json.loads(text)
        change(held)
        return json.dumps(held)

    return apply


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (altered(lambda d: d.update(green=False)), "its seal does not hold"),
        (altered(lambda d: d["sensitivity"].update(count=10)), "its seal does not hold"),
        (altered(lambda d: d.pop("seal")), "its seal does not hold"),
        (altered(lambda d: d.update(schema=2)), "is not a calibration of schema 1"),
        (lambda text: text[:-30], "cannot be read"),
        (lambda text: "[]", "is not a calibration"),
    ],
)
def test_a_doctored_file_is_refused_by_name(store: Store, change: Callable[[str], str], said: str) -> None:
    path = store.write(document())
    path.write_text(change(path.read_text()))
    with pytest.raises(Drift, match=said) as refusal:
        store.read(KEY)
    assert str(path) in str(refusal.value)
    assert "calibrate again" in str(refusal.value)


def test_a_calibration_of_something_else_under_this_name_is_refused(store: Store) -> None:
    store.write(document()).rename(store.path("0" * 32))
    with pytest.raises(Drift, match="not the one that it is named for"):
        store.read("0" * 32)
    resealed = document(oracle={"hash": "f" * 64})
    store.write(resealed)
    with pytest.raises(Drift, match="not the one that it is named for"):
        store.read(KEY)


def test_gradings_are_kept_and_an_altered_one_is_refused(store: Store) -> None:
    rows = store.rows(KEY)
    rows.add(row())
    rows.add(row(1, verdict="fail"))
    again = store.rows(KEY)
    assert again.get("f", 0) == row()
    assert again.get("f", 1) == row(1, verdict="fail")
    assert again.get("f", 2) is None
    path = store.root / f"{KEY}.rows.jsonl"
    path.write_text(path.read_text().replace('"fail"', '"pass"'))
    with pytest.raises(Drift, match="altered after it was written"):
        store.rows(KEY)


def test_a_torn_last_grading_is_set_aside(store: Store) -> None:
    store.rows(KEY).add(row())
    path = store.root / f"{KEY}.rows.jsonl"
    with path.open("a") as file:
        file.write('{"seal":"12')
    rows = store.rows(KEY)
    assert rows.get("f", 0) == row()
    rows.add(row(1))
    assert store.rows(KEY).get("f", 1) == row(1)


def test_derived_limits_come_from_the_ninety_ninth_percentile_and_never_fall_below_the_floor() -> None:
    assert p99([0.1] * 98 + [7.0, 9.0]) == 7.0
    assert p99([3.0]) == 3.0
    settings = Settings(timeout_floor_s=2.0, timeout_factor=5.0)
    assert settings.derived([0.1, 0.2]) == 2.0
    assert settings.derived([1.0, 2.0]) == 10.0
    assert settings.derived([]) == 2.0


def test_a_moved_fact_has_a_name() -> None:
    here = {"concurrency": 2, "limits": {"memory_mb": 1, "processes": 5}, "new": None}
    there = {"concurrency": 4, "limits": {"memory_mb": 1, "processes": 6}}
    assert list(facts_moved(here, there)) == [("concurrency", 2, 4), ("limits.processes", 5, 6)]


def plan_of(*datasets: str) -> dict[str, Any]:
    return {
        "conditions": [
            {
                "pins": {"benchmark": {"dataset_hash": d, "exclusions_hash": HASHES[2]}, "oracle": HASHES[0]},
                "config": {"task": {"name": "some/bench mark"}},
            }
            for d in datasets
        ]
    }


def test_a_run_finds_the_rates_of_its_own_calibration_only(tmp_path: Path, store: Store) -> None:
    run_dir = tmp_path / "study" / "hash"
    assert rates_for_run(run_dir, plan_of(HASHES[1])) is None
    store.write(document())
    assert rates_for_run(run_dir, plan_of(HASHES[1], HASHES[1])) == {"fails_bad": [8, 10], "passes_good": [9, 10]}
    assert rates_for_run(run_dir, plan_of("e" * 64)) is None
    assert rates_for_run(run_dir, plan_of(HASHES[1], "e" * 64)) is None
    store.write(document(green=False))
    assert rates_for_run(run_dir, plan_of(HASHES[1])) is None
