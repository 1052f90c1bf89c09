"""The server's second half, which no candidate is forked from: it furnishes, watches, wipes and answers."""

from __future__ import annotations

import platform
import sys
from typing import Any

from . import contain, conventions, grading, guard, preloading, rehearsal, roles, wire
from .children import Place
from .nursery import Nursery
from .verifiers import Verifiers
from .watching import HostGone

PROTOCOL = 1


def prepare(preload: list[str], place: Place) -> dict[str, Any]:
    """Import what is preloaded, and remember what tests rest upon; return the facts of the greeting."""
    preloading.preload(preload, place)
    guard.take_snapshot()
    rehearsal.rehearse(place.work)
    return _facts(preload, place.means)


def serve(place: Place, host_in: int, host_out: int, candidates: Nursery) -> None:
    shared = Nursery(place, roles.shared(host_in, place.work), lambda: None)
    bench = grading.Bench(place, host_in, candidates, shared, Verifiers(place, host_in))
    try:
        while _answer(bench, host_out):
            continue
    finally:
        bench.close()


def _answer(bench: grading.Bench, host_out: int) -> bool:
    """Answer one request; whether the server is still there and fit for another grading."""
    try:
        request = wire.receive(bench.host_fd)
    except wire.Closed:
        return False
    if request["op"] == "ping":
        wire.send(host_out, {"status": "pong"})
        return True
    try:
        wire.send(host_out, grading.grade(request, bench))
        bench.verifiers.renew()
        return True
    except HostGone:
        return False
    except Exception as error:
        wire.send(host_out, {"status": "error", "why": "%s: %s" % (type(error).__name__, error)})
        return False


def _facts(preload: list[str], means: contain.Means) -> dict[str, Any]:
    versions = {name: str(getattr(sys.modules[name], "__version__", "")) for name in preload}
    return {
        "protocol": PROTOCOL,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "canary_version": conventions.CANARY_VERSION,
        "preloaded": versions,
        "containment": means.facts(),
    }
