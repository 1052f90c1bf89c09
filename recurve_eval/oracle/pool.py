"""At most so many warm servers, leased one grading at a time; a grading may also ask to be alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from recurve_eval.oracle.line import ServerLost
from recurve_eval.oracle.server import WarmServer

Start = Callable[[int, tuple[str, ...]], WarmServer]


class Pool:
    """``start(slot, preload)`` starts a server; it is always called on one thread of the pool's own.

    A sandbox that dies with its parent dies with the *thread* that started it, so that thread has to
    live as long as the pool.
    """

    def __init__(self, start: Start, workers: int) -> None:
        self.workers = workers
        self._start = start
        self._spawner = ThreadPoolExecutor(1, "oracle-spawner")
        self._servers: dict[int, tuple[tuple[str, ...], WarmServer]] = {}
        self._idle = list(range(workers))
        self._state = threading.Condition()
        self._waiting_alone = 0
        self.starts = 0

    @contextmanager
    def lease(self, preload: tuple[str, ...], alone: bool = False) -> Iterator[WarmServer]:
        """A live server with ``preload`` imported. ``alone`` waits until no other grading runs.

        Raises ServerLost when it cannot be started. A server that is lost while leased is ended here
        and started anew for the next lease.
        """
        slots = self._take(alone, preload)
        try:
            server = self._server(slots[0], preload)
            try:
                yield server
            except ServerLost:
                self._discard(slots[0])
                raise
        finally:
            self._give_back(slots)

    def _take(self, alone: bool, preload: tuple[str, ...]) -> list[int]:
        with self._state:
            self._waiting_alone += alone
            try:
                self._state.wait_for(
                    lambda: len(self._idle) == self.workers if alone else self._idle and not self._waiting_alone
                )
            finally:
                self._waiting_alone -= alone
                self._state.notify_all()
            self._idle.sort(key=lambda slot: self._servers.get(slot, ((), None))[0] != preload)
            taken, self._idle = (self._idle, []) if alone else (self._idle[:1], self._idle[1:])
            return taken

    def _give_back(self, slots: list[int]) -> None:
        with self._state:
            self._idle += slots
            self._state.notify_all()

    def _server(self, slot: int, preload: tuple[str, ...]) -> WarmServer:
        held = self._servers.get(slot)
        if held is not None and held[0] == preload and held[1].alive:
            return held[1]
        self._discard(slot)
        server = self._spawner.submit(self._start, slot, preload).result()
        self.starts += 1
        self._servers[slot] = (preload, server)
        return server

    def _discard(self, slot: int) -> None:
        held = self._servers.pop(slot, None)
        if held is not None:
            held[1].close()

    def pids(self) -> list[int]:
        return [server.pid for _, server in list(self._servers.values())]

    def close(self) -> None:
        for slot in list(self._servers):
            self._discard(slot)
        self._spawner.shutdown()
