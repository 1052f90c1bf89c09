"""Watching one grading from the supervisor: its report, its output, its end, its time."""

from __future__ import annotations

import os
import select
import time
from typing import Any

from . import report, wire
from .nursery import Ends, Made

KEPT_OUTPUT = 64 * 1024


class HostGone(Exception):
    """The host closed its end; there is nobody left to grade for."""


def watch(
    reporter: Made, watched: list[Ends], ledger: report.Ledger, deadline: float, host_fd: int
) -> tuple[list[bytearray], bool]:
    """Until the report is finished, its process gone, or the time up. Returns kept output of all and "timed out"."""
    kept = [bytearray(), bytearray()]
    streams = {ends.out: kept[0] for ends in watched} | {ends.err: kept[1] for ends in watched}
    line = reporter.ends.line
    poll = select.poll()
    for fd in (*streams, line, reporter.process):
        poll.register(fd, select.POLLIN)
    poll.register(host_fd, 0)
    while not ledger.finished and not ledger.breaches:
        left = deadline - time.monotonic()
        if left <= 0:
            return kept, True
        ready = dict(poll.poll(left * 1000 + 1))
        if host_fd in ready:
            raise HostGone()
        _take(ready, line, ledger, streams, poll)
        if reporter.process in ready and line not in ready:
            break
    _drain(streams)
    return kept, False


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
        while len(kept) < KEPT_OUTPUT:
            before = len(kept)
            _keep(fd, kept)
            if len(kept) == before:
                break
