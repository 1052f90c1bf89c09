"""A helper process of this one: a script of this package that obeys a socket and ends when the socket does."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from recurve_eval.errors import SandboxError


class Helper:
    """Started when first needed, again should it die, and anew in a forked process.

    Parameters
    ----------
    script : str
        A module of this package that is run as a script with the number of its socket.
    purpose : str
        What an error says that it is for.
    """

    def __init__(self, script: str, purpose: str) -> None:
        self._script = Path(__file__).with_name(script)
        self._purpose = purpose
        self._lock = threading.Lock()
        self._owner = 0
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, message: bytes, descriptors: Sequence[int]) -> None:
        """Hand over a message with descriptors. Raises SandboxError where no helper can be started."""
        with self._lock:
            for attempt in (1, 2):
                try:
                    socket.send_fds(self._connected(), [message], descriptors)
                    return
                except OSError as error:
                    self._control = None
                    if attempt == 2:
                        raise SandboxError(f"cannot start a {self._purpose} process: {error}") from error

    def _connected(self) -> socket.socket:
        if self._control is None or self._owner != os.getpid():
            mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            python = getattr(sys, "_base_executable", "") or sys.executable
            with theirs:
                self._process = subprocess.Popen(
                    [python, "-I", "-S", str(self._script), str(theirs.fileno())],
                    pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, start_new_session=True, cwd="/", env={},
                )  # fmt: skip
            if self._owner != os.getpid():
                atexit.register(self.shut)
            self._control, self._owner = mine, os.getpid()
        return self._control

    def shut(self) -> None:
        """Close the socket, and so end the helper."""
        with self._lock:
            if self._control is not None and self._owner == os.getpid():
                self._control.close()
                self._control = None
                if self._process is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(timeout=5.0)
                    self._process = None
