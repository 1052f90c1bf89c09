"""The process sandbox's own processes; run as a script by ``process.py``, never imported.

One *nursery* a harness process forks one *supervisor* a session (about a millisecond; starting an
interpreter would take ten). A supervisor is a child subreaper: whatever a command starts, however often
it forks or calls setsid, becomes the supervisor's child when its parent dies. So "no process is left"
is no guess: it is the kernel's ECHILD, nothing left to wait for. The end of a socket ends its owner,
and with it every process of the session, so that a killed harness leaves nothing behind.
"""

# pathlib would double the start of this process.
# ruff: noqa: PTH113, PTH123, PTH208
from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 8.0
NAMES = {"core": resource.RLIMIT_CORE, "cpu": resource.RLIMIT_CPU, "data": resource.RLIMIT_DATA,
         "as": resource.RLIMIT_AS, "nproc": resource.RLIMIT_NPROC, "fsize": resource.RLIMIT_FSIZE}  # fmt: skip


def nursery(control: socket.socket) -> None:
    """Fork a supervisor for every session socket that arrives; end when the harness does."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, fds = receive(control, 4096, 1)
        if not data:
            return
        if os.fork() == 0:
            control.close()
            try:
                Supervisor(socket.socket(fileno=fds[0]), json.loads(data)).serve()
            finally:
                os._exit(0)
        os.close(fds[0])


def receive(source: socket.socket, size: int, descriptors: int) -> tuple[bytes, list[int]]:
    """A message and its descriptors, none of which a command may inherit (``recv_fds`` drops such a flag)."""
    data, fds, _, _ = socket.recv_fds(source, size, descriptors)
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, fds


class Supervisor:
    def __init__(self, session: socket.socket, limits: dict[str, int]) -> None:
        self.session = session
        self.leader = 0
        self.status: int | None = None
        self.told = True
        self.deadline: float | None = None
        self.awake, wake = os.pipe()
        os.set_blocking(self.awake, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            self.tell(fault=f"no child subreaper: {os.strerror(ctypes.get_errno())}")
            os._exit(1)
        limit(limits)

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self.session, select.POLLIN)
        poll.register(self.awake, select.POLLIN)
        while True:
            left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic()) * 1000
            ready = [fd for fd, _ in poll.poll(left)]
            if self.deadline is not None and time.monotonic() >= self.deadline:
                # The harness would have ended this long ago: it hangs. Whatever it does next, nothing works on.
                self.deadline = None
                self.kill_all()
                self.report()
            if self.awake in ready:
                os.read(self.awake, 4096)
                self.reap()
                self.report()
            if self.session.fileno() in ready and not self.obey():
                self.kill_all()
                return

    def obey(self) -> bool:
        try:
            order, fds = receive(self.session, 16, 4)
        except ConnectionError:
            return False
        if order == b"run":
            self.start(*fds)
        elif order == b"term":
            self.signal_group(signal.SIGTERM)
        elif order == b"kill":
            killed, left = self.kill_all()
            self.told, self.deadline = True, None
            self.tell(gone=left == 0, killed=killed, left=left, status=self.status)
        return bool(order)

    def start(self, *fds: int) -> None:
        """Spawn the command described by the JSON in the last descriptor, on the other three."""
        self.leader, self.status, self.told = 0, None, False
        try:
            with os.fdopen(fds[3], "rb") as sheet:
                wanted = json.load(sheet)
            os.chdir(wanted["cwd"])
            self.deadline = time.monotonic() + wanted["bound_s"]
            self.status = self.spawn(wanted["argv"], wanted["env"], fds[:3])
        except OSError as error:
            self.told = True
            self.tell(fault=f"cannot start a command: {error}")
        finally:
            for fd in fds[:3]:
                os.close(fd)
        self.report()

    def spawn(self, argv: list[str], env: dict[str, str], fds: tuple[int, ...]) -> int | None:
        """None once the command runs; 127 or 126, the shell's codes, where there is no such command."""
        program = locate(argv[0], env.get("PATH", ""))
        if program is None:
            os.write(fds[2], f"{argv[0]}: command not found\n".encode())
            return 127
        actions = [(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(fds)]
        try:
            self.leader = os.posix_spawn(program, argv, env, file_actions=actions, setsid=True,
                                         setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT,
                                                    signal.SIGHUP])  # fmt: skip
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise
            os.write(fds[2], f"{argv[0]}: {error.strerror}\n".encode())
            return 127 if error.errno == errno.ENOENT else 126
        return None

    def reap(self) -> bool:
        """Collect the dead. True when no child of any kind is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.leader:
                code = os.waitstatus_to_exitcode(status)
                self.leader, self.status = 0, code if code >= 0 else 128 - code

    def report(self) -> None:
        if self.status is not None and not self.told:
            self.told = True
            self.tell(ended=True)

    def kill_all(self) -> tuple[int, int]:
        """Kill every descendant until the kernel knows of none; how many were killed, how many are left."""
        killed: set[int] = set()
        deadline = time.monotonic() + KILL_SECONDS
        while not self.reap():
            living = descendants(os.getpid())
            for pid in living:
                killed.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if time.monotonic() > deadline:
                return len(killed), len(living)
            time.sleep(0.0003)
        return len(killed), 0

    def signal_group(self, number: int) -> None:
        if self.leader:
            try:
                os.killpg(self.leader, number)
            except ProcessLookupError:
                pass

    def tell(self, **message: Any) -> None:
        try:
            self.session.send(json.dumps(message).encode())
        except OSError:
            pass


def descendants(root: int) -> list[int]:
    found: list[int] = []
    stack = [root]
    while stack:
        pid = stack.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    children = [int(word) for word in file.read().split()]
                found += children
                stack += children
        except OSError:
            continue
    return found


def locate(name: str, path: str) -> str | None:
    if "/" in name:
        return name
    for directory in path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None


def limit(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        if name == "nproc":
            if os.getuid() == 0:
                continue  # not enforced for root
            value += threads_of_user()
        _, hard = resource.getrlimit(NAMES[name])
        top = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(NAMES[name], (top, top))


def threads_of_user() -> int:
    """The kernel counts every thread of the user, not only this session's: leave the others their share."""
    count = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:
            continue
    return count


if __name__ == "__main__":
    nursery(socket.socket(fileno=int(sys.argv[1])))
