"""The bubblewrap sandbox: namespaces of its own, a read-only system, and two writable directories.

Inside, ``/workspace`` and ``/scratch`` are the session's, ``/usr`` and its like are the host's, read-only,
and nothing else of the host exists. Every command has its own PID namespace; when its init has
exited the kernel has ended every member, so a daemon cannot outlive its command.

Run as root, a session gets an unprivileged uid of its own (process limits are not enforced for root, and they
are counted by uid); its two directories are given to that uid. Otherwise a user namespace does the same.
"""

from __future__ import annotations

import functools
import os
import resource
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError, SandboxError
from recurve_eval.ports import Command, Session
from recurve_eval.sandbox._bwrap import BwrapChild
from recurve_eval.sandbox._confined import MIB, RECORD, Confined
from recurve_eval.sandbox._network import PLACE, Network
from recurve_eval.sandbox._place import give, guarded_parts, unprivileged_uid
from recurve_eval.sandbox._session import SCRATCH, WORKSPACE, BaseSession

SYSTEM = ("/usr",)
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/ssl", "/etc/pki",
       "/etc/ca-certificates", "/etc/localtime", "/etc/mime.types", "/etc/services", "/etc/protocols")  # fmt: skip
ETC_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class BubblewrapSandbox(Confined):
    """Fields beyond :class:`Confined`:

    network : ``none`` (loopback alone), ``full`` (the host's network), ``allowlist`` (the hosts of ``allow``, through a
        proxy that resolves their names; nothing else) or ``offline_404`` (every HTTP request is answered with 404).
    allow : host:port entries for ``allowlist``.
    tmp_mb : size of each of /tmp and /dev/shm (memory, emptied after every command) in MiB; at least 1.
    read_only : further host directories that the agent sees, read-only, at the same path (where its program lives).
    """

    name: str = "bubblewrap"
    network: str = "none"
    allow: list[str] = field(default_factory=list)
    tmp_mb: int = 512
    read_only: list[str] = field(default_factory=list)

    def pins(self) -> Mapping[str, JSON]:
        if self.tmp_mb < 1:
            raise ConfigError(f"sandbox.tmp_mb must be at least 1; got {self.tmp_mb}")
        return self.shared_pins() | {"network": self.net.attested, "tmp_mb": self.tmp_mb}

    def attestation(self) -> Mapping[str, JSON]:
        return {"agent_sandbox": "bubblewrap", "network": self.net.attested, "boundary": "none"}

    def check(self) -> str | None:
        for tool, package in (("bwrap", "bubblewrap"), ("prlimit", "util-linux"), ("setpriv", "util-linux")):
            if shutil.which(tool) is None:
                return f"{tool} is not installed: apt-get install {package}"
        absent = [place for place in self.read_only if not Path(place).exists()]
        if absent:
            return f"sandbox.read_only names {', '.join(absent)}, which does not exist here"
        return self.missing_credentials() or self._trial()

    def offline(self) -> BubblewrapSandbox:
        """The same walls without any network and without credentials."""
        return replace(self, network="none", allow=[], pass_env=[])

    def open(self, workspace: Path, scratch: Path, label: str) -> Session:
        return BubblewrapSession(self, workspace, scratch, label)

    @property
    def net(self) -> Network:
        return Network.of(self.network, self.allow)

    def _trial(self) -> str | None:
        with tempfile.TemporaryDirectory() as place:
            try:
                session = self.open(Path(place, "workspace"), Path(place, "scratch"), "check")
                tried = session.run(Command(("{python}", "-I", "-S", "-c", ""), timeout_s=20.0))
                session.close()
                trouble = tried.stderr.decode(errors="replace").strip() if tried.exit_code != 0 else ""
            except SandboxError as error:
                trouble = str(error)
        if not trouble:
            return None
        return (
            f"bwrap cannot make a sandbox here ({trouble}); where user namespaces are not permitted: "
            "sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0"
        )

    def system_arguments(self) -> list[str]:
        """What of the host is visible: bwrap arguments, the same for every session."""
        args: list[str] = []
        for place in (*SYSTEM, *LINKS):
            if Path(place).is_symlink():
                args += ["--symlink", str(Path(place).readlink()), place]
            else:
                args += ["--ro-bind-try", place, place]
        for place in ETC + (ETC_NETWORK if self.net.kind == "full" else ()):
            args += ["--ro-bind-try", place, place]
        return args

    def program_arguments(self) -> list[str]:
        """The interpreter's own prefix and ``read_only``, with parents that an unprivileged uid can pass."""
        prefix = Path(self.interpreter).resolve().parent.parent
        places = [] if prefix in (Path("/"), Path("/usr")) or prefix.is_relative_to("/usr") else [prefix]
        args: list[str] = []
        for place in [*places, *(Path(p) for p in self.read_only)]:
            if place.resolve() == Path("/"):
                raise ConfigError("sandbox.read_only may not name /: the agent would see the whole machine")
            for parent in reversed(place.parents[:-1]):
                args += ["--perms", "0755", "--dir", str(parent)]
            args += ["--ro-bind", str(place), str(place)]
        return args


