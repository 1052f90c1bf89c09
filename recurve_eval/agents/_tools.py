"""The far end of an agent's tools: one command in the sandbox for a whole turn, spoken to line by line."""

from __future__ import annotations

import json
import os
import queue
import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from recurve_eval.agents._meter import JsonLines
from recurve_eval.ports import Command, Completed, Session

SOURCE = Path(__file__).with_name("_toolbox.py")
TEXT = {"type": "string"}
TOOLS: tuple[tuple[str, str, dict[str, Any], list[str]], ...] = (
    ("python_eval", "Run Python in an interpreter that keeps its state; shows what is printed and the last value.",
     {"code": TEXT}, ["code"]),
    ("shell", "Run a shell command in the workspace.",
     {"command": TEXT, "timeout_s": {"type": "number"}}, ["command"]),
    ("read_file", "Read a text file of the workspace.", {"path": TEXT}, ["path"]),
    ("write_file", "Write a text file of the workspace, replacing what was there.",
     {"path": TEXT, "content": TEXT}, ["path", "content"]),
    ("finish", "Say that you have ended: whether the work is done, and a summary.",
     {"done": {"type": "boolean"}, "summary": TEXT}, ["done"]),
)  # fmt: skip


def schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


class Toolbox:
    """Serves the tools of one turn while it is open. The sandbox ends it with everything that it started."""

    def __init__(self, session: Session, wall_s: float) -> None:
        self._session = session
        self._marker = f"{secrets.token_hex(8)}:"
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._lines = JsonLines(self._take, self._marker.encode())
        near, self._requests = os.pipe()
        self._command = Command(
            ("{python}", "-u", "-c", SOURCE.read_text(encoding="utf-8"), self._marker), timeout_s=wall_s,
            watch=self._lines.feed, stdin_fd=near,
        )  # fmt: skip
        self._near = near
        self._number = 0
        self._fault: BaseException | None = None
        self.ended: Completed | None = None
        self._thread = threading.Thread(target=self._serve, name="toolbox", daemon=True)

    def __enter__(self) -> Toolbox:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the toolbox. Raises what the sandbox raised, where it was at fault."""
        if self._requests >= 0:
            with suppress(OSError):
                os.close(self._requests)
            self._requests = -1
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """What the tool says, or None when the toolbox has ended (out of time, cancelled, killed by its own work)."""
        self._number += 1
        line = json.dumps({"id": self._number, "tool": tool, "arguments": dict(arguments)}) + "\n"
        data = memoryview(line.encode("utf-8", "replace"))
        with suppress(OSError):
            while data:
                data = data[os.write(self._requests, data) :]
        while (answer := self._answers.get()) is not None:
            if answer.get("id") == self._number:
                return str(answer.get("text", ""))
        self._answers.put(None)
        return None

    def _take(self, answer: dict[str, Any]) -> None:
        self._answers.put(answer)

    def _serve(self) -> None:
        try:
            self.ended = self._session.run(self._command)
        except BaseException as error:  # noqa: BLE001 - close() raises it in the agent's thread
            self._fault = error
        finally:
            with suppress(OSError):
                os.close(self._near)
            self._answers.put(None)
