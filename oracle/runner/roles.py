"""What the children that report do: one holds submission and tests together, one holds tests apart."""

from __future__ import annotations

import base64
import mmap
import os

from . import children, report, wire
from . import shared as sharing
from . import verifier as verifying
from .children import Role


def decoded(files: dict[str, str]) -> dict[str, bytes]:
    return {path: base64.b64decode(content) for path, content in files.items()}


def shared(host_fd: int, work: str) -> Role:
    """Grades one submission that works in ``work``."""

    def grade(line: int, keys: list[bytes]) -> None:
        try:
            job = wire.receive(line)
        except wire.Closed:
            return
        children.begin(job["timeout_s"], work)
        channel = report.open_channel(line, keys.pop())
        files = _held_out(host_fd)
        os.close(host_fd)
        channel.tell("received")
        sharing.run(dict(job, held_out=files), channel, work)

    return Role(1, grade, reports=True, host_fd=host_fd)


def verifier(host_fd: int, progress: mmap.mmap) -> Role:
    """Marks in ``progress`` how far it is."""

    def verify(line: int, keys: list[bytes]) -> None:
        verifying.serve(line, lambda: _held_out(host_fd), progress)

    return Role(2, verify, graded=False, host_fd=host_fd, stays=True)


def _held_out(host_fd: int) -> dict[str, bytes]:
    """Read by the process that runs them, so that no process from whose memory a candidate is forked ever holds
    a byte of them.
    """
    return decoded(wire.receive(host_fd))
