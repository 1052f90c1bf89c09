"""The report of a grading: a challenge that is known beforehand answers one test, and no other."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "oracle"))
from runner import report, wire

KEY = b"k" * 32


@pytest.fixture
def ends() -> Any:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs.fileno()


def heard(ledger: report.Ledger, ours: socket.socket) -> list[str]:
    asked: list[str] = []
    ledger.feed(os.read(ours.fileno(), 1 << 16), asked.append)
    return asked


def test_the_first_challenge_may_be_given_and_is_not_asked_for(ends: Any) -> None:
    ours, theirs = ends
    channel, ledger = report.open_channel(theirs, KEY, "known"), report.Ledger(KEY, "known")
    assert channel.ask("start", id="a") == "known"
    channel.tell("end", id="a", outcome="passed", message="", challenge="known")
    channel.tell("finish")
    assert heard(ledger, ours) == []
    assert (ledger.finished, ledger.breaches, [r["outcome"] for r in ledger.records]) == (True, [], ["passed"])


def test_a_second_test_cannot_be_answered_with_it(ends: Any) -> None:
    ours, theirs = ends
    channel, ledger = report.open_channel(theirs, KEY, "known"), report.Ledger(KEY, "known")
    channel.ask("start", id="a")
    channel.tell("end", id="a", outcome="passed", message="", challenge="known")
    channel.tell("start", id="b")
    channel.tell("end", id="b", outcome="passed", message="", challenge="known")
    channel.tell("finish")
    assert len(heard(ledger, ours)) == 1, "it was asked for another"
    assert ledger.breaches == ["a result without the challenge of its test"]


def test_a_wrong_one_is_a_breach(ends: Any) -> None:
    ours, theirs = ends
    channel, ledger = report.open_channel(theirs, KEY, "guessed"), report.Ledger(KEY, "known")
    channel.ask("start", id="a")
    channel.tell("end", id="a", outcome="passed", message="", challenge="guessed")
    channel.tell("finish")
    heard(ledger, ours)
    assert ledger.breaches == ["a result without the challenge of its test"]


def test_nothing_to_write_is_no_failure_where_nobody_reads_any_more(ends: Any) -> None:
    """As when a verifier has taken its whole job at once and has ended by then."""
    ours, theirs = ends
    ours.close()
    for nothing in (b"", bytearray()):
        wire.write_all(theirs, nothing)
    with pytest.raises(wire.Closed):
        wire.write_all(theirs, b"x")
