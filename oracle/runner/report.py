"""The side channel between a graded process and its supervisor: authenticated, numbered, challenged.

Every message carries a keyed BLAKE2b over its number and body. The key is drawn per grading and is
held, inside a graded process, by one hash object in one closure and nowhere as bytes. Before each
test the graded process asks for a challenge and the result of that test must carry it, so nothing
that was written before a test began can count as its result. (A verifier, where no submission runs, has the first one
with its job, and says nothing before that test is over.)
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Callable, NamedTuple

from . import wire


class Channel(NamedTuple):
    tell: Callable[..., None]
    ask: Callable[..., str]


def seal(keyed: Any, number: int, body: str) -> str:
    mac = keyed.copy()
    mac.update(b"%d:" % number + body.encode())
    return str(mac.hexdigest())


def keyed_hash(key: bytes) -> Any:
    return hashlib.blake2b(key=key, digest_size=16)


def open_channel(fd: int, key: bytes, challenge: str = "") -> Channel:
    """The side that reports. Everything it needs is bound here, before any submission is loaded.

    A process that never runs a submission has the challenge of its first test beforehand, and wakes nobody for it.
    """
    keyed, dumps, loads, write, read = keyed_hash(key), wire.dumps, wire.loads, os.write, os.read
    write_all, read_exactly, numbered, owner, getpid = wire.write_all, wire.read_exactly, seal, os.getpid(), os.getpid
    counter, leave, held_back = [0], os._exit, bytearray()
    given = [challenge] if challenge else []

    def tell(event: str, **fields: Any) -> None:
        if getpid() != owner:
            leave(1)
        counter[0] += 1
        body = dumps(dict(fields, event=event))
        data = dumps([body, numbered(keyed, counter[0], body)]).encode()
        held_back.extend(len(data).to_bytes(4, "big") + data)
        # Each write wakes the supervisor. The result of a test may wait for what is said after it; if nothing
        # is, the report is unfinished and it would not have counted.
        if event not in ("end", "canary") and not (given and event in ("received", "loaded", "start")):
            write_all(fd, held_back, write)
            held_back.clear()

    def ask(event: str, **fields: Any) -> str:
        tell(event, **fields)
        if given:
            return given.pop()
        size = int.from_bytes(read_exactly(fd, 4, read), "big")
        return str(loads(read_exactly(fd, size, read)))

    return Channel(tell, ask)


class Ledger:
    """The supervisor's side: what a graded process reported, and every breach of the protocol."""

    def __init__(self, key: bytes, challenge: str = "") -> None:
        """``challenge`` is that of the first test, where the reporting process was given it."""
        self._keyed = keyed_hash(key)
        self._given = challenge
        self._buffer = bytearray()
        self._number = 0
        self._open: tuple[str, str] | None = None
        self.records: list[dict[str, Any]] = []
        self.breaches: list[str] = []
        self.canaries = 0
        self.stage = "loading"
        self.load_error: str | None = None
        self.harness_error: str | None = None
        self.finished = False
        self.received = False

    def feed(self, data: bytes, answer: Callable[[str], None]) -> None:
        self._buffer += data
        while not self.finished:
            try:
                body = wire.split_frame(self._buffer, 1 << 22)
                if body is None:
                    return
                self._accept(wire.loads(body), answer)
            except Exception as error:
                self._breach("unreadable record (%s)" % type(error).__name__)
                self._buffer.clear()
                return

    def progressed(self, received: bool, loaded: bool) -> None:
        """What is known of a reporting process that is trusted, whether its report came or not."""
        self.received = self.received or received
        if loaded and not self.finished:
            self._on_loaded({}, lambda challenge: None)

    def rest(self) -> bytes:
        """What was read behind the report."""
        return bytes(self._buffer)

    def _breach(self, what: str) -> None:
        if len(self.breaches) < 20:
            self.breaches.append(what)

    def _accept(self, envelope: Any, answer: Callable[[str], None]) -> None:
        body, mac = envelope
        self._number += 1
        if mac != seal(self._keyed, self._number, body):
            self._breach("a record without the grading's seal")
            return
        message = wire.loads(body)
        handler = getattr(self, "_on_" + str(message.get("event")), None)
        if handler is None:
            self._breach("an unknown kind of record")
        else:
            handler(message, answer)

    def _on_received(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        self.received = True

    def _on_loaded(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        self.stage = "running the tests"

    def _on_load_error(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        self.load_error = str(message["message"])

    def _on_start(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        if self._open is not None:
            self._breach("a test began inside another")
        known, self._given = self._given, ""
        self._open = (str(message["id"]), known or os.urandom(8).hex())
        if not known:
            answer(self._open[1])

    def _on_end(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        if self._open != (message["id"], message["challenge"]):
            self._breach("a result without the challenge of its test")
        self._open = None
        self.records.append({"id": message["id"], "outcome": message["outcome"], "message": message["message"]})

    def _on_canary(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        self.canaries += 1
        if message["outcome"] != "failed":
            self._breach("a test that must fail did not (%s: %s)" % (message["kind"], message["outcome"]))

    def _on_tamper(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        self._breach(str(message["what"])[:300])

    def _on_harness(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        """Never from where a submission runs: a failure must not be able to turn itself into no verdict."""
        if self.stage != "loading" and not message.get("verifier"):
            self._breach("a fault of the tests, reported after the submission was loaded")
        else:
            self.harness_error = str(message["message"])

    def _on_finish(self, message: dict[str, Any], answer: Callable[[str], None]) -> None:
        self.finished = True
        self.stage = "after the tests"
