"""What must hold of the statistics whatever the data."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recurve_eval import stats
from recurve_eval.stats import Interval, PairedTable, ShapeError, Test, Undefined
from recurve_eval.stats.resample import ratio

counts = st.integers(0, 40)
tables = st.builds(PairedTable, counts, counts, counts, counts)


@given(tables)
@settings(deadline=None, max_examples=60)
def test_intervals_hold_their_estimate_and_mirror(table: PairedTable) -> None:
    for interval_of in (stats.newcombe_paired, stats.tango_paired):
        there, back = interval_of(table), interval_of(table.swapped())
        if table.n == 0:
            assert isinstance(there.value, Undefined)
            continue
        assert isinstance(there.interval, Interval)
        assert isinstance(back.interval, Interval)
        assert isinstance(there.value, float)
        assert -1 <= there.interval.low <= there.value + 1e-9
        assert there.value - 1e-9 <= there.interval.high <= 1
        mirrored = (-back.interval.high, -back.interval.low)
        assert (there.interval.low, there.interval.high) == pytest.approx(mirrored, abs=1e-8)


@given(tables)
@settings(deadline=None, max_examples=60)
def test_mid_p_is_below_exact_and_neither_minds_the_order(table: PairedTable) -> None:
    exact, mid = stats.mcnemar_exact(table), stats.mcnemar_midp(table)
    assert 0 <= mid.p_value <= exact.p_value + 1e-12 <= 1 + 2e-12
    assert stats.mcnemar_exact(table.swapped()).p_value == pytest.approx(exact.p_value)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
@settings(deadline=None, max_examples=60)
def test_sign_flip_equals_enumeration(thirds: list[int]) -> None:
    d = [x / 3 for x in thirds]
    sums = [abs(sum(s * x for s, x in zip(signs, thirds, strict=True))) for signs in product((1, -1), repeat=len(d))]
    found = stats.sign_flip(d)
    assert isinstance(found, Test)
    assert found.p_value == pytest.approx(np.mean([s >= abs(sum(thirds)) for s in sums]))


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=60))
@settings(deadline=None, max_examples=60)
def test_sign_flip_with_one_seed_is_exact_mcnemar(d: list[int]) -> None:
    found = stats.sign_flip([float(x) for x in d])
    assert isinstance(found, Test)
    table = PairedTable(0, d.count(1), d.count(-1), d.count(0))
    assert found.p_value == pytest.approx(stats.mcnemar_exact(table).p_value)


def test_sign_flip_falls_back_to_sampling_and_never_gives_zero() -> None:
    d = (np.random.default_rng(3).normal(size=40) + 5).tolist()
    found = stats.sign_flip(d, resamples=500)
    assert isinstance(found, Test)
    assert found.p_value == pytest.approx(1 / 501)
    assert "500 flips" in found.method


@pytest.mark.parametrize("variant", ["obuchowski", "yang", "durkalski"])
def test_clustered_mcnemar_counts_clusters_not_pairs(variant: str) -> None:
    once = stats.mcnemar_clustered([1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 0], [1] * 6, variant=variant)
    copied = stats.mcnemar_clustered([9, 9, 0, 9, 9, 9], [0, 0, 9, 0, 0, 0], [9] * 6, variant=variant)
    assert isinstance(once, Test)
    assert isinstance(copied, Test)
    assert copied.statistic == pytest.approx(once.statistic)


def test_clustered_mcnemar_with_single_pairs_is_mcnemar() -> None:
    first, second = [1] * 16 + [0] * 26, [0] * 16 + [1] * 6 + [0] * 20
    plain = stats.mcnemar_asymptotic(PairedTable(20, 16, 6, 0))
    assert isinstance(plain, Test)
    for variant in ("yang", "durkalski"):
        clustered = stats.mcnemar_clustered(first, second, [1] * 42, variant=variant)
        assert isinstance(clustered, Test)
        assert clustered.statistic == pytest.approx(plain.statistic)
    factored = stats.mcnemar_clustered(first, second, [1] * 42)
    assert isinstance(factored, Test)
    assert plain.statistic is not None
    assert factored.statistic == pytest.approx(plain.statistic * 41 / 42)


def test_clustered_wilson_never_gains_from_copies() -> None:
    plain = stats.wilson(3, 10)
    copied = stats.wilson_clustered([5, 5, 5] + [0] * 7, [5] * 10)
    same = stats.wilson_clustered([1, 1, 1] + [0] * 7, [1] * 10)
    assert same == plain
    assert isinstance(plain.interval, Interval)
    assert isinstance(copied.interval, Interval)
    assert copied.interval.low < plain.interval.low
    assert copied.interval.high > plain.interval.high
    none = stats.wilson_clustered([0] * 10, [5] * 10)
    assert isinstance(none.interval, Interval)
    assert none.interval.high > stats.wilson(0, 11).interval.high  # type: ignore[union-attr]


def test_undefined_is_never_a_number() -> None:
    nothing = stats.wilson(0, 0)
    assert isinstance(nothing.value, Undefined)
    assert isinstance(nothing.interval, Undefined)
    assert nothing.value.reason
    empty = PairedTable(5, 0, 0, 5)
    for found in (
        stats.mcnemar_asymptotic(empty), stats.mcnemar_clustered([0], [0], [1]), stats.cochran_q([[1, 1], [0, 0]]),
        stats.sign_flip([]), stats.fdr_score([0], [0], [1], [1]), stats.fdr_score([1], [0], [1], [0]),
        stats.weighted_generalised_score([0, 0, 3, 1], [0, 0, 2, 4]), stats.corrected_rate(0.2, 0.5, 0.5),
    ):  # fmt: skip
        assert isinstance(found, Undefined)
        assert len(found.reason) > 10


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.wilson(3, 2),
        lambda: PairedTable(-1, 0, 0, 0),
        lambda: stats.cochran_q([[1, 2]]),
        lambda: stats.holm({"a": 1.5}),
        lambda: stats.pass_at_k(3, 4, 1),
        lambda: stats.fdr_score([1], [2], [1], [0]),
        lambda: stats.mcnemar_clustered([2], [0], [1]),
        lambda: stats.sign_flip([[1.0, 2.0]]),  # type: ignore[list-item]
        lambda: stats.resampled_sums([1.0, 2.0]),
    ],
)
def test_impossible_shapes_are_refused(call: object) -> None:
    with pytest.raises(ShapeError):
        call()  # type: ignore[operator]


def test_bootstrap_keeps_pairs_and_repeats_itself() -> None:
    x = np.random.default_rng(1).integers(0, 2, size=(60, 2))
    columns = np.column_stack([x, x[:, 0] * 2])
    sums = stats.resampled_sums(columns, resamples=300, seed=5)
    assert np.array_equal(sums[:, 2], 2 * sums[:, 0])
    assert np.array_equal(sums, stats.resampled_sums(columns, resamples=300, seed=5))
    assert not np.array_equal(sums, stats.resampled_sums(columns, resamples=300, seed=6))
    assert sums[:, 0].mean() == pytest.approx(x[:, 0].sum(), rel=0.1)


def test_bootstrap_claims_no_certainty() -> None:
    assert isinstance(stats.cluster_bootstrap([[1.0, 1.0]], ratio(0, 1)).interval, Undefined)
    assert isinstance(stats.cluster_bootstrap([[1.0, 1.0]] * 9, ratio(0, 1)).interval, Undefined)
    assert isinstance(stats.cluster_bootstrap([[1.0, 0.0]] * 9, ratio(0, 1)).value, Undefined)
    assert isinstance(stats.cluster_bootstrap(np.empty((0, 2)), ratio(0, 1)).value, Undefined)
    rare = [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    lost = stats.cluster_bootstrap(rare, ratio(0, 1)).interval
    assert isinstance(lost, Undefined)
    assert "replicates" in lost.reason


def test_bootstrap_interval_covers_a_known_mean() -> None:
    rng, hits = np.random.default_rng(1), 0
    for trial in range(300):
        d = rng.normal(0.3, 1.0, size=30)
        found = stats.cluster_bootstrap(
            np.column_stack([d, np.ones(30)]), ratio(0, 1), resamples=800, seed=trial
        ).interval
        assert isinstance(found, Interval)
        hits += found.low <= 0.3 <= found.high
    assert 273 <= hits <= 295


def test_the_fdr_test_holds_its_size_where_bad_work_is_rare() -> None:
    """Twenty tasks, FDR .05, a treatment that declares less: the uncorrected score rejects too often."""
    rng, rejected = np.random.default_rng(2), {True: 0, False: 0}
    for _ in range(1500):
        hard = rng.beta(0.1, 1.9, size=20)
        bad1, bad2, declared = rng.random(20) < hard, rng.random(20) < hard, rng.random(20) < 0.6
        for correction in rejected:
            found = stats.fdr_score(np.ones(20), bad1, declared, bad2 & declared, correction=correction)
            rejected[correction] += isinstance(found, Test) and found.p_value <= 0.05
    assert rejected[True] <= 75 < rejected[False]


def test_the_fdr_score_counts_tasks_not_seeds() -> None:
    one = stats.fdr_score([1] * 12, [1] * 6 + [0] * 6, [1] * 12, [0] * 11 + [1], correction=False)
    many = stats.fdr_score([9] * 12, [9] * 6 + [0] * 6, [9] * 12, [0] * 11 + [9], correction=False)
    assert isinstance(one, Test)
    assert isinstance(many, Test)
    assert one.statistic is not None
    assert many.statistic == pytest.approx(one.statistic, rel=0.25)


def test_power_grows_and_design_is_refused() -> None:
    few, many = stats.smallest_detectable_effect(40), stats.smallest_detectable_effect(400)
    assert isinstance(few.delta_one_way, float)
    assert isinstance(many.delta_one_way, float)
    assert many.delta_one_way < few.delta_one_way
    assert isinstance(many.delta, float)
    half = many.discordance / 2
    seen = stats.mcnemar_power(half + many.delta / 2, half - many.delta / 2, 400)
    assert seen == pytest.approx(0.8, abs=1e-3)
    refused = stats.smallest_detectable_effect(5)
    assert "even perfect separation" in refused.refused
    assert isinstance(refused.delta, Undefined)
    assert not stats.smallest_detectable_effect(6).refused


def test_seeds_help_a_design_only_as_far_as_they_are_independent() -> None:
    assert stats.smallest_detectable_effect(50, seeds=4, icc=1.0).pairs == 50
    assert stats.smallest_detectable_effect(50, seeds=4, icc=0.0).pairs == 200
    assert stats.smallest_detectable_effect(5, seeds=100, icc=0.0).refused


def test_power_by_simulation() -> None:
    rng = np.random.default_rng(11)
    split = rng.multinomial(40, [0.35, 0.1, 0.55], size=4000)
    pairs = [(int(b), int(c)) for b, c, _ in split]
    p = {(b, c): stats.mcnemar_exact(PairedTable(0, b, c, 0)).p_value for b, c in set(pairs)}
    rejected = np.mean([p[pair] <= 0.05 for pair in pairs])
    assert stats.mcnemar_power(0.35, 0.1, 40) == pytest.approx(rejected, abs=4 * math.sqrt(0.25 / 4000))


def test_corrected_rate_undoes_the_oracles_errors() -> None:
    truth, fails_bad, passes_good = 0.2, 0.98, 0.95
    observed = truth * fails_bad + (1 - truth) * (1 - passes_good)
    assert stats.corrected_rate(observed, fails_bad, passes_good) == pytest.approx(truth)
    assert stats.corrected_rate(0.01, 0.98, 0.95) == 0.0
