"""The claims ledger is read strictly, and every error says where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recurve_eval.gates.ledger import LedgerError, missing_parts, parse, read_ledger
from tests.gating import CLAIMS, LEDGER, write

GOOD = LEDGER.replace("traps:", "timeout_s: 2.5\n    reference: {path: .recurve/ref, kind: model}\n    traps:")


def test_a_whole_ledger_is_read() -> None:
    (claim,) = parse(GOOD)
    assert claim.id == "doubles"
    assert claim.probe == ("{python}", ".recurve/probes/doubles.py")
    assert claim.traps == (".recurve/traps/identity",)
    assert (claim.timeout_s, claim.line) == (2.5, 3)
    assert claim.reference is not None
    assert claim.reference.kind == "model"


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("schema: 1", "schema: 2", 1, "schema must be 1"),
        ("schema: 1", "schema: '1'", 1, "schema must be a number"),
        ("schema: 1\n", "", 1, "lacks 'schema'"),
        ("claims:\n", "claims:\n  - extra\n", 3, "a claim must be a mapping"),
        (
            "id: doubles",
            "id: doubles\n    tier: trap_hardened",
            4,
            "derived from what ran and is never written by hand",
        ),
        ("id: doubles", "id: two words", 3, "letters, digits"),
        ("id: doubles", "id: 7", 3, "must be text"),
        ("id: doubles", "id: doubles\n    id: twice", 4, "key 'id' stands twice"),
        ("id: doubles", "id: doubles\n    nmae: x", 4, "unknown key 'nmae' in a claim. Known: id, proposition"),
        ("probe: .recurve/probes/doubles.py", "probe: solution.py", 5, "a path below .recurve/"),
        ("probe: .recurve/probes/doubles.py", "probe: .recurve/../solution.py", 5, "a path below .recurve/"),
        ("probe: .recurve/probes/doubles.py", "probe: []", 5, "empty list of words"),
        ("[.recurve/traps/identity]", "[/etc]", 6, "a path below .recurve/"),
        ("[.recurve/traps/identity]", "identity", 6, "traps must be a list"),
        ("[.recurve/traps/identity]", "[.recurve/a, .recurve/a]", 6, "a trap twice"),
        ("[.recurve/traps/identity]", "&x [.recurve/a]", 6, "anchors and aliases"),
        ("proposition: double(3) is 6", "proposition: ''", 4, "proposition is empty"),
        ("proposition: double(3) is 6", "proposition: a: b", 4, "not YAML"),
        ("traps: [", "timeout_s: .inf\n    traps: [", 6, "timeout_s is a number of seconds"),
        ("traps: [", "timeout_s: -1\n    traps: [", 6, "timeout_s is a number of seconds"),
        ("traps: [", "reference: {path: .recurve/r, kind: oracle}\n    traps: [", 6, "mechanical or model"),
    ],
)
def test_each_fault_is_named_with_its_line(old: str, new: str, line: int, said: str) -> None:
    assert old in LEDGER
    with pytest.raises(LedgerError) as caught:
        parse(LEDGER.replace(old, new))
    assert str(caught.value).startswith(f".recurve/claims.yaml:{line}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "schema: 1\nclaims: []\n", "a: *b", "\x00", "- 1\n"])
def test_no_ledger_is_an_error_with_a_line(text: str) -> None:
    with pytest.raises(LedgerError, match=r"^\.recurve/claims\.yaml:\d+: "):
        parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 250_000, "nested too deeply"),
        ("? " * 120_000, "nested too deeply"),
        ("[" + "a," * 120_000 + "]", "too many"),
    ],
    ids=["brackets", "keys", "items"],
)
def test_a_ledger_that_would_take_hours_to_read_is_refused_before_that(text: str, said: str) -> None:
    with pytest.raises(LedgerError, match=said):
        parse(text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.integers(0, len(LEDGER)))
def test_whatever_stands_there_is_claims_or_a_ledger_error(noise: str, where: int) -> None:
    try:
        assert parse(LEDGER[:where] + noise + LEDGER[where:])
    except LedgerError as error:
        assert str(error).startswith(".recurve/claims.yaml:")


def test_a_ledger_that_is_a_link_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no such file"):
        read_ledger(tmp_path)
    write(tmp_path, {".recurve/claims.yaml": b"schema: 1\n\xff\n"})
    with pytest.raises(LedgerError, match="yaml:2: is not UTF-8"):
        read_ledger(tmp_path)
    (tmp_path / ".recurve/claims.yaml").unlink()
    (tmp_path / ".recurve/claims.yaml").symlink_to("/etc/passwd")
    with pytest.raises(LedgerError, match="is no readable file of its own"):
        read_ledger(tmp_path)
    (tmp_path / ".recurve/claims.yaml").unlink()
    os.mkfifo(tmp_path / ".recurve/claims.yaml")
    with pytest.raises(LedgerError, match="is no readable file of its own"):
        read_ledger(tmp_path)
    (tmp_path / ".recurve").rename(tmp_path / "elsewhere")
    (tmp_path / ".recurve").symlink_to("elsewhere")
    with pytest.raises(LedgerError, match="is no readable file of its own"):
        read_ledger(tmp_path)


def test_what_the_ledger_names_must_be_there(tmp_path: Path) -> None:
    write(tmp_path, CLAIMS)
    claims = read_ledger(tmp_path)
    assert list(missing_parts(tmp_path, claims)) == []
    (tmp_path / ".recurve/probes/doubles.py").write_text("\n")
    (tmp_path / ".recurve/traps/identity/solution.py").unlink()
    said = list(missing_parts(tmp_path, claims))
    assert "probes/doubles.py is empty" in said[0]
    assert "traps/identity is empty" in said[1]
