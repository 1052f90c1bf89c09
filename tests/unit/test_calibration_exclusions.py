"""Exclusion tables: a reason each, no typos, and a hash that moves with every word."""

from __future__ import annotations

from pathlib import Path

import pytest

from recurve_eval import app
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.exclusions import Exclusions, read_exclusions
from recurve_eval.plan import select_tasks
from recurve_eval.resources import oracle_dir

HEAD = "benchmark: demo\nexclusions:\n"


def table(tmp_path: Path, body: str, name: str = "demo") -> Exclusions:
    (tmp_path / "demo.yaml").write_text(body, encoding="utf-8")
    return read_exclusions(name, str(tmp_path))


def test_a_table_is_read_and_hashed(tmp_path: Path) -> None:
    one = table(tmp_path, HEAD + "  - {task: flatten, reason: too deep}\n")
    assert dict(one.reasons) == {"flatten": "too deep"}
    other = table(tmp_path, HEAD + "  - {task: flatten, reason: too flat}\n")
    assert len({one.hash, other.hash, Exclusions().hash}) == 3
    assert table(tmp_path, "benchmark: demo\nexclusions: []\n").hash == Exclusions().hash
    assert read_exclusions("absent", str(tmp_path)).hash == Exclusions().hash


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (HEAD + "  - {task: flatten}\n", "without a reason"),
        (HEAD + "  - {task: flatten, reason: '  '}\n", "without a reason"),
        (HEAD + "  - {task: flatten, reason: a}\n  - {task: flatten, reason: b}\n", "excluded twice"),
        (HEAD + "  - flatten\n", "each exclusion is"),
        (HEAD + "  - {task: flatten, reson: a}\n", "each exclusion is"),
        ("benchmark: other\nexclusions: []\n", "is for benchmark 'other'"),
        ("exclusions: []\n", "exactly the keys"),
        ("benchmark: [\n", "cannot be read"),
    ],
)
def test_a_malformed_table_is_refused(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refusal:
        table(tmp_path, body)
    assert "demo.yaml" in str(refusal.value)


def test_a_directory_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a directory of exclusion tables"):
        read_exclusions("demo", "/nowhere/at/all")


def test_every_shipped_table_can_be_read() -> None:
    for path in (oracle_dir() / "exclusions").glob("*.yaml"):
        assert read_exclusions(path.stem).reasons


def test_selection_leaves_excluded_tasks_out_and_samples_from_the_rest() -> None:
    known, out = [f"t{i}" for i in range(10)], {"t3": "why"}
    assert select_tasks(known, "all", out) == tuple(t for t in known if t != "t3")
    assert select_tasks(known, ["t2", "t3"], out) == ("t2",)
    assert "t3" not in select_tasks(known, {"n": 9, "seed": 0}, out)
    with pytest.raises(ConfigError, match="between 1 and the benchmark's 9 tasks"):
        select_tasks(known, {"n": 10}, out)
    with pytest.raises(ConfigError, match=r"every selected task is excluded: t3 \(why\)"):
        select_tasks(known, ["t3"], out)


def test_a_plan_leaves_them_out_names_them_and_carries_the_hash(composing: None, tmp_path: Path) -> None:
    words = ["oracle=process", "sandbox=process", f"calibrate.exclusions={tmp_path}"]
    plain = app.build_study(words).plan
    held = table(tmp_path, HEAD + "  - {task: flatten, reason: too deep}\n")
    study = app.build_study(words)
    (condition,) = study.plan.conditions
    assert set(plain.conditions[0].task_ids) - set(condition.task_ids) == {"flatten"}
    assert condition.excluded == {"flatten": "too deep"}
    assert condition.pins["benchmark"]["exclusions_hash"] == held.hash == study.lock()["exclusions"]["demo"]
    table(tmp_path, HEAD + "  - {task: flatten, reason: reworded}\n")
    assert len({plain.hash, study.plan.hash, app.build_study(words).plan.hash}) == 3


def test_a_table_that_names_an_unknown_task_is_refused(composing: None, tmp_path: Path) -> None:
    table(tmp_path, HEAD + "  - {task: flaten, reason: typo}\n")
    with pytest.raises(UnknownName, match="Did you mean 'flatten'"):
        app.build_study(["oracle=process", "sandbox=process", f"calibrate.exclusions={tmp_path}"])
