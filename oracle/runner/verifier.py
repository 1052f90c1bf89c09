"""The process that holds held-out tests apart from any submission, and how long it may serve.

It never runs a byte of a submission. What could carry over from one grading to the next is what the tests
themselves do to their interpreter; so it serves again only as long as all that it ran is :mod:`runner.closed`
and what tests rest upon is found as it was. Whatever else it runs is its last.
"""

from __future__ import annotations

import mmap
import os
import random
import resource
import socket
import sys
import types
from typing import Any, Callable

from . import apart, guard, report, wire
from .closed import is_closed

# Against what grows slowly and is not given back.
MOST_GRADINGS = 500
MOST_MEMORY_KB = 256 * 1024
SERVES_AGAIN = b"+"
# How far a grading is, in memory that the supervisor sees. It reads that where no report says so; to be woken for each
# step would cost it more than the whole report.
RECEIVED, LOADED = 1, 2


def serve(line: int, held_out: Callable[[], dict[str, bytes]], progress: mmap.mmap) -> None:
    """Grade what is told on ``line`` until that is closed or this process is spent."""
    recursion, way = sys.getrecursionlimit(), socket.socket(fileno=os.dup(line))
    for left in reversed(range(MOST_GRADINGS)):
        try:
            job, candidate = _told(line, way)
        except wire.Closed:
            return
        _bound(job["timeout_s"])
        random.seed()
        channel = _marked(report.open_channel(line, bytes.fromhex(job["key"]), job["challenge"]), progress)
        files = held_out()
        channel.tell("received")
        try:
            ran = _verify(dict(job, held_out=files), channel, candidate)
        except apart.Untaken:
            progress[0] = 0
            raise
        # Behind the report, and behind the candidate's end on this processor, so that nobody waits for it.
        os.sched_yield()
        if not left or _overgrown() or sys.getrecursionlimit() != recursion or not _closed(ran):
            return
        os.write(line, SERVES_AGAIN)


def _marked(channel: report.Channel, progress: mmap.mmap) -> report.Channel:
    steps = {"received": RECEIVED, "loaded": LOADED}

    def tell(event: str, **fields: Any) -> None:
        if event in steps:
            progress[0] = steps[event]
        channel.tell(event, **fields)

    return channel._replace(tell=tell)


def _told(line: int, way: socket.socket) -> tuple[Any, int]:
    head, fds, _, _ = socket.recv_fds(way, 4, 1)
    if not head or not fds:
        raise wire.Closed("end of stream")
    return wire.body(line, head + wire.read_exactly(line, 4 - len(head))), fds[0]


def _bound(timeout_s: float) -> None:
    """Seconds of processor time from now on."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime + timeout_s) + 3
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _verify(job: dict[str, Any], channel: report.Channel, candidate: int) -> list[types.CodeType]:
    """One grading, after which the import system knows nothing of it."""
    modules, finders = dict(sys.modules), list(sys.meta_path)
    ran = apart.verify(job, channel, candidate)
    channel.tell("finish")
    os.close(candidate)  # upon which it ends, if it was not killed before
    sys.meta_path[:] = finders
    for name in list(sys.modules):
        if name not in modules:
            del sys.modules[name]
    sys.modules.update(modules)
    return ran


def _closed(ran: list[types.CodeType]) -> bool:
    return all(map(is_closed, ran)) and guard.snapshot("check").changed() is None


def _overgrown() -> bool:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_MEMORY_KB
