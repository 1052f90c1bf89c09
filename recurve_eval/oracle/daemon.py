"""The Docker daemon that gradings run on: how it is reached, walls and labels of containers, what dead runs left."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig
from requests.exceptions import RequestException

from recurve_eval.oracle.owner import Owner, host

CALL_TIMEOUT_S = 60
LABEL = "recurve"
_USUAL = "unix:///var/run/docker.sock"
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
        if owner.gone and remove(client, listed["Id"]):
            removed += 1
    return removed


def remove(client: docker.DockerClient, identity: str) -> bool:
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
