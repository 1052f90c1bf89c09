"""What happened to a run beside its results: restarts, retries, refusals, drift, challenges."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recurve_eval.appendlog import AppendLog, complete_lines, utc_now
from recurve_eval.domain import canonical_json

EVENTS = "events.jsonl"


class Events:
    """The event log of a run directory. Safe among threads and processes; survives a torn tail."""

    def __init__(self, run_dir: Path) -> None:
        self._log = AppendLog(Path(run_dir) / EVENTS)

    def append(self, kind: str, **fields: Any) -> None:
        """Record one event, with the time and this process's id."""
        event = {"at": utc_now(), "kind": kind, "pid": os.getpid(), **fields}
        with self._log.locked():
            for _ in self._log.new_lines():
                pass
            self._log.append(canonical_json(event).encode())


def read_events(run_dir: Path) -> Iterator[Mapping[str, Any]]:
    """Every readable event, in order of writing; what is not an event is passed over."""
    for line in complete_lines(Path(run_dir) / EVENTS):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
