"""Forking a single-threaded zygote at the price of the system call.

``os.fork`` has the child make new locks and thread records, in Python, before anything else happens:
a third of all the pages that a short grading copies. A process of one thread has no use for it. What
else has to differ in a child is done here, in :func:`forker`.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any, Callable

from . import libc

# Their hooks renew locks and thread records, which one thread never left held; `random` is seeded below.
_NEEDLESS = ("threading", "logging", "random", "concurrent.futures.thread")

_hooks: list[Callable[[], Any]] = []
_several_threads: list[bool] = [False]
_seed = random.Random.__mro__[1].seed  # type: ignore[attr-defined]
_generator = random.seed.__self__  # type: ignore[attr-defined]


def record_hooks(load: Callable[[], None]) -> None:
    """Call ``load``, which imports what is preloaded, and keep what those modules want done in a child."""
    register = os.register_at_fork

    def recording(**hooks: Callable[[], Any]) -> None:
        register(**hooks)
        hook = hooks.get("after_in_child")
        if hook is not None and getattr(hook, "__module__", "") not in _NEEDLESS:
            _hooks.append(hook)

    os.register_at_fork = recording  # type: ignore[assignment]
    try:
        load()
    finally:
        os.register_at_fork = register
    _several_threads[0] = len(os.listdir("/proc/self/task")) > 1


def forker() -> Callable[[], int]:
    """A function that forks, for this process with what it has imported by now.

    As ``os.fork``. Each child draws its own random numbers, numpy's global ones too.
    """
    bare = not _several_threads[0]
    fork = libc.fork if bare else os.fork
    reseed: list[Callable[[], Any]] = [lambda: _seed(_generator), *_hooks] if bare else []
    if "numpy.random" in sys.modules:
        # numpy has no hook of its own: the children of one server would draw the same numbers, and a
        # submission that is right by luck would look steady on one server and not on the next.
        reseed.append(sys.modules["numpy.random"].seed)

    def forked() -> int:
        pid = fork()
        if pid == 0:
            for each in reseed:
                each()
        return pid

    return forked
