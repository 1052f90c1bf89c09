"""Watching one grading from the supervisor: its report, its output, its end, its time."""

from __future__ import annotations

import os
import select
import time
from typing import Any, NamedTuple

from . import report, wire
from .nursery import Ends

KEPT_OUTPUT = 64 * 1024


class HostGone(Exception):
    """The host closed its end; there is nobody left to grade for."""


class Reporter(NamedTuple):
    """The process that reports: the supervisor's end of its line, and its process id."""

    line: int
    pid: int


def watch(
    reporter: Reporter, watched: list[Ends], ledger: report.Ledger, deadline: float, host_fd: int
) -> tuple[list[bytearray], bool]:
    """Until the report is finished, its process gone, or the time up. Returns kept output of all and "timed out"."""
    kept = [bytearray(), bytearray()]
    streams = {ends.out: kept[0] for ends in watched} | {ends.err: kept[1] for ends in watched}
    ended = os.pidfd_open(reporter.pid)
    poll = select.poll()
    for fd in (*streams, reporter.line, ended):
        poll.register(fd, select.POLLIN)
    poll.register(host_fd, 0)
    try:
        while not ledger.finished and not ledger.breaches:
            left = deadline - time.monotonic()
            if left <= 0:
                return kept, True
            ready = dict(poll.poll(left * 1000 + 1))
            if host_fd in ready:
                raise HostGone()
            _take(ready, reporter.line, ledger, streams, poll)
            if ended in ready and reporter.line not in ready:
                break
        _drain(streams)
        return kept, False
    finally:
        os.close(ended)


def _take(ready: dict[int, int], line: int, ledger: report.Ledger, streams: dict[int, bytearray], poll: Any) -> None:
    if line in ready:
        data = _read(line)
        if data:
            ledger.feed(data, lambda challenge: _answer(line, challenge))
        else:
            poll.unregister(line)
    for fd, kept in streams.items():
        if fd in ready and not _keep(fd, kept):
            poll.unregister(fd)


def _answer(line: int, challenge: str) -> None:
    """A graded process that does not read its challenges is its own problem: never wait for it."""
    try:
        os.write(line, wire.frame(challenge))
    except OSError:
        pass


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""


def _keep(fd: int, kept: bytearray) -> bool:
    """Read once; keep the head, drop the rest. False at the end of the stream."""
    data = _read(fd)
    kept += data[: KEPT_OUTPUT - len(kept)]
    return bool(data)


def _drain(streams: dict[int, bytearray]) -> None:
    """What is already in the pipes when the report ends, and no more: a writer may go on for ever."""
    for fd, kept in streams.items():
        os.set_blocking(fd, False)
        while len(kept) < KEPT_OUTPUT:
            before = len(kept)
            _keep(fd, kept)
            if len(kept) == before:
                break
