"""Money is set aside before it moves, never exceeds its authority, and unknown costs the ceiling."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from ledger_samples import cell_id, python

from recurve_eval.errors import ConfigError, Drift, Refused, SpendRefused
from recurve_eval.spend import SpendLedger, Totals


def test_the_authority_is_exact(tmp_path: Path) -> None:
    spend = SpendLedger(tmp_path, 1.0)
    for n in range(10):
        spend.reserve(cell_id(n), 1, 0.1)
    with pytest.raises(SpendRefused, match=r"\$1\.0 allowed"):
        spend.reserve(cell_id(10), 1, 0.000001)
    assert spend.totals() == Totals(reserved=1.0, settled=0.0, left=0.0)
    spend.settle(cell_id(0), 1, 0.04, "reported")
    spend.reserve(cell_id(10), 1, 0.06)
    assert spend.totals() == Totals(reserved=0.96, settled=0.04, left=0.0)


def test_unknown_usage_costs_the_whole_reservation(tmp_path: Path) -> None:
    spend = SpendLedger(tmp_path, None)
    spend.reserve("c", 1, 0.5)
    spend.settle("c", 1, None, "unknown")
    assert spend.totals() == Totals(0.0, 0.5, None)
    last = json.loads((tmp_path / "spend.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["usd"], last["source"], last["known"]) == ("settle", 0.5, "unknown", False)


def test_what_exceeds_the_reservation_is_recorded_as_it_is(tmp_path: Path) -> None:
    spend = SpendLedger(tmp_path, 1.0)
    spend.reserve("c", 1, 0.5)
    spend.settle("c", 1, 1.5, "reported")
    assert spend.totals() == Totals(0.0, 1.5, -0.5)
    with pytest.raises(SpendRefused):
        spend.reserve("d", 1, 0.01)


def test_a_free_attempt_writes_nothing(tmp_path: Path) -> None:
    spend = SpendLedger(tmp_path, 0.0)
    spend.reserve("c", 1, 0.0)
    spend.settle("c", 1, 0.0, "free")
    spend.settle("d", 1, None, "unknown")
    assert spend.recover() == []
    assert spend.totals() == Totals(0.0, 0.0, 0.0)
    assert not (tmp_path / "spend.jsonl").exists()


def test_an_attempt_is_reserved_and_settled_once(tmp_path: Path) -> None:
    spend = SpendLedger(tmp_path, None)
    spend.reserve("c", 1, 0.5)
    with pytest.raises(Refused):
        spend.reserve("c", 1, 0.5)
    spend.settle("c", 1, 0.1, "reported")
    with pytest.raises(Refused):
        spend.settle("c", 1, 0.1, "reported")
    spend.reserve("c", 2, 0.5)


@pytest.mark.parametrize("usd", [-1.0, float("nan"), float("inf")])
def test_money_is_zero_or_more(tmp_path: Path, usd: float) -> None:
    with pytest.raises(ConfigError):
        SpendLedger(tmp_path, None).reserve("c", 1, usd)
    with pytest.raises(ConfigError):
        SpendLedger(tmp_path, usd)


DIE = """
import os, sys; from pathlib import Path; from recurve_eval.spend import SpendLedger
s = SpendLedger(Path(sys.argv[1]), 2.0); s.reserve("a", 1, 0.25)
s.reserve("b", 1, 0.5); s.settle("b", 1, 0.125, "priced")
os.write(os.open(sys.argv[1] + "/spend.jsonl", os.O_WRONLY | os.O_APPEND), b'{"event":"reser'); os.kill(os.getpid(), 9)
"""


def test_after_a_kill_the_dead_cells_cost_their_ceiling(tmp_path: Path) -> None:
    python(DIE, tmp_path).communicate()
    spend = SpendLedger(tmp_path, 2.0)
    assert spend.totals() == Totals(0.25, 0.125, 1.625)
    assert spend.recover() == [("a", 1, 0.25)]
    assert spend.recover() == []
    assert spend.totals() == SpendLedger(tmp_path, 2.0).totals() == Totals(0.0, 0.375, 1.625)
    assert "ceiling_of_dead_cell" in (tmp_path / "spend.jsonl").read_text()


def test_processes_and_threads_share_one_authority(tmp_path: Path) -> None:
    granted = []
    ledgers = [SpendLedger(tmp_path, 1.0) for _ in range(4)]

    def take(ledger: SpendLedger, who: int) -> None:
        for n in range(20):
            try:
                ledger.reserve(f"{who}-{n}", 1, 0.05)
                granted.append(n)
            except SpendRefused:
                pass

    threads = [threading.Thread(target=take, args=(ledger, who)) for who, ledger in enumerate(ledgers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 20
    assert ledgers[0].totals() == Totals(1.0, 0.0, 0.0)


def test_a_foreign_line_is_drift(tmp_path: Path) -> None:
    (tmp_path / "spend.jsonl").write_text('{"event":"gift","cell_id":"c","attempt":1,"usd":5}\n')
    with pytest.raises(Drift, match=r"spend\.jsonl line 1"):
        SpendLedger(tmp_path, 1.0)
