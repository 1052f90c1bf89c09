"""The one way out of a walled-in sandbox: a forward proxy on a Unix socket that knows which hosts may be reached.

The sandbox has no network and no name service of its own: names are resolved here, and only those of the list. What is
refused is answered with 403 (404 where the sandbox plays a network without content) and kept for the record.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from recurve_eval.errors import ConfigError

PORT = 3128
SOCKET = "proxy.sock"
MAX_HEAD = 64 * 1024
MAX_OPEN = 128
CONNECT_SECONDS = 20.0
HEAD_SECONDS = 30.0
KEPT = 1000  # distinct refusals
_ENTRY = re.compile(r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})")
_REQUEST = re.compile(rb"(?P<method>[A-Z]+) (?P<target>\S+) HTTP/1\.[01]\r?\n")
_ABSOLUTE = re.compile(r"http://(?P<authority>[^/?#@\s]+)(?P<path>[^#\s]*)")


def parse_allowed(allow: Sequence[str]) -> frozenset[tuple[str, int]]:
    """``host:port`` entries, hosts in lower case. Raises ConfigError for anything else; there are no wildcards."""
    found = set()
    for entry in allow:
        match = _ENTRY.fullmatch(entry)
        if not match or not 0 < int(match["port"]) < 65536:
            raise ConfigError(f"sandbox.allow takes HOST:PORT, such as api.anthropic.com:443; got '{entry}'")
        found.add((match["host"].strip("[]").lower(), int(match["port"])))
    return frozenset(found)


class Proxy:
    """Serves ``directory/proxy.sock`` until closed.

    Parameters
    ----------
    directory : Path
        A directory of its own, which the sandbox shows to the agent.
    allowed : set of (host, port)
    status : int
        With what a refused request is answered: 403, or 404.
    """

    def __init__(self, directory: Path, allowed: frozenset[tuple[str, int]], status: int = 403) -> None:
        self._allowed, self._status = allowed, status
        self.refused: Counter[str] = Counter()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        directory.mkdir(mode=0o711, exist_ok=True)
        directory.chmod(0o711)
        self._listener = _listen(directory)
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            ends = [self._listener, *self._open]
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                full = self._closed or len(self._open) >= MAX_OPEN
                if not full:
                    self._open.add(near)
            if full:
                near.close()
            else:
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        try:
            near.settimeout(HEAD_SECONDS)
            head, rest = _head(near)
            self._answer(near, head, rest)
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._open.discard(near)
            near.close()

    def _answer(self, near: socket.socket, head: bytes, rest: bytes) -> None:
        match = _REQUEST.match(head)
        if not match:
            return _say(near, 400, "this is a forward proxy")
        method, target = match["method"], match["target"].decode("latin-1")
        tunnel = method == b"CONNECT"
        absolute = None if tunnel else _ABSOLUTE.fullmatch(target)
        authority = target if tunnel else absolute["authority"] if absolute else ""
        host, port = _split(authority, 443 if tunnel else 80)
        if (host, port) not in self._allowed:
            self._refuse(f"{host or target[:200]}:{port}")
            return _say(near, self._status, f"{host}:{port} is not among the hosts that this sandbox may reach")
        try:
            far = socket.create_connection((host, port), CONNECT_SECONDS)
        except OSError as error:
            return _say(near, 502, f"{host}:{port} cannot be reached: {error}")
        with far:
            if tunnel:
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                far.sendall(rest)
            else:
                assert absolute is not None
                far.sendall(_origin_form(head, method, absolute["path"] or "/") + rest)
            self._join(near, far)
        return None

    def _refuse(self, where: str) -> None:
        with self._lock:
            if where in self.refused or len(self.refused) < KEPT:
                self.refused[where] += 1

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        """Bytes in both directions until one side has ended and the other has nothing more to say."""
        near.settimeout(None)
        far.settimeout(None)
        other = {near: far, far: near}
        reading = {near, far}
        while reading:
            ready, _, _ = select.select(list(reading), [], [], 600.0)
            if not ready:
                return
            for source in ready:
                data = source.recv(65536)
                if data:
                    other[source].sendall(data)
                    continue
                reading.discard(source)
                with contextlib.suppress(OSError):
                    other[source].shutdown(socket.SHUT_WR)
                if source is far:
                    return


def _listen(directory: Path) -> socket.socket:
    """A socket path may be no longer than 107 bytes: the directory is named by its descriptor."""
    listener = socket.socket(socket.AF_UNIX)
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{place}/{SOCKET}")
    finally:
        os.close(place)
    (directory / SOCKET).chmod(0o666)
    listener.listen(64)
    return listener


def _head(near: socket.socket) -> tuple[bytes, bytes]:
    """The request line with its headers, and what came after them. Raises ValueError where there is no end to them."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = near.recv(65536)
        if not chunk or len(data) > MAX_HEAD:
            raise ValueError("no request")
        data += chunk
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def _origin_form(head: bytes, method: bytes, path: str) -> bytes:
    """The request as its server wants it: one request a connection, and none of the headers meant for a proxy."""
    lines = head.split(b"\r\n")[1:-2]
    kept = [line for line in lines if not line.lower().startswith((b"proxy-", b"connection:"))]
    first = method + b" " + (path if path.startswith("/") else "/" + path).encode("latin-1") + b" HTTP/1.1"
    return b"\r\n".join([first, *kept, b"Connection: close"]) + b"\r\n\r\n"


def _split(authority: str, default: int) -> tuple[str, int]:
    host, _, port = authority.rpartition(":")
    if not host or not port.isdigit():
        host, port = authority, str(default)
    return host.strip("[]").rstrip(".").lower(), int(port) if len(port) <= 5 else -1


def _say(near: socket.socket, status: int, message: str) -> None:
    reasons = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 502: "Bad Gateway"}
    body = f"{message}\n".encode()
    head = f"HTTP/1.1 {status} {reasons[status]}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    near.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)
