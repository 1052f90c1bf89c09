"""Published and cross-computed values that every statistic must reproduce."""

from __future__ import annotations

import numpy as np
import pytest

from recurve_eval import stats
from recurve_eval.stats import Estimate, Interval, PairedTable, Test, Undefined


def limits(estimate: Estimate) -> tuple[float, float]:
    assert isinstance(estimate.interval, Interval)
    return estimate.interval.low, estimate.interval.high


def p(test: Test | Undefined) -> float:
    assert isinstance(test, Test)
    return test.p_value


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson(count: int, n: int, low: float, high: float) -> None:
    rate = stats.wilson(count, n)
    assert isinstance(rate.interval, Interval)
    assert (rate.interval.low, rate.interval.high) == pytest.approx((low, high), abs=5e-5)
    assert (rate.count, rate.n, rate.value) == (count, n, pytest.approx(count / n))


@pytest.mark.parametrize(("count", "n"), [(0, 1), (1, 1), (3, 7), (50, 50), (123, 1000)])
def test_wilson_is_that_of_scipy(count: int, n: int) -> None:
    from scipy.stats import binomtest

    theirs = binomtest(count, n).proportion_ci(method="wilson")
    ours = stats.wilson(count, n).interval
    assert isinstance(ours, Interval)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_paired_migraine_table() -> None:
    table = PairedTable.of([[59, 6], [16, 80]])
    assert p(stats.mcnemar_exact(table)) == pytest.approx(0.052479, abs=5e-7)
    assert p(stats.mcnemar_midp(table)) == pytest.approx(0.034690, abs=5e-7)
    assert p(stats.mcnemar_asymptotic(table)) == pytest.approx(0.033006, abs=5e-7)
    assert p(stats.mcnemar_asymptotic(table, correction=True)) == pytest.approx(0.055009, abs=5e-7)
    assert limits(stats.newcombe_paired(table)) == pytest.approx((-0.1186, -0.0046), abs=5e-5)
    assert limits(stats.tango_paired(table)) == pytest.approx((-0.1240, -0.0054), abs=5e-5)


def test_paired_airway_table() -> None:
    table = PairedTable.of([[1, 1], [7, 12]])
    assert p(stats.mcnemar_exact(table)) == pytest.approx(0.070312, abs=1e-6)
    assert p(stats.mcnemar_midp(table)) == pytest.approx(0.039063, abs=1e-6)
    assert limits(stats.newcombe_paired(table)) == pytest.approx((-0.5069, -0.0256), abs=5e-5)


def test_corrected_chi_square() -> None:
    table = PairedTable.of([[20, 12], [2, 16]])
    assert p(stats.mcnemar_exact(table)) == pytest.approx(0.0129, abs=5e-5)
    corrected = stats.mcnemar_asymptotic(table, correction=True)
    assert isinstance(corrected, Test)
    assert corrected.statistic == pytest.approx(5.785714, abs=1e-6)


@pytest.mark.parametrize(
    ("cells", "exact"),
    [
        ([[101, 121], [59, 33]], 4.434449e-06),
        ([[101, 70], [59, 33]], 0.378688),
        ([[101, 80], [59, 33]], 0.089452),
        ([[48, 28], [35, 53]], 0.45),
    ],
)
def test_exact_mcnemar(cells: list[list[int]], exact: float) -> None:
    assert p(stats.mcnemar_exact(PairedTable.of(cells))) == pytest.approx(exact, rel=2e-4)


def test_asymptotic_mcnemar() -> None:
    found = stats.mcnemar_asymptotic(PairedTable.of([[48, 28], [35, 53]]))
    assert isinstance(found, Test)
    assert (found.statistic, found.p_value) == (pytest.approx(0.7778, abs=5e-5), pytest.approx(0.3778, abs=5e-5))


def test_kosinski_predictive_values() -> None:
    diseased, healthy = [319, 78, 22, 32], [31, 53, 22, 155]
    found = stats.weighted_generalised_score(diseased, healthy)
    assert isinstance(found, Test)
    assert pytest.approx(0.82536383) == (319 + 78) / (319 + 78 + 31 + 53)
    assert pytest.approx(0.86548223) == (319 + 22) / (319 + 22 + 31 + 22)
    assert (found.statistic, found.p_value) == (pytest.approx(5.46588745), pytest.approx(0.01939120, abs=5e-9))


def test_the_fdr_score_is_kosinskis_where_both_arms_share_one_truth() -> None:
    diseased, healthy = [319, 78, 22, 32], [31, 53, 22, 155]
    first = np.repeat([1, 1, 0, 0] * 2, diseased + healthy)
    second = np.repeat([1, 0, 1, 0] * 2, diseased + healthy)
    sick = np.repeat([1, 0], [sum(diseased), sum(healthy)])
    ours = stats.fdr_score(first, first * sick, second, second * sick, correction=False)
    assert isinstance(ours, Test)
    assert ours.statistic == pytest.approx(5.46588745)
    assert p(stats.fdr_score(first, first * sick, second, second * sick)) > p(ours)


def test_cochran_q_of_conover() -> None:
    table = [
        [1, 1, 1], [1, 1, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1],
        [1, 1, 1], [1, 1, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1], [1, 1, 1],
    ]  # fmt: skip
    found = stats.cochran_q(table)
    assert isinstance(found, Test)
    assert (found.statistic, found.p_value, found.df) == (pytest.approx(2.8), pytest.approx(0.246597, abs=1e-6), 2)


def test_holm() -> None:
    adjusted = stats.holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(adjusted) == ["a", "b", "c", "d"]


def test_pass_at_k() -> None:
    assert stats.pass_at_k(10, 3, 5) == pytest.approx(0.916667, abs=5e-7)
    assert stats.pass_hat_k(10, 3, 2) == pytest.approx(3 / 45)
    assert stats.pass_hat_k(10, 3, 4) == 0.0
    assert isinstance(stats.pass_at_k(3, 1, 5), Undefined)


def test_seeds_do_not_multiply_the_evidence() -> None:
    """Four tasks of three seeds, all won: 2/16, never 2/4096."""
    assert p(stats.sign_flip([1.0] * 4)) == pytest.approx(2 / 16)
    assert p(stats.sign_flip([1 / 3] * 4)) == pytest.approx(2 / 16)


def test_exact_mcnemar_needs_six_one_way() -> None:
    assert stats.fewest_discordant(0.05) == 6
    assert p(stats.mcnemar_exact(PairedTable(0, 6, 0, 0))) <= 0.05 < p(stats.mcnemar_exact(PairedTable(0, 5, 0, 0)))


def test_power() -> None:
    assert stats.mcnemar_power(0.15, 0.05, 155) == pytest.approx(0.762, abs=5e-4)
    assert stats.mcnemar_power(0.15, 0.05, 155, mid_p=True) == pytest.approx(0.808, abs=5e-4)
    assert stats.mcnemar_power(0.15, 0.05, 79) == pytest.approx(0.43, abs=5e-3)
