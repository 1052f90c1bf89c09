"""The index of a ledger: used while it is true, and never believed against the rows themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ledger_samples import cell_id, sample_row

from recurve_eval.errors import Drift
from recurve_eval.ledger import RESULTS, Ledger, read_rows
from recurve_eval.sealindex import INDEX, recall

COUNTED = ("declared", "shipped_bad", "unscored")


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path)
    for n in range(6):
        ledger.seal(sample_row(n, unscored=n == 2))
    Ledger(tmp_path)  # opening over rows that no index speaks of writes one
    return tmp_path


def test_reopening_takes_ids_and_counts_from_the_index(sealed: Path) -> None:
    beginning = recall(sealed / RESULTS, None, COUNTED)
    assert beginning.ids == {cell_id(n) for n in range(6)}
    assert beginning.size == (sealed / RESULTS).stat().st_size and beginning.lines == 6
    Ledger(sealed).seal(sample_row(6))
    again = Ledger(sealed)
    assert again.sealed_ids() == {cell_id(n) for n in range(7)}
    assert again.counts()["sealed"] == 7 and again.counts()["unscored"] == 1
    assert [r["identity"]["cell_id"] for r in read_rows(sealed)] == [cell_id(n) for n in range(7)]


def test_an_altered_row_is_found_although_an_index_speaks_of_it(sealed: Path) -> None:
    ledger = sealed / RESULTS
    content = ledger.read_bytes()
    place = content.index(b'"seed":') + 8
    ledger.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(Drift, match="line 1 is not a sealed row"):
        Ledger(sealed)


def test_a_ledger_that_was_cut_short_is_read_anew(sealed: Path) -> None:
    ledger = sealed / RESULTS
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:3]))
    assert Ledger(sealed).sealed_ids() == {cell_id(n) for n in range(3)}


def _edit(name: str, value: object) -> Callable[[bytes], bytes]:
    def edit(index: bytes) -> bytes:
        head, _, ids = index.partition(b"\n")
        return json.dumps(json.loads(head) | {name: value}).encode() + b"\n" + ids

    return edit


@pytest.mark.parametrize(
    "damage",
    [
        lambda index: b"",
        lambda index: index[:-16],
        lambda index: index.replace(cell_id(3).encode(), b"f" * 16),
        lambda index: b"\xff\xfe" + index,
        _edit("lines", 5),
        _edit("size", -1),
        _edit("size", None),
        _edit("sha256", "0" * 64),
        _edit("schema", 2),
        _edit("plan", "another"),
        _edit("counts", {"declared": 0}),
        _edit("counts", None),
    ],
)
def test_an_index_that_does_not_fit_is_ignored(sealed: Path, damage: Callable[[bytes], bytes]) -> None:
    index = sealed / INDEX
    index.write_bytes(damage(index.read_bytes()))
    assert recall(sealed / RESULTS, None, COUNTED).lines == 0
    ledger = Ledger(sealed)
    assert ledger.sealed_ids() == {cell_id(n) for n in range(6)}
    assert ledger.counts()["unscored"] == 1


def test_an_index_that_cannot_be_written_costs_nothing_but_time(sealed: Path) -> None:
    (sealed / INDEX).unlink()
    (sealed / INDEX).mkdir()
    assert Ledger(sealed).sealed_ids() == {cell_id(n) for n in range(6)}
    assert sorted(p.name for p in sealed.iterdir()) == [INDEX, RESULTS]
