"""Miss-correlation, phi and kappa against numbers worked out by hand and published ones."""

from __future__ import annotations

import pytest

from recurve_eval.stats import Interval, PairedTable, Undefined, is_defined, kappa, miss_correlation, phi


def test_rho_is_the_ratio_of_the_conditional_rate_to_the_rate() -> None:
    # Actor missed 4, of which the adversary missed 3; it missed 5 of all 10: (3/4) / (5/10).
    found = miss_correlation([PairedTable(3, 1, 0, 1), PairedTable(0, 0, 2, 3)], resamples=200)
    assert found.rho.value == pytest.approx(1.5)
    assert (found.table, found.clusters) == (PairedTable(3, 1, 2, 4), 2)


def test_independent_misses_have_a_rho_of_one_and_a_phi_of_zero() -> None:
    found = miss_correlation([PairedTable(1, 1, 1, 1)] * 8, resamples=200)
    assert found.rho.value == pytest.approx(1.0)
    assert found.phi == pytest.approx(0.0)
    assert found.kappa == pytest.approx(0.0)


def test_the_interval_resamples_tasks_and_not_items() -> None:
    spread = [PairedTable(1, 0, 0, 0), PairedTable(0, 0, 0, 1), PairedTable(0, 1, 0, 0), PairedTable(0, 0, 1, 0)] * 10
    few = [PairedTable(10, 0, 0, 0), PairedTable(0, 0, 0, 10), PairedTable(0, 10, 0, 0), PairedTable(0, 0, 10, 0)]
    wide, narrow = (miss_correlation(tables, resamples=2000, seed=1).rho.interval for tables in (few, spread))
    assert isinstance(narrow, Interval)
    assert isinstance(wide, Undefined) or wide.high - wide.low > narrow.high - narrow.low


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (PairedTable(0, 0, 3, 2), "the actor missed nothing"),
        (PairedTable(0, 3, 0, 2), "the adversary missed nothing"),
        (PairedTable(0, 0, 0, 0), "nothing that both have judged"),
    ],
)
def test_what_has_no_value_says_why(table: PairedTable, reason: str) -> None:
    found = miss_correlation([table])
    assert isinstance(found.rho.value, Undefined)
    assert reason in found.rho.value.reason


def test_kappa_and_phi_of_published_and_degenerate_tables() -> None:
    # 20 and 15 agreements, 5 and 10 disagreements of 50: kappa is 0.4.
    assert kappa(PairedTable(20, 5, 10, 15)) == pytest.approx(0.4)
    assert phi(PairedTable(20, 5, 10, 15)) == pytest.approx((20 * 15 - 5 * 10) / (25 * 25 * 30 * 20) ** 0.5)
    assert not is_defined(phi(PairedTable(3, 0, 2, 0)))
    assert not is_defined(kappa(PairedTable(5, 0, 0, 0)))
