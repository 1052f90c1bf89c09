"""Each cell is sealed once, durably; what a crash leaves behind is never read as a row."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path

import pytest
from ledger_samples import cell_id, python, sample_row

from recurve_eval.errors import Drift, Refused, RunLocked
from recurve_eval.events import Events, read_events
from recurve_eval.ledger import Ledger, RunLock, read_rows, run_owner
from recurve_eval.rows import InvalidRow


def test_rows_come_back_exactly_and_in_order(tmp_path: Path) -> None:
    ledger, rows = Ledger(tmp_path), [sample_row(n, unscored=n == 2) for n in range(5)]
    for row in rows:
        ledger.seal(row)
    assert list(ledger.rows()) == rows
    assert list(read_rows(tmp_path)) == rows
    assert ledger.sealed_ids() == {cell_id(n) for n in range(5)} == Ledger(tmp_path).sealed_ids()
    first = (tmp_path / "results.jsonl").read_bytes().splitlines()[0]
    assert first.startswith(b'{"cell_id":"%s",' % cell_id(0).encode())
    assert list(json.loads(first)) == ["cell_id", "seal", "row"]


def test_a_second_row_of_a_cell_is_refused_also_from_another_ledger(tmp_path: Path) -> None:
    ours, theirs = Ledger(tmp_path), Ledger(tmp_path)
    ours.seal(sample_row(1))
    for ledger in (ours, theirs, pickle.loads(pickle.dumps(ours))):
        with pytest.raises(Refused, match=cell_id(1)):
            ledger.seal(sample_row(1, unscored=True))
    theirs.seal(sample_row(2))
    assert ours.sealed_ids() == {cell_id(1), cell_id(2)}
    assert len(list(read_rows(tmp_path))) == 2


def test_an_invalid_row_leaves_no_trace(tmp_path: Path) -> None:
    ledger, row = Ledger(tmp_path), sample_row(1)
    row["usage"]["wall_s"] = float("nan")
    with pytest.raises(InvalidRow, match=r"usage\.wall_s"):
        ledger.seal(row)
    assert (tmp_path / "results.jsonl").read_bytes() == b""
    ledger.seal(sample_row(1))


@pytest.mark.parametrize("cut", [1, 2, 30, 400])
def test_a_torn_last_line_is_set_aside_and_reported(tmp_path: Path, cut: int) -> None:
    ledger = Ledger(tmp_path)
    for n in range(3):
        ledger.seal(sample_row(n))
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert [r["identity"]["order"] for r in read_rows(tmp_path)] == [0, 1]
    reopened = Ledger(tmp_path)
    assert reopened.sealed_ids() == {cell_id(0), cell_id(1)}
    torn = (tmp_path / "results.torn.jsonl").read_bytes().rstrip(b"\n")
    assert torn and path.read_bytes() + torn == whole[:-cut]
    assert [e["kind"] for e in read_events(tmp_path)] == ["torn_line_dropped"]
    reopened.seal(sample_row(2))
    assert len(list(read_rows(tmp_path))) == 3


def test_a_last_line_whose_seal_is_wrong_is_torn_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for n in range(2):
        ledger.seal(sample_row(n))
    path = tmp_path / "results.jsonl"
    data = bytearray(path.read_bytes())
    data[-200:-150] = b"\0" * 50
    path.write_bytes(bytes(data))
    assert Ledger(tmp_path).sealed_ids() == {cell_id(0)}
    assert (tmp_path / "results.torn.jsonl").exists()


def test_a_changed_line_in_the_middle_is_drift_naming_file_and_line(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for n in range(3):
        ledger.seal(sample_row(n))
    path = tmp_path / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"tests_passed":3', b'"tests_passed":2')
    path.write_bytes(b"".join(lines))
    rows = read_rows(tmp_path)
    assert next(rows)["identity"]["order"] == 0
    with pytest.raises(Drift, match=r"results\.jsonl line 2"):
        list(rows)
    lines[1] = b"garbage\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(Drift, match=r"results\.jsonl line 2"):
        Ledger(tmp_path)


def test_a_cell_that_stands_there_twice_is_drift(tmp_path: Path) -> None:
    Ledger(tmp_path).seal(sample_row(1))
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(Drift, match="second time"):
        list(read_rows(tmp_path))


def test_a_ledger_deleted_in_use_is_noticed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.seal(sample_row(1))
    (tmp_path / "results.jsonl").unlink()
    with pytest.raises(Drift, match="deleted"):
        ledger.seal(sample_row(2))


def test_threads_share_one_ledger(tmp_path: Path) -> None:
    ledger, refused = Ledger(tmp_path), []

    def seal_all() -> None:
        for n in range(20):
            try:
                ledger.seal(sample_row(n))
            except Refused:
                refused.append(n)

    threads = [threading.Thread(target=seal_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r["identity"]["order"] for r in read_rows(tmp_path)) == list(range(20))
    assert len(refused) == 60


HOLD = """
import sys, time; from pathlib import Path; from recurve_eval.ledger import RunLock
with RunLock(Path(sys.argv[1])): print("held", flush=True); time.sleep(60)
"""


def test_a_second_process_is_refused_by_name_of_the_first_and_admitted_after_its_death(tmp_path: Path) -> None:
    holder = python(HOLD, tmp_path)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(RunLocked, match=rf"process {holder.pid} on .+ since 20.+python"):
            RunLock(tmp_path).acquire()
        owner = run_owner(tmp_path)
        assert owner is not None and owner["pid"] == holder.pid
        holder.kill()
        holder.wait()
        assert run_owner(tmp_path) is None
        with RunLock(tmp_path):
            assert run_owner(tmp_path) is not None
        assert run_owner(tmp_path) is None
    finally:
        holder.kill()
        holder.communicate()


FORK = """
import os, sys, time; from pathlib import Path; from recurve_eval.ledger import RunLock
RunLock.acquire(lock := RunLock(Path(sys.argv[1])))
child = os.fork()
if child == 0: time.sleep(60); os._exit(0)
print(child, flush=True); os.kill(os.getpid(), 9)
"""


def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(tmp_path: Path) -> None:
    import os

    parent = python(FORK, tmp_path)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        parent.wait()
        with RunLock(tmp_path):
            os.kill(child, 0)
    finally:
        os.kill(child, 9)
        parent.communicate()


def test_events_survive_a_torn_tail(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.append("restart", attempt=2)
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"at":"2026')
    Events(tmp_path).append("refusal", why="locked")
    assert [(e["kind"], e.get("attempt"), e.get("why")) for e in read_events(tmp_path)] == [
        ("restart", 2, None),
        ("refusal", None, "locked"),
    ]


def test_counts_are_those_of_the_rows_whichever_process_sealed_them(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for number in range(3):
        row = sample_row(number)
        row["verdict"]["detail"] = '"declared_done":true "outcome":"shipped_bad" "oracle_verdict":"unscored"'
        row["declaration"]["declared_done"] = number > 0
        ledger.seal(row)
    assert ledger.counts() == Ledger(tmp_path).counts()
    rows = list(ledger.rows())
    assert ledger.counts() == {
        "sealed": 3,
        "declared": sum(r["declaration"]["declared_done"] for r in rows),
        "shipped_bad": sum(r["derived"]["outcome"] == "shipped_bad" for r in rows),
        "unscored": sum(r["verdict"]["oracle_verdict"] == "unscored" for r in rows),
    }
