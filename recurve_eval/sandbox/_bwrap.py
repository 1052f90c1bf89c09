"""One bwrap process and the PID namespace behind it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from recurve_eval.errors import SandboxError
from recurve_eval.sandbox._proc import Ending, Pipes

START_SECONDS = 30.0
END_SECONDS = 10.0


class BwrapChild:
    """A command inside bwrap, held back until its namespace's init can be named without a race.

    Parameters
    ----------
    walls, command : list of str
        bwrap's own arguments, program first; then ``--`` and what runs inside.
    environment : mapping
        The whole environment; handed over as such, so that no credential stands on a command line.
    files : mapping of path to bytes
        Small read-only files that exist inside alone.
    """

    def __init__(
        self, walls: list[str], command: list[str], environment: Mapping[str, str], files: Mapping[str, bytes],
        stdin_fd: int | None = None,
    ) -> None:  # fmt: skip
        self._ending: Ending | None = None
        self.guarded = self._init = -1
        self._status = b""
        self._pipes = Pipes(stdin_fd)
        self.stdin, self.stdout, self.stderr = self._pipes.stdin, self._pipes.stdout, self._pipes.stderr
        self._status_fd, status = os.pipe()
        hold, self._hold = os.pipe()
        data = {path: _memory(content) for path, content in files.items()}
        words = [w for path, fd in data.items() for w in ("--perms", "0444", "--ro-bind-data", str(fd), path)]
        channels = ["--json-status-fd", str(status), "--block-fd", str(hold)]
        try:
            self._process = subprocess.Popen(
                [*walls, *words, "--remount-ro", "/", *channels, *command],
                stdin=self._pipes.far_in, stdout=self._pipes.far_out, stderr=self._pipes.far_err,
                env=dict(environment), pass_fds=[status, hold, *data.values()], start_new_session=True, cwd="/",
            )  # fmt: skip
        except OSError as error:
            os.close(self.stdin)
            self._close(self._status_fd, self._hold)
            self._pipes.close_outputs()
            raise SandboxError(f"bwrap could not be started: {error}") from error
        finally:
            self._pipes.close_far()
            self._close(status, hold, *data.values())
        self.ended = os.pidfd_open(self._process.pid)
        self._name_init()

    def _name_init(self) -> None:
        """Open the init's pidfd while bwrap still holds it back, then let it go."""
        deadline = time.monotonic() + START_SECONDS
        while b"\n" not in self._status and self._read_status(deadline):
            pass
        try:
            self._init_pid = int(json.loads(self._status.split(b"\n")[0])["child-pid"])
            self.guarded = self._init = os.pidfd_open(self._init_pid)
            os.write(self._hold, b"1")
        except (ValueError, KeyError, OSError):
            self._refuse()

    def _read_status(self, deadline: float) -> bool:
        poll = select.poll()
        poll.register(self._status_fd, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return False
        chunk = os.read(self._status_fd, 4096)
        self._status += chunk
        return bool(chunk)

    def _refuse(self) -> None:
        self._process.kill()
        self._process.wait()
        os.set_blocking(self.stderr, False)
        said = b""
        with contextlib.suppress(BlockingIOError):
            said = os.read(self.stderr, 2000)
        os.close(self.stdin)
        self.release()
        raise SandboxError(f"bwrap failed: {said.decode(errors='replace').strip() or 'no reason given'}")

    def terminate(self) -> None:
        # The command shares its init's process group; the init itself is immune to SIGTERM.
        with contextlib.suppress(OSError):
            if os.getpgid(self._init_pid) == self._init_pid:
                os.killpg(self._init_pid, signal.SIGTERM)

    def finish(self) -> Ending:
        if self._ending is not None:
            return self._ending
        killed = self._members()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init, signal.SIGKILL)
        poll = select.poll()
        poll.register(self._init, select.POLLIN)
        if not poll.poll(END_SECONDS * 1000):
            raise SandboxError("a PID namespace did not end within 10 s of its init being killed")
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise SandboxError("bwrap did not end although its namespace has") from error
        deadline = time.monotonic() + END_SECONDS
        while self._read_status(deadline):
            pass
        ran = b"exit-code" in self._status
        self._ending = Ending(code if ran else None, killed)
        return self._ending

    def _members(self) -> int:
        """Processes still alive beside the init; a lower bound, for the record alone."""
        try:
            return len(Path(f"/proc/{self._init_pid}/task/{self._init_pid}/children").read_text().split())
        except OSError:
            return 0

    def release(self) -> None:
        self._pipes.close_outputs()
        self._close(self._status_fd, self._hold, self._init, self.ended)

    @staticmethod
    def _close(*descriptors: int) -> None:
        for fd in descriptors:
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)


def _memory(content: bytes) -> int:
    fd = os.memfd_create("file")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
