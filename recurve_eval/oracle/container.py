"""One grading container: made from an image id, attached to, watched, removed."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig, Ulimit
from requests.exceptions import RequestException

from recurve_eval.oracle.line import Line, ServerLost
from recurve_eval.oracle.owner import Owner, host
from recurve_eval.oracle.protocol import frame

CALL_TIMEOUT_S = 60
LABEL = "recurve"
_USUAL = "unix:///var/run/docker.sock"
_STDOUT = 1
_KEPT_ERRORS = 1000
_GONE_WITHIN_S = 15.0

_versions: dict[str, str] = {}  # of the API, by the daemon's address

TROUBLE = (DockerException, RequestException, OSError)


def connect(url: str) -> docker.DockerClient:
    """A client of the daemon at ``url``; empty is what DOCKER_HOST says, else the usual socket. Raises TROUBLE."""
    where = url or os.environ.get("DOCKER_HOST", "") or _USUAL
    if where.startswith("unix://"):
        _knock(where.removeprefix("unix://"))
    # A client that asks for the version itself is lost, with its sockets, when the daemon goes away in between.
    version = _versions.get(where)
    if url:
        client = docker.DockerClient(base_url=url, version=version, timeout=CALL_TIMEOUT_S)
    else:
        client = docker.from_env(version=version, timeout=CALL_TIMEOUT_S)
    _versions[where] = client.api.api_version
    return client


def _knock(path: str) -> None:
    """docker-py leaks a socket for each connection that is refused, and a daemon is waited for by asking often."""
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(CALL_TIMEOUT_S)
        door.connect(path)


def walls(memory_mb: int, cpus: float, pids: int, scratch_mb: int) -> dict[str, Any]:
    """What every grading container is started with: no network, no capability but those added, bounds on all it uses.

    ``memory_mb`` and ``scratch_mb`` are MiB.
    """
    return {
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "mem_limit": memory_mb << 20,
        "memswap_limit": memory_mb << 20,
        "pids_limit": pids,
        "nano_cpus": int(cpus * 1e9),
        "shm_size": scratch_mb << 20,
        "ipc_mode": "private",
        "auto_remove": True,
        "log_config": LogConfig(type="none"),
        "ulimits": {"core": 0},
    }


def labels(run: str) -> dict[str, str]:
    me = Owner.me()
    return {
        f"{LABEL}.run": run,
        f"{LABEL}.host": host(),
        f"{LABEL}.space": str(me.space),
        f"{LABEL}.pid": str(me.pid),
        f"{LABEL}.started": str(me.started),
    }


def reap_orphans(client: docker.DockerClient) -> int:
    """Remove containers whose owner is dead; return how many. Raises TROUBLE.

    Only an owner on this host and in this PID namespace can be known to be dead; others are left alone.
    """
    removed = 0
    for listed in client.api.containers(all=True, filters={"label": [f"{LABEL}.run", f"{LABEL}.host={host()}"]}):
        names = listed["Labels"]
        owner = Owner(*(int(names.get(f"{LABEL}.{name}", 0)) for name in ("space", "pid", "started")))
        if owner.gone and _remove(client, listed["Id"]):
            removed += 1
    return removed


def _remove(client: docker.DockerClient, identity: str) -> bool:
    """Whether it was here and is gone. A removal that is already under way is waited for."""
    try:
        client.api.remove_container(identity, force=True, v=True)
    except NotFound:
        return False
    except APIError as error:
        if error.status_code != 409:
            raise
    until = time.monotonic() + _GONE_WITHIN_S
    while time.monotonic() < until:
        try:
            client.api.inspect_container(identity)
        except NotFound:
            return True
        time.sleep(0.02)
    return False


@dataclass(frozen=True, slots=True)
class Contained:
    """How to start a server in a container of its own.

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

    def open(self) -> Line:
        line = ContainerLine(self)
        try:
            line.send(frame({name: text.decode() for name, text in self.sources.items()}), time.monotonic() + 30)
        except ServerLost:
            line.close()
            raise
        return line


class ContainerLine(Line):
    """The attached stream of a container. The container ends with its standard input, and is then removed."""

    def __init__(self, wanted: Contained) -> None:
        super().__init__()
        self._errors = bytearray()
        self._raw = bytearray()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
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

    def write_some(self, data: memoryview) -> int:
        if self._socket is None:
            raise BrokenPipeError("closed")
        return self._socket.send(data, socket.MSG_NOSIGNAL)

    def read_some(self) -> bytes:
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
        if self._socket is None:
            return False
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def death(self) -> ServerLost:
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
                _remove(client, self.identity)
            self.identity = ""
        self._client.close()


def _host_config(api: Any, options: Mapping[str, Any]) -> Any:
    ulimits = [Ulimit(name=name, soft=value, hard=value) for name, value in options.get("ulimits", {}).items()]
    return api.create_host_config(**{**options, "ulimits": ulimits})
