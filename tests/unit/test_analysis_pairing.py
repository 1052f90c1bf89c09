"""One function decides which cells are partners, and refuses what would bias a pair."""

from __future__ import annotations

import numpy as np
import pytest
from analysis_samples import row, unscored

from recurve_eval.analysis import pair, records_of, stratify
from recurve_eval.analysis.endpoints import ENDPOINTS
from recurve_eval.analysis.records import natural
from recurve_eval.errors import ConfigError
from recurve_eval.stats import PairedTable, ShapeError

BAD = ENDPOINTS["ship_bad"]


def test_partners_share_task_and_seed_whatever_the_order() -> None:
    rows = [row(f"t{n}", "A0", verdict="pass" if n % 3 else "fail") for n in range(6)]
    rows += [row(f"t{n}", "A1", verdict="pass" if (n + 1) % 3 else "fail") for n in range(6)]
    there, back = (pair(records_of(r), "A0", "A1") for r in (rows, rows[::-1]))
    assert there == back
    assert [p.key.task_id for p in there.pairs] == [f"t{n}" for n in range(6)]
    assert all(p.baseline.arm == "A0" and p.treatment.arm == "A1" for p in there.pairs)
    assert there.table(BAD) == PairedTable(0, 2, 2, 2)


def test_duplicates_are_refused_by_name() -> None:
    first, again = row("t1"), row("t1", plan="f" * 64)
    with pytest.raises(ShapeError, match=r"arm A0 has two results for .*task_id t1.*seed 0"):
        pair(records_of([first, again, row("t1", "A1")]), "A0", "A1")


def test_missing_partners_are_listed_and_never_dropped_silently() -> None:
    rows = [row("t1"), row("t1", "A1"), row("t2"), row("t3", "A1"), row("t1", "A1", seed=1)]
    found = pair(records_of(rows), "A0", "A1")
    assert [(k.task_id, k.seed) for k in found.only_baseline] == [("t2", 0)]
    assert [(k.task_id, k.seed) for k in found.only_treatment] == [("t1", 1), ("t3", 0)]


def test_pooled_seeds_are_refused_and_the_right_test_is_named() -> None:
    rows = [row("t1", arm, seed=seed) for arm in ("A0", "A1") for seed in (0, 1)]
    found = pair(records_of(rows), "A0", "A1")
    with pytest.raises(ShapeError, match=r"sign_flip over task_means"):
        found.table(BAD)


def test_models_are_never_pooled() -> None:
    rows = [row("t1", arm, model=model) for arm in ("A0", "A1") for model in ("haiku", "sonnet")]
    records = records_of(rows)
    with pytest.raises(ShapeError, match="stratify"):
        pair(records, "A0", "A1")
    assert [s.model for s in stratify(records)] == ["haiku", "sonnet"]


def test_an_arm_has_no_effect_on_itself() -> None:
    with pytest.raises(ShapeError, match="under another name"):
        pair(records_of([row()]), "A0", "A0")


def test_task_means_average_seeds_first() -> None:
    rows = [row("t1", "A0", seed=s, verdict="fail") for s in range(3)] + [row("t1", "A1", seed=s) for s in range(3)]
    rows += [row("t2", "A0"), row("t2", "A1", verdict="fail")]
    found = pair(records_of(rows), "A0", "A1")
    assert np.array_equal(found.task_means(BAD), [-1.0, 1.0])


def test_unscored_pairs_leave_the_scored_ones() -> None:
    rows = [row("t1"), unscored("t1", "A1"), row("t2"), row("t2", "A1")]
    found = pair(records_of(rows), "A0", "A1")
    assert (len(found.pairs), len(found.scored.pairs)) == (2, 1)


def test_rows_that_contradict_themselves_are_refused() -> None:
    broken = row(verdict="fail")
    broken["derived"]["outcome"] = "shipped_good"
    with pytest.raises(ConfigError, match="says shipped_good, but its parts make it shipped_bad"):
        records_of([broken])
    with pytest.raises(ConfigError, match="row 2 is not a result row"):
        records_of([row(), {"identity": {}}])


def test_arms_sort_as_people_count() -> None:
    assert sorted(["A10", "A2", "A0b", "A0", "A1"], key=natural) == ["A0", "A0b", "A1", "A2", "A10"]