class BubblewrapSession(BaseSession):
    result_file = f"{SCRATCH}/{RECORD}"

    def __init__(self, sandbox: BubblewrapSandbox, workspace: Path, scratch: Path, label: str) -> None:
        self._uid = unprivileged_uid() if os.getuid() == 0 else None
        self._interpreter = sandbox.interpreter
        self._runs = 0
        self._mounts: list[str] = []
        self.isolated = sandbox.network == "none"
        super().__init__(sandbox, workspace, scratch, label)
        self._prefix = [_tool("bwrap"), *self._walls(sandbox)]
        self._suffix = ["--", *self._privileges(), *_limits(sandbox.limits())]
        self._open_network(sandbox.net)

    def _walls(self, sandbox: BubblewrapSandbox) -> list[str]:
        isolate = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
        isolate += ["--unshare-net"] if sandbox.network != "full" else []
        if self._uid is None:
            isolate += ["--unshare-user", "--uid", "1000", "--gid", "1000"]
        else:
            isolate += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
            isolate += ["--cap-add", "CAP_SETPCAP"]
        return [
            *isolate, "--die-with-parent", "--new-session",
            "--perms", "0755", "--dir", "/etc", *sandbox.system_arguments(), "--proc", "/proc", "--dev", "/dev",
            *_memory_directory(sandbox, "/dev/shm"), "--remount-ro", "/dev", *_memory_directory(sandbox, "/tmp"),
            *sandbox.program_arguments(), "--bind", str(self._workspace), WORKSPACE,
            "--bind", str(self._scratch), SCRATCH, *self._way_out(sandbox.net),
            "--chdir", WORKSPACE,
        ]  # fmt: skip

    def _way_out(self, net: Network) -> list[str]:
        if not net.proxied:
            return []
        return ["--ro-bind", str(self._way), PLACE]

    def _privileges(self) -> list[str]:
        if self._uid is None:
            return []
        uid = str(self._uid)
        return [_tool("setpriv"), "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps=-all",
                "--bounding-set=-all", "--no-new-privs", "--"]  # fmt: skip

    def guard(self, read_only: Sequence[str], writable: Sequence[str] = ()) -> None:
        """See :class:`recurve_eval.ports.Guarded`. Raises SandboxError where a part is no real directory."""
        parts = guarded_parts(self._workspace, WORKSPACE, read_only, writable)
        self._mounts = [
            w for place, inside, fixed in parts for w in ("--ro-bind" if fixed else "--bind", place, inside)
        ]

    def _start(self, command: Command) -> BwrapChild:
        if self._uid is not None:
            for place in (self._workspace, self._scratch):
                give(place, self._uid)
        argv = [self._interpreter if word == "{python}" else word for word in command.argv]
        argv = self._net.command(self._interpreter, argv)
        environment = self._sandbox.environment(PATH, SCRATCH, self._token, self._net.environment() | dict(command.env))
        self._runs += 1
        return BwrapChild(
            [*self._prefix, *self._mounts], [*self._suffix, *argv], environment, self._accounts(), command.stdin_fd
        )

    def _accounts(self) -> dict[str, bytes]:
        """The password and group files that the agent sees: itself, root and nobody."""
        uid = 1000 if self._uid is None else self._uid
        return {
            "/etc/passwd": f"root:x:0:0::/:/bin/false\nagent:x:{uid}:{uid}::{SCRATCH}:/bin/sh\n"
            "nobody:x:65534:65534::/:/bin/false\n".encode(),
            "/etc/group": f"root:x:0:\nagent:x:{uid}:\nnogroup:x:65534:\n".encode(),
        }

    def _depart(self) -> str:
        return f"the init of each PID namespace has exited ({self._runs} commands)"


@functools.cache
def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SandboxError(f"{name} is not installed: apt-get install bubblewrap util-linux")
    return found


def _memory_directory(sandbox: BubblewrapSandbox, place: str) -> list[str]:
    return ["--perms", "1777", "--size", str(sandbox.tmp_mb * MIB), "--tmpfs", place]


def _limits(limits: Mapping[str, int]) -> list[str]:
    words = []
    for name, value in limits.items():
        _, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        top = value if hard == resource.RLIM_INFINITY else min(value, hard)
        words.append(f"--{name}={top}:{top}")
    return [_tool("prlimit"), *words, "--"]
