"""What the children that report do: one holds submission and tests together, one holds tests apart."""

from __future__ import annotations

import base64
import os

from . import report, shared, verifier, wire
from .children import Role, Start


def decoded(files: dict[str, str]) -> dict[str, bytes]:
    return {path: base64.b64decode(content) for path, content in files.items()}


def _share(start: Start) -> None:
    start.settle({start.line, start.host_fd})
    job = start.told()
    channel = report.open_channel(start.line, start.key)
    files = _held_out(start)
    os.close(start.host_fd)
    channel.tell("received")
    shared.run(dict(job, held_out=files), channel, start.place.work)


def _verify(start: Start) -> None:
    start.settle({start.line, start.host_fd})
    start.stay()
    verifier.serve(start.line, lambda: _held_out(start))


def _held_out(start: Start) -> dict[str, bytes]:
    """Read by the process that runs them, so that no process from whose memory a candidate is forked ever holds
    a byte of them.
    """
    return decoded(wire.receive(start.host_fd))


SHARED = Role(1, _share, reports=True)
VERIFIER = Role(2, _verify, graded=False)
