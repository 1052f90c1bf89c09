"""What every grading does, done a few times by the server itself before the first fork.

A child writes to each page that it is the first to touch, and pays for the copy. Code that has run
before is already adapted to its operands, its lookups are cached and its imports are made, so a
child that runs it again touches less.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from typing import Any

from . import candidate, contain, conventions, guard, heldout, plain, report, wire

_TIMES = 20
_CHECK = b"""
def check(candidate):
    assert candidate([1, 'a', 2.5]) == [1, 'a', 2.5]
    assert candidate((1, {'k': [True, None]})) == (1, {'k': [True, None]})
    assert candidate('text') == 'text' and candidate(7) == 7
"""
_CASES = b"""
import unittest

class TestCases(unittest.TestCase):
    def setUp(self):
        self.values = [1, 'a', 2.5]

    def test_plain(self):
        got = {'k': list(self.values)}
        self.assertEqual(got['k'], self.values)
        self.assertIsInstance(got, dict)
        self.assertTrue(all(v in self.values for v in got['k']) and len(got) == 1)

    def test_raises(self):
        with self.assertRaises(ValueError):
            int('x')
"""


def rehearse(work: str) -> None:
    """Leaves nothing behind, in the import system and in ``work`` alike."""
    os.mkdir(work, 0o700)
    before = set(sys.modules)
    try:
        with open(work + "/rehearsed.py", "w") as file:
            file.write(candidate.SUBMISSION)
        for _ in range(_TIMES):
            _once(candidate.load_for_rehearsal(work))
            contain.remains([work])
    finally:
        shutil.rmtree(work)
        sys.path_importer_cache.pop(work, None)
        for name in set(sys.modules) - before:
            if not hasattr(sys.modules[name], "__file__"):  # held-out modules; whatever else was imported may stay
                del sys.modules[name]


def _once(module: Any) -> None:
    (ours, theirs), (near, far) = socket.socketpair(), socket.socketpair()
    with ours, theirs, near, far:
        key = os.urandom(32)
        channel, ledger = report.open_channel(theirs.fileno(), key), report.Ledger(key)
        asked: list[Any] = []

        def ask(event: str, **fields: Any) -> str:
            channel.tell(event, **fields)
            ledger.feed(os.read(ours.fileno(), 1 << 16), asked.append)
            return str(asked.pop())

        watch = heldout.Watch(lambda what: None)
        held = heldout.HeldOut({"c.py": _CHECK}, None)
        held.code()
        stage = conventions.Stage(channel._replace(ask=ask), held, watch, {"entry_point": "same"}, lambda: None)
        conventions.run_check(stage, lambda: _Candidate(module, near.fileno(), far.fileno()))
        held = heldout.HeldOut({"t.py": _CASES}, watch)
        conventions.run_unittest(stage._replace(held=held, changed=guard.snapshot("unittest").changed), held.code)


class _Candidate:
    """Both ends of a call, without the process in between."""

    def __init__(self, module: Any, near: int, far: int) -> None:
        self._module, self._near, self._far = module, near, far

    def same(self, value: Any) -> Any:
        request = {"call": "same", "args": plain.encode([value], strict=True)}
        answer = candidate._call(self._module, request, plain.encode, plain.decode)
        wire.send(self._near, answer)
        wire.receive(self._far)
        return plain.decode(answer["value"])
