"""The process sandbox: limits, a scrubbed environment and a sure end, but no walls. For development.

A command sees the whole machine as its user does; rows say ``unprotected``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recurve_eval.domain import JSON
from recurve_eval.errors import SandboxError
from recurve_eval.ports import Command, Session
from recurve_eval.sandbox._confined import RECORD, Confined, kill_marked
from recurve_eval.sandbox._guard import MARGIN_SECONDS
from recurve_eval.sandbox._helper import Helper
from recurve_eval.sandbox._proc import Ending, Pipes
from recurve_eval.sandbox._session import BaseSession

ANSWER_SECONDS = 15.0


@dataclass
class ProcessSandbox(Confined):
    """Fields: see :class:`Confined`. Nothing is hidden from the agent."""

    name: str = "process"

    def pins(self) -> Mapping[str, JSON]:
        return self.shared_pins()

    def attestation(self) -> Mapping[str, JSON]:
        return {"agent_sandbox": "unprotected", "network": "full", "boundary": "none"}

    def check(self) -> str | None:
        if sys.platform != "linux":
            return "the process sandbox needs Linux (child subreapers and /proc); run in a Linux container"
        if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
            return "the kernel lacks /proc/PID/task/TID/children: use a kernel with CONFIG_PROC_CHILDREN"
        return self.missing_credentials()

    def offline(self) -> ProcessSandbox:
        """The same without credentials; this sandbox has no say over the network."""
        return replace(self, pass_env=[])

    def open(self, workspace: Path, scratch: Path, label: str) -> Session:
        return ProcessSession(self, workspace, scratch, label)


class ProcessSession(BaseSession):
    def __init__(self, sandbox: ProcessSandbox, workspace: Path, scratch: Path, label: str) -> None:
        super().__init__(sandbox, workspace, scratch, label)
        self.result_file = str(self._scratch / RECORD)
        self._socket = supervise(sandbox.limits())

    def _start(self, command: Command) -> ProcessChild:
        base = self._sandbox.environment(
            os.environ.get("PATH", os.defpath), str(self._scratch), self._token, command.env
        )
        argv = [self._sandbox.interpreter if word == "{python}" else word for word in command.argv]
        bound = command.timeout_s + self._sandbox.grace_s + MARGIN_SECONDS
        sheet = {"argv": argv, "env": base, "cwd": str(self._workspace), "bound_s": bound}
        return ProcessChild(self._socket, sheet, self._token, command.stdin_fd)

    def _depart(self) -> str:
        try:
            if not self._fault:
                order(self._socket, "kill", self._token)
        finally:
            self._socket.close()
            if self._fault:
                kill_marked(self._token)
        return "its subreaper has no child left to wait for (ECHILD)"


class ProcessChild:
    guarded = -1  # its supervisor is a process of its own and keeps the bound itself

    def __init__(
        self, supervisor: socket.socket, sheet: dict[str, Any], token: str, stdin_fd: int | None = None
    ) -> None:
        self._supervisor, self._token = supervisor, token
        self._ending: Ending | None = None
        self.ended = supervisor.fileno()
        self._pipes = Pipes(stdin_fd)
        self.stdin, self.stdout, self.stderr = self._pipes.stdin, self._pipes.stdout, self._pipes.stderr
        memory = os.memfd_create("command")
        try:
            with os.fdopen(os.dup(memory), "w+b") as file:
                file.write(json.dumps(sheet).encode())
                file.seek(0)
            far = [self._pipes.far_in, self._pipes.far_out, self._pipes.far_err, memory]
            socket.send_fds(supervisor, [b"run"], far)
        except OSError as error:
            os.close(self.stdin)
            self.release()
            raise SandboxError(f"the supervisor of a session is gone: {error}") from error
        finally:
            os.close(memory)
            self._pipes.close_far()

    def terminate(self) -> None:
        with contextlib.suppress(OSError):
            self._supervisor.send(b"term")

    def finish(self) -> Ending:
        if self._ending is None:
            answer = order(self._supervisor, "kill", self._token)
            self._ending = Ending(answer["status"], answer["killed"])
        return self._ending

    def release(self) -> None:
        self._pipes.close_outputs()


def order(supervisor: socket.socket, word: str, token: str) -> dict[str, Any]:
    """Order the end of a session's processes and wait for the answer. Raises SandboxError without a proof."""
    supervisor.settimeout(ANSWER_SECONDS)
    try:
        supervisor.send(word.encode())
        while answer := supervisor.recv(4096):
            message: dict[str, Any] = json.loads(answer)
            if "fault" in message:
                raise SandboxError(message["fault"])
            if message.get("gone"):
                return message
            if "gone" in message:
                raise SandboxError(f"{message['left']} processes of a command cannot be killed")
    except OSError:
        pass
    kill_marked(token)
    raise SandboxError("the supervisor of a session was killed: nothing can prove that its processes are gone")


NURSERY = Helper("_nursery.py", "supervisor")


def supervise(limits: Mapping[str, int]) -> socket.socket:
    """A socket to a fresh supervisor whose processes are held to ``limits``. Raises SandboxError."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            NURSERY.send(json.dumps(dict(limits)).encode(), [theirs.fileno()])
        except SandboxError:
            mine.close()
            raise
    return mine
