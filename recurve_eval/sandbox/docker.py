"""The docker sandbox: a container for every command, from an image that is here already, with two mounts and no more.

A container's end is the end of every process in it, so nothing outlives its command. A watchdog process removes the
container of a harness that hangs or is killed. Inside, ``/workspace`` and ``/scratch`` are the session's, everything
else is the image's, read-only; there is no Docker socket, no home, no data, no other cell.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError, SandboxError
from recurve_eval.ports import Command, Session
from recurve_eval.sandbox._confined import RECORD, Confined
from recurve_eval.sandbox._container import LABEL, ContainerChild, Engine
from recurve_eval.sandbox._network import PLACE, Network
from recurve_eval.sandbox._place import give, guarded_parts, unprivileged_uid
from recurve_eval.sandbox._session import SCRATCH, WORKSPACE, BaseSession

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_numbers = itertools.count(1)


@dataclass
class DockerSandbox(Confined):
    """Fields beyond :class:`Confined`:

    image : a local image, by name or id; it is never pulled or built here.
    task_image : whether a task whose benchmark gives it an image of its own is worked on in that one.
    network : as for bubblewrap; ``full`` is Docker's bridge.
    allow : host:port entries for ``allowlist``.
    total_memory_mb : MiB of all processes of a command together; swap is not to be had.
    cpus : processors' worth of time; 0 is unlimited.
    tmp_mb : MiB of /tmp and of /dev/shm each.
    read_only : host directories that the agent sees, read-only, at the same path.
    host : the daemon's address; empty is what DOCKER_HOST says, else the usual socket.
    """

    name: str = "docker"
    image: str = "???"
    task_image: bool = False
    network: str = "none"
    allow: list[str] = field(default_factory=list)
    total_memory_mb: int = 4096
    cpus: float = 2.0
    tmp_mb: int = 512
    read_only: list[str] = field(default_factory=list)
    host: str = ""

    def pins(self) -> Mapping[str, JSON]:
        for name in ("total_memory_mb", "tmp_mb"):
            if getattr(self, name) < 1:
                raise ConfigError(f"sandbox.{name} must be at least 1; got {getattr(self, name)}")
        if self.address_space_mb:
            raise ConfigError("sandbox.address_space_mb: Docker has no such limit; use total_memory_mb")
        own = {"network": self.net.attested, "tmp_mb": self.tmp_mb, "total_memory_mb": self.total_memory_mb,
               "cpus": self.cpus, "image": self.image_id, "task_image": self.task_image}  # fmt: skip
        return self.shared_pins() | {"python": self.interpreter} | own

    def attestation(self) -> Mapping[str, JSON]:
        return {"agent_sandbox": "docker", "network": self.net.attested, "boundary": "none"}

    def check(self) -> str | None:
        if shutil.which("docker") is None:
            return "the docker command is not installed: apt-get install docker.io"
        trouble = self.engine.trouble()
        if trouble:
            return f"no Docker daemon answers ({trouble}): start it, or set DOCKER_HOST or sandbox.host"
        if self.image_id is None:
            return (
                f"Docker has no image '{self.image}': build it with recurve-eval oracle build oracle=agent, or load it"
            )
        absent = [place for place in self.read_only if not Path(place).exists()]
        if absent:
            return f"sandbox.read_only names {', '.join(absent)}, which does not exist here"
        return self.missing_credentials() or self._trial()

    def open(self, workspace: Path, scratch: Path, label: str) -> Session:
        return DockerSession(self, workspace, scratch, label)

    def within(self, image: str) -> DockerSandbox:
        """The same walls around another image."""
        return replace(self, image=image)

    def offline(self) -> DockerSandbox:
        """The same container without any network and without credentials."""
        return replace(self, network="none", allow=[], pass_env=[])

    def reap(self, prefix: str) -> int:
        """Remove what sessions whose label starts with ``prefix`` left, containers and clients of them; how many."""
        killed = super().reap(prefix)
        try:
            named = self.engine.listed(LABEL)
        except SandboxError:
            return killed  # without a daemon there is no container of it either
        return killed + self.engine.remove([name for name, label in named.items() if label.startswith(prefix)])

    @property
    def net(self) -> Network:
        return Network.of(self.network, self.allow)

    @property
    def interpreter(self) -> str:
        return self.python or "python3"

    @property
    def engine(self) -> Engine:
        return Engine(self.host)

    @cached_property
    def image_id(self) -> str | None:
        """The id of the image, or None where Docker has none or is not there."""
        return self.engine.image_id(self.image)

    def _trial(self) -> str | None:
        with tempfile.TemporaryDirectory() as place:
            trouble, said = "", b""
            try:
                session = self.open(Path(place, "workspace"), Path(place, "scratch"), "check")
                tried = session.run(Command((self.interpreter, "-c", "open('made', 'w')"), timeout_s=60.0))
                made = Path(place, "workspace", "made").exists()
                session.close()
                said = tried.stderr
                if tried.exit_code == 0 and not made:
                    said = b"the daemon mounts another machine's directories"
                trouble = said.decode(errors="replace").strip() if tried.exit_code != 0 or not made else ""
            except SandboxError as error:
                trouble = str(error)
        return f"a container of image '{self.image}' does not work here ({trouble})" if trouble else None

    def walls(self) -> list[str]:
        """Arguments of ``docker run`` that are the same for every session."""
        limits = self.limits()
        words = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--hostname=sandbox", "--init"]
        words += ["--ipc=private", f"--shm-size={self.tmp_mb}m", f"--memory={self.total_memory_mb}m"]
        words += [f"--memory-swap={self.total_memory_mb}m", f"--tmpfs=/tmp:rw,exec,mode=1777,size={self.tmp_mb}m"]
        words += [f"--network={'bridge' if self.net.kind == 'full' else 'none'}"]
        words += [f"--pids-limit={limits.pop('nproc')}"] if "nproc" in limits else []
        words += [f"--cpus={self.cpus:g}"] if self.cpus else []
        words += [f"--ulimit={name}={value}:{value}" for name, value in limits.items()]
        words += [f"--volume={place}:{place}:ro" for place in self.read_only]
        if CERTIFICATES.exists():
            words.append(f"--volume={CERTIFICATES}:{CERTIFICATES}:ro")
        return words


class DockerSession(BaseSession):
    result_file = f"{SCRATCH}/{RECORD}"

    def __init__(self, sandbox: DockerSandbox, workspace: Path, scratch: Path, label: str) -> None:
        self._uid = unprivileged_uid() if os.getuid() == 0 else os.getuid()
        self._docker, self._engine = sandbox, sandbox.engine
        self._mounts: list[str] = []
        self._runs = 0
        self.isolated = sandbox.network == "none"
        super().__init__(sandbox, workspace, scratch, label)
        self._open_network(sandbox.net)

    def guard(self, read_only: Sequence[str], writable: Sequence[str] = ()) -> None:
        """See :class:`recurve_eval.ports.Guarded`. Raises SandboxError where a part is no real directory."""
        parts = guarded_parts(self._workspace, WORKSPACE, read_only, writable)
        self._mounts = [f"--volume={place}:{inside}:{'ro' if fixed else 'rw'}" for place, inside, fixed in parts]

    def _start(self, command: Command) -> ContainerChild:
        if os.getuid() == 0:
            for place in (self._workspace, self._scratch):
                give(place, self._uid)
        python = self._docker.interpreter
        argv = self._net.command(python, [python if word == "{python}" else word for word in command.argv])
        env = self._sandbox.environment(PATH, SCRATCH, self._token, self._net.environment() | dict(command.env))
        name = f"{LABEL}-{self._token.rpartition(':')[2]}-{next(_numbers)}"
        self._runs += 1
        words = [
            f"--user={self._uid}:{self._uid}", f"--workdir={WORKSPACE}", f"--label={LABEL}={self._token}",
            *self._docker.walls(), *self._volumes(),
        ]  # fmt: skip
        image = self._docker.image_id or self._docker.image
        return ContainerChild(self._engine, name, words, image, argv, env, command.stdin_fd)

    def _volumes(self) -> list[str]:
        whole = any(m.endswith(f":{WORKSPACE}:ro") for m in self._mounts)
        words = [] if whole else [f"--volume={self._workspace}:{WORKSPACE}:rw"]
        words += [f"--volume={self._scratch}:{SCRATCH}:rw", *self._mounts]
        words += [f"--volume={self._way}:{PLACE}:ro"] if self._net.proxied else []
        return words

    def _depart(self) -> str:
        if self._runs:
            left = self._engine.listed(LABEL, self._token)
            self._engine.remove(list(left))
            if left and self._engine.listed(LABEL, self._token):
                raise SandboxError(f"containers cannot be removed: {', '.join(left)}")
        return f"the daemon has none of the session's {self._runs} containers any more"
