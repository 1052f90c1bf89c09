"""The watchdog's own process; run as a script by ``_guard.py``, never imported.

It holds pidfds with deadlines and kills what is not called off in time, whatever has become of the harness.
When the harness is gone, everything still on the list dies at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any


def watch(control: socket.socket) -> None:
    armed: dict[int, tuple[float, Any]] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        now = time.monotonic()
        for key in [k for k, (deadline, _) in armed.items() if deadline <= now]:
            kill(armed.pop(key)[1])
        left = min((deadline - now for deadline, _ in armed.values()), default=None)
        if not poll.poll(None if left is None else left * 1000 + 1):
            continue
        data, fds, _, _ = socket.recv_fds(control, 65536, 1)
        if not data:
            break
        order = json.loads(data)
        if fds:
            armed[order["id"]] = (order["deadline"], fds[0])
        elif "argv" in order:
            armed[order["id"]] = (order["deadline"], order)
        elif order["id"] in armed:
            target = armed.pop(order["id"])[1]
            if isinstance(target, int):
                os.close(target)
    for started in [kill(target) for _, target in armed.values()]:
        if started is not None:
            started.wait()


def kill(target: Any) -> Any:
    """Kill at once, or start what removes; the latter's process, where there is one."""
    if not isinstance(target, int):
        import subprocess  # rarely needed, and slow to load

        null = subprocess.DEVNULL
        return subprocess.Popen(target["argv"], env=target["env"], stdin=null, stdout=null, stderr=null)
    fd = target
    try:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    except OSError:
        pass
    os.close(fd)
    return None


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(socket.socket(fileno=int(sys.argv[1])))
