"""The docker oracle: a warm server in a container of the pinned image, one container a worker."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import docker
from docker.errors import ImageNotFound

from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError, Drift, InfraError, RecurveError, Refused
from recurve_eval.oracle import recipe
from recurve_eval.oracle.container import Contained
from recurve_eval.oracle.daemon import TROUBLE, connect, labels, reap_orphans, walls
from recurve_eval.oracle.line import Launch, ServerLost
from recurve_eval.oracle.runner import runner_sources
from recurve_eval.oracle.server import WarmServer
from recurve_eval.oracle.warm import ARRANGEMENT, STARTED_WITH, WarmOracle

WORK = "/work"
# What the supervisor, the container's first process, cannot do without. A graded process holds none of them.
CAPABILITIES = {
    "SETUID": "gives each grading a user id of its own",
    "SETGID": "and a group id",
    "KILL": "ends processes of those users",
    "CHOWN": "hands a grading its directory",
    "DAC_OVERRIDE": "wipes directories that a grading closed to others",
    "FOWNER": "and those whose rights it took away; removes others' files from /tmp",
}
# A System V or POSIX message object would outlive its grading, since there is no IPC namespace for each.
SYSCTLS = {"kernel.shmmni": "0", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0", "fs.mqueue.queues_max": "0"}
# A closed connection would hold its port for a minute, and fail the next grading that serves on the same one.
SYSCTLS |= {"net.ipv4.tcp_max_tw_buckets": "0"}
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")
_BY_DIGEST = re.compile(r"[a-z0-9][\w./:-]*@sha256:[0-9a-f]{64}")
_RETRY_S = 0.25


@dataclass
class DockerOracle(WarmOracle):
    """Fields beyond :class:`WarmOracle`, of which ``python`` is a program of the image and ``paths`` lie in it:

    recipe : image recipe whose pin names the image; one of ``recipe`` and ``image`` must be given.
    image : the image by digest: its id (sha256:...) or NAME@sha256:... A tag alone is refused.
    docker_host : the daemon's address; empty is what DOCKER_HOST says, else the usual socket.
    container_mb : MiB of memory of one container, swap included; all that gradings write lies in it too.
    cpus : processors of one container.
    pids : processes and threads of one container; above twice ``processes``, so that the supervisor can always act.
    scratch_mb : MiB for what gradings write, for each of work, /tmp and /dev/shm.
    wait_s : seconds to wait for a daemon that went away before a grading is unscored.
    """

    name: str = "docker"
    recipe: str = ""
    image: str = ""
    docker_host: str = ""
    container_mb: int = 4096
    cpus: float = 2.0
    pids: int = 256
    scratch_mb: int = 256
    wait_s: float = 30.0

    # -- the image -------------------------------------------------------------------------------

    def check(self) -> str | None:
        try:
            self.image_digest()
        except RecurveError as error:
            return str(error)
        return None

    def image_digest(self) -> str:
        """The id of the pinned image, which Docker holds. Raises ConfigError, Refused, Drift, InfraError."""
        pinned = self._pinned()
        if self.pids < 2 * self.processes + 32:
            raise ConfigError(f"oracle.pids={self.pids} must be at least 2 x oracle.processes + 32")
        try:
            client = connect(self.docker_host)
        except TROUBLE as error:
            raise Refused(_no_docker(error)) from None
        with closing(client):
            try:
                return self._verified(client, pinned)
            except TROUBLE as error:
                raise InfraError(f"Docker failed while looking for {pinned}: {error}") from error

    def _pinned(self) -> str:
        """What the configuration names, by content."""
        if bool(self.recipe) == bool(self.image):
            raise ConfigError("oracle docker: give oracle.recipe or oracle.image, and not both")
        if self.recipe:
            pin = recipe.load(self.recipe).pin
            if pin is None:
                raise Refused(f"recipe {self.recipe} has no pin.json; make it: {self._build()} --repin")
            return pin.image_id
        if not (_IMAGE_ID.fullmatch(self.image) or _BY_DIGEST.fullmatch(self.image)):
            raise ConfigError(
                f"oracle.image '{self.image}' is a mutable tag; name the image by its content, as shown by: "
                f"docker image inspect --format '{{{{.Id}}}}' {self.image}"
            )
        return self.image

    def _verified(self, client: docker.DockerClient, pinned: str) -> str:
        self._refuse_retagged(client, pinned)
        try:
            held = client.images.get(pinned)
        except ImageNotFound:
            remedy = f"build it: {self._build()}" if self.recipe else "pull or load it"
            raise Refused(f"Docker does not hold the oracle image {pinned}; {remedy}") from None
        identity = str(held.id)
        if _IMAGE_ID.fullmatch(pinned) and identity != pinned:
            raise Drift(f"Docker names the image {identity} instead of {pinned}, which was pinned")
        said = client.info()
        if self.cpus > said["NCPU"]:
            raise ConfigError(f"oracle.cpus={self.cpus:g}, and Docker's machine has {said['NCPU']}")
        self._platform = {
            "platform": f"{held.attrs['Os']}/{held.attrs['Architecture']}",
            "emulated": held.attrs["Architecture"] != client.version()["Arch"],
        }
        return identity

    def _refuse_retagged(self, client: docker.DockerClient, pinned: str) -> None:
        """Gradings name the image by its id; a tag that says otherwise still means that somebody is misled."""
        if not self.recipe:
            return
        tag = f"recurve-eval/{self.recipe}:{pinned.removeprefix('sha256:')[:12]}"
        try:
            tagged = client.images.get(tag).id
        except ImageNotFound:
            return
        if tagged != pinned:
            raise Drift(
                f"the tag {tag} was moved to {tagged}; recipe {self.recipe} pins {pinned}. "
                f"Put it right: {self._build()}"
            )

    def _build(self) -> str:
        return f"recurve-eval oracle build oracle={self.recipe}"

    # -- what a backend adds ---------------------------------------------------------------------

    def start(self, workers: int) -> None:
        self.image_digest()
        super().start(workers)

    def reap(self) -> int:
        try:
            with closing(connect(self.docker_host)) as client:
                return reap_orphans(client)
        except TROUBLE:
            return 0

    def identity(self) -> JSON:
        return [self._pinned(), os.environ.get("DOCKER_HOST", "")]

    def interpreter(self) -> str:
        return self.python or "python3"

    def launch(self, slot: int, preload: tuple[str, ...]) -> Launch:
        config = self.server_config(
            slot, preload, scratch=WORK, unveil=False, own_scratch=False, must_be_empty=["/tmp", "/dev/shm"], meets=True
        )
        sources = runner_sources(self.runner)
        argv = (self.interpreter(), "-I", "-S", "-B", "-c", sources["boot.py"].decode(), json.dumps(config))
        return Contained(
            url=self.docker_host, image=self.image_digest(), argv=argv, env=STARTED_WITH, host=self._walls(),
            sources=sources, labels=labels(self._run_label), meets=True,
        )  # fmt: skip

    def isolation(self, containment: Mapping[str, bool]) -> str:
        lacks = "" if containment["pid_namespace"] else "; weaker: one PID namespace for all gradings of a container"
        return (
            "docker: container of the pinned image, no network, read-only root, default seccomp, memory, process and "
            f"processor limits, a user id per grading without capabilities{lacks}; {ARRANGEMENT}"
        )

    def settings(self) -> dict[str, JSON]:
        container = {name: getattr(self, name) for name in ("container_mb", "cpus", "pids", "scratch_mb")}
        held = {"capabilities": sorted(CAPABILITIES), "sysctls": SYSCTLS}
        return super().settings() | self._platform | {"container": container | held}

    def _walls(self) -> dict[str, Any]:
        size = f"size={self.scratch_mb}m,nosuid,nodev,exec"
        return walls(self.container_mb, self.cpus, self.pids, self.scratch_mb) | {
            "read_only": True,
            "cap_add": sorted(CAPABILITIES),
            "sysctls": SYSCTLS,
            "tmpfs": {WORK: f"{size},mode=711", "/tmp": f"{size},mode=1777"},
        }

    @cached_property
    def _run_label(self) -> str:
        return uuid.uuid4().hex

    def start_server(self, slot: int, preload: tuple[str, ...]) -> WarmServer:
        """As for every backend, but a daemon that went away is waited for. Raises ServerLost."""
        self._await_daemon()
        try:
            return super().start_server(slot, preload)
        except RecurveError as error:
            raise ServerLost(f"could not be started: {error}", own_fault=True, final=True) from None

    def _await_daemon(self) -> None:
        until = time.monotonic() + self.wait_s
        while True:
            try:
                with closing(connect(self.docker_host)) as client:
                    client.ping()
                    return
            except TROUBLE as error:
                if time.monotonic() > until:
                    raise ServerLost(f"had no Docker for {self.wait_s:g} s: {error}", final=True) from None
            time.sleep(_RETRY_S)


def _no_docker(error: Exception) -> str:
    return (
        f"Docker does not answer ({error}). Install it (apt-get install -y docker.io), start it, or point "
        "DOCKER_HOST at it; scripts/dockerd starts a private one"
    )


__all__ = ["CAPABILITIES", "DockerOracle", "connect", "reap_orphans"]
