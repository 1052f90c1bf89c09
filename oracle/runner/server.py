"""The warm server: a zygote that has imported what a benchmark declares and forks once per grading.

Speaks :mod:`runner.wire` on the descriptors it was started with as 0 and 1, which no graded process
inherits. First it sends a greeting that states what it is and how it can contain; then it answers

``{"op": "ping"}``
    with ``{"status": "pong"}``;
``{"op": "grade", "convention", "candidate", "params", "files", "timeout_s"}``
    followed by one frame of held-out files, with what :func:`runner.grading.grade` saw. A verdict is not
    given here: the host judges the evidence.

It ends when the host closes its end, and when it could not prove that nothing of a grading is left.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import platform
import sys
from typing import Any

from . import contain, conventions, forking, grading, guard, libc, rehearsal, shared, wire
from .children import Place
from .nursery import Nursery
from .watching import HostGone

PROTOCOL = 1


def main(config_text: str) -> None:
    config = json.loads(config_text)
    host_in, host_out = _take_descriptors()
    try:
        place, facts = _prepare(config)
    except Exception as error:
        wire.send(host_out, {"status": "unfit", "why": "%s: %s" % (type(error).__name__, error)})
        return
    wire.send(host_out, dict(facts, status="ready"))
    nursery = Nursery(place, host_in)
    try:
        _serve(place, host_in, host_out, nursery)
    finally:
        nursery.close()
        if config["own_scratch"]:
            os.rmdir(place.scratch)


def _serve(place: Place, host_in: int, host_out: int, nursery: Nursery) -> None:
    while True:
        try:
            request = wire.receive(host_in)
        except wire.Closed:
            return
        if not _answer(request, place, nursery, host_in, host_out):
            return


def _answer(request: dict[str, Any], place: Place, nursery: Nursery, host_in: int, host_out: int) -> bool:
    """Whether the server is still fit for another grading."""
    if request["op"] == "ping":
        wire.send(host_out, {"status": "pong"})
        return True
    try:
        wire.send(host_out, grading.grade(request, place, host_in, nursery))
        return True
    except HostGone:
        return False
    except Exception as error:
        wire.send(host_out, {"status": "error", "why": "%s: %s" % (type(error).__name__, error)})
        return False


def _take_descriptors() -> tuple[int, int]:
    """Move the host's line away from 0 and 1, where anything might read and print."""
    host_in, host_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return host_in, host_out


def _prepare(config: dict[str, Any]) -> tuple[Place, dict[str, Any]]:
    sys.path += config["paths"]
    contain.enter_user_namespace()
    libc.become_subreaper()
    libc.hide_memory()
    scratch = config["scratch"]
    if config["unveil"] and not scratch.startswith(sys.base_prefix):
        contain.unveil([sys.base_prefix, *config["paths"]])
    means = contain.probe(config["uid_base"])
    libc.bar_capabilities()
    if means.uid_base is not None:
        os.chmod(scratch, 0o711)
    forking.record_hooks(lambda: _load(config["preload"]))
    guard.take_snapshot()
    namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if means.pid_namespace else None
    place = Place(scratch, config["limits"], means, namespace, [scratch, *config["must_be_empty"]])
    facts = _facts(config, means)
    os.environ.update(HOME=place.work, TMPDIR=place.work + "/.tmp")
    grading.open_streams()
    shared.list_known_modules()
    shared.import_sources_alone(place.work)
    rehearsal.rehearse(place.work)
    contain.bequeath(config["limits"])
    shared.hide_runner()
    gc.collect()
    gc.freeze()
    return place, facts


def _load(preload: list[str]) -> None:
    for name in preload:
        importlib.import_module(name)
    _warm()


def _warm() -> None:
    """Let the common modules be imported once here instead of once a grading."""
    for name in ("typing", "collections", "itertools", "functools", "math", "re", "string", "heapq", "bisect",
                 "operator", "hashlib", "copy", "traceback", "dataclasses"):  # fmt: skip
        importlib.import_module(name)


def _facts(config: dict[str, Any], means: contain.Means) -> dict[str, Any]:
    versions = {name: str(getattr(sys.modules[name], "__version__", "")) for name in config["preload"]}
    return {
        "protocol": PROTOCOL,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "canary_version": conventions.CANARY_VERSION,
        "preloaded": versions,
        "containment": means.facts(),
    }
