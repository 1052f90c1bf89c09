"""The warm server: it makes ready what gradings are forked from, and answers one request at a time.

Speaks :mod:`runner.wire` on the descriptors it was started with as 0 and 1, which no graded process
inherits. First it sends a greeting that states what it is and how it can contain; then it answers

``{"op": "ping"}``
    with ``{"status": "pong"}``;
``{"op": "grade", "convention", "candidate", "params", "files", "timeout_s"}``
    followed by one frame of held-out files, with what :func:`runner.grading.grade` saw. A verdict is not
    given here: the host judges the evidence.

It ends when the host closes its end, and when it could not prove that nothing of a grading is left.

What is imported at the top of this module and of those that it names is what a candidate's process is forked
from; a page more there is a page more to copy and to give back in each grading.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any, Callable

from . import candidate, contain, libc, loading, meeting, preloading, wire
from .children import Place
from .nursery import Nursery

# So common in submissions that they are better imported once here than once a grading.
_COMMON = ("typing", "collections", "itertools", "functools", "math", "re", "string", "heapq", "bisect", "operator",
           "copy")  # fmt: skip


def main(config_text: str, all_imported: Callable[[], None]) -> None:
    """``all_imported`` is called when no more of the runner will be imported."""
    os.environ.pop("LD_BIND_NOW", None)
    config = json.loads(config_text)
    host_in, host_out = _take_descriptors()
    try:
        if config["meets"]:
            meeting.meet(host_in, host_out, config["scratch"])
        place = _prepare(config)
        candidates = Nursery(place, candidate.role(place.work), lambda: _preloaded(config["preload"], place))
        # Only now, and not at the top: a candidate is forked without it.
        from . import supervisor

        all_imported()
        facts = supervisor.prepare(config["preload"], place)
        _freeze()
    except Exception as error:
        wire.send(host_out, {"status": "unfit", "why": "%s: %s" % (type(error).__name__, error)})
        return
    wire.send(host_out, dict(facts, status="ready"))
    try:
        supervisor.serve(place, host_in, host_out, candidates)
    finally:
        if config["own_scratch"]:
            os.rmdir(place.scratch)


def _take_descriptors() -> tuple[int, int]:
    """Move the host's line away from 0 and 1, where anything might read and print."""
    host_in, host_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return host_in, host_out


def _prepare(config: dict[str, Any]) -> Place:
    """Contain this process as all that is forked from it shall be."""
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
    namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if means.pid_namespace else None
    processors = sorted(os.sched_getaffinity(0))
    processor = processors[config["processor"] % len(processors)]
    place = Place(scratch, config["limits"], means, namespace, [scratch, *config["must_be_empty"]], processor)
    os.environ.update(HOME=place.work, TMPDIR=place.work + "/.tmp")
    _open_streams()
    loading.import_all(_COMMON)
    loading.list_known_modules()
    loading.import_sources_alone(place.work)
    candidate.rehearse(place.work)
    loading.expect("solution", place.work)
    contain.bequeath(config["limits"])
    return place


def _open_streams() -> None:
    """Standard streams for graded processes, made once: each child has its own descriptors behind them.

    Those are pipes, and a stream that was made of anything else would try to seek when it is reconfigured or wrapped.
    One that is wrapped lives on by its other name, as in any program; else its end would close the new one's buffer.
    """
    reader, writer = os.pipe()
    for fd, name in ((1, "stdout"), (2, "stderr")):
        held = os.dup(fd)
        os.dup2(writer, fd)
        stream = open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
        os.dup2(held, fd)
        os.close(held)
    os.close(reader)
    os.close(writer)


def _preloaded(preload: list[str], place: Place) -> None:
    preloading.preload(preload, place)
    _freeze()


def _freeze() -> None:
    """The last before a process forks, when all is imported: the runner hidden, what is there never looked at again."""
    loading.hide_runner()
    gc.collect()
    gc.freeze()
