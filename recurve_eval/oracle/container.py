"""One grading container: made from an image id, attached to, watched, removed."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import docker
from docker.types import Ulimit

from recurve_eval.oracle.daemon import CALL_TIMEOUT_S, TROUBLE, connect, remove
from recurve_eval.oracle.line import Line, ServerLost, ready
from recurve_eval.oracle.protocol import frame

_STDOUT = 1
_KEPT_ERRORS = 1000
_BEGINS_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Contained:
    """How to start a server in a container of its own. One that ``meets`` offers a line of its own at first.

    ``image`` is an image id; ``host`` the container's host configuration; ``sources`` the runner's, sent
    down the line as the first frame.
    """

    url: str
    image: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    host: Mapping[str, Any]
    sources: Mapping[str, bytes]
    labels: Mapping[str, str] = field(default_factory=dict)
    meets: bool = False

    def open(self) -> Line:
        line = ContainerLine(self)
        deadline = time.monotonic() + _BEGINS_WITHIN_S
        try:
            line.send(frame({name: text.decode() for name, text in self.sources.items()}), deadline)
            if self.meets:
                line.meet(deadline)
        except ServerLost:
            line.close()
            raise
        return line


class ContainerLine(Line):
    """The attached stream of a container, or a socket that its server listens on where this process can reach it.

    The container ends with either, and is then removed.
    """

    def __init__(self, wanted: Contained) -> None:
        super().__init__()
        self._errors = bytearray()
        self._raw = bytearray()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._direct: socket.socket | None = None
        self.identity, self.pid, self._url = "", 0, wanted.url
        try:
            self._client = connect(wanted.url)
        except TROUBLE as error:
            raise ServerLost(f"could not be started, Docker does not answer: {error}") from None
        try:
            self._create(wanted)
        except TROUBLE as error:
            self.close()
            raise ServerLost(f"could not be started: {error}") from None
        except ServerLost:
            self.close()
            raise

    def _create(self, wanted: Contained) -> None:
        api = self._client.api
        self._since = int(time.time()) - 1
        made = api.create_container(
            wanted.image, list(wanted.argv), entrypoint=[], user="0:0", working_dir="/", hostname="oracle",
            environment=dict(wanted.env), stdin_open=True, host_config=_host_config(api, wanted.host),
            labels=dict(wanted.labels), use_config_proxy=False, stop_signal="SIGKILL",
        )  # fmt: skip
        self.identity = made["Id"]
        real = api.inspect_container(self.identity)["Image"]
        if real != wanted.image:
            raise ServerLost(f"was refused: its container is of {real}, pinned is {wanted.image}", own_fault=True)
        self._stream = api.attach_socket(self.identity, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        self._socket = getattr(self._stream, "_sock", self._stream)
        self._socket.setblocking(False)
        self.waits_in = self.waits_out = self._socket.fileno()
        api.start(self.identity)
        self.pid = int(api.inspect_container(self.identity)["State"]["Pid"])

    def meet(self, deadline: float) -> None:
        """Take the line that the server offers, where it can be reached. Raises ServerLost."""
        (size,) = struct.unpack(">I", self.read(4, deadline))
        offer = json.loads(self.read(size, deadline))
        if offer.get("status") != "meet":
            raise ServerLost(f"is unfit: {offer.get('why', offer)}", own_fault=True)
        direct = _reached(self.pid, offer["at"])
        if direct is not None:
            direct.sendall(frame(offer["token"]))
            direct.setblocking(False)
        self.send(frame({"met": direct is not None}), deadline)
        if direct is not None:
            self._direct = direct
            self.waits_in = self.waits_out = direct.fileno()

    def write_some(self, data: memoryview) -> int:
        way = self._direct or self._socket
        if way is None:
            raise BrokenPipeError("closed")
        return way.send(data, socket.MSG_NOSIGNAL)

    def read_some(self) -> bytes:
        if self._direct is not None:
            return self._direct.recv(1 << 16)
        return self._attached()

    def _attached(self) -> bytes:
        """Standard output alone; what the server says on its standard error is kept for its obituary."""
        if self._socket is None:
            return b""
        data = self._socket.recv(1 << 16)
        if not data:
            return b""
        self._raw += data
        said = self._unpacked()
        if not said:
            raise BlockingIOError()
        return said

    def _unpacked(self) -> bytes:
        """Docker sends chunks of both streams, each after one byte for the stream and four for its length."""
        said = bytearray()
        while len(self._raw) >= 8:
            stream, size = struct.unpack_from(">BxxxL", self._raw)
            if len(self._raw) < 8 + size:
                break
            chunk = self._raw[8 : 8 + size]
            del self._raw[: 8 + size]
            if stream == _STDOUT:
                said += chunk
            else:
                self._errors = (self._errors + chunk)[-_KEPT_ERRORS:]
        return bytes(said)

    @property
    def alive(self) -> bool:
        way = self._direct or self._socket
        if way is None:
            return False
        try:
            return bool(way.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def death(self) -> ServerLost:
        if self._direct is not None:
            self._hear_last_words()
        said = self._errors.decode("utf-8", "replace").strip()
        words = f": {said}" if said else ""
        try:
            with closing(connect(self._url)) as client:
                actions = self._obituary(client)
        except TROUBLE:
            return ServerLost(f"died with its container, and Docker does not answer{words}")
        code = actions.get("die", "")
        how = f"exit code {code}" if code else "its line was cut"
        if code.isdigit() and int(code) > 128:
            how = f"killed by signal {int(code) - 128}"
        # An out-of-memory event alone may have been of a graded process; it explains an end by SIGKILL only.
        exhausted = "oom" in actions and code == "137"
        if exhausted:
            how += ", the memory of its container used up"
        return ServerLost(f"died ({how}){words}", exhausted=exhausted)

    def _hear_last_words(self) -> None:
        """What was said on the attached stream, until that has ended too."""
        until = time.monotonic() + 2.0
        while self._socket is not None and ready(self._socket.fileno(), select.POLLIN, until):
            try:
                if not self._socket.recv(1, socket.MSG_PEEK):
                    return
                self._attached()
            except BlockingIOError:
                continue
            except OSError:
                return

    def _obituary(self, client: docker.DockerClient) -> dict[str, str]:
        """Events of the container, which outlive it: action -> exit code. Waits briefly for its death to be told."""
        until = time.monotonic() + 2.0
        while True:
            now = f"{time.time():.6f}"  # the typed variants know whole seconds alone, which would miss the last one
            events = client.api.events(  # type: ignore[call-overload]
                since=self._since, until=now, filters={"container": self.identity}, decode=True
            )
            found = {}
            with suppress(ValueError):
                for event in events:
                    found[event["Action"]] = event.get("Actor", {}).get("Attributes", {}).get("exitCode", "")
            if "die" in found or time.monotonic() > until:
                return found
            time.sleep(0.02)

    def hang_up(self) -> None:
        with self._lock:
            if self._direct is not None:
                self._direct.close()
                self._direct = None
            if self._socket is None:
                return
            response = getattr(self._stream, "_response", None)
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            ends: list[Any] = [end for end in (response, self._stream, self._socket) if end is not None]
            for end in ends:
                with suppress(OSError, ValueError):
                    end.close()
            self._socket = None

    def close(self) -> None:
        self.hang_up()
        if self.identity:
            with suppress(*TROUBLE), closing(connect(self._url)) as client:
                remove(client, self.identity)
            self.identity = ""
        self._client.close()


def _reached(pid: int, path: str) -> socket.socket | None:
    """A connection to the socket at ``path`` in the root of process ``pid``; None where this process may not look
    there, or where that process is not of this machine.
    """
    way = socket.socket(socket.AF_UNIX)
    way.settimeout(CALL_TIMEOUT_S)
    try:
        way.connect(f"/proc/{pid}/root{path}")
        other, *_ = struct.unpack("3i", way.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        if other == pid:
            return way
    except OSError:
        pass
    way.close()
    return None


def _host_config(api: Any, options: Mapping[str, Any]) -> Any:
    ulimits = [Ulimit(name=name, soft=value, hard=value) for name, value in options.get("ulimits", {}).items()]
    return api.create_host_config(**{**options, "ulimits": ulimits})
