"""The bubblewrap oracle: a warm server in namespaces of its own, read-only system, no network, memory for scratch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from recurve_eval.oracle.line import Launch, Spawn
from recurve_eval.oracle.warm import ARRANGEMENT, STARTED_WITH, WarmOracle

RUNNER = "/opt/recurve/runner"
WORK = "/work"
_OWN = [WORK, "/tmp", "/dev/shm"]
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/mime.types")
# What the supervisor needs to give each grading a user, a PID namespace and an end; graded code keeps none.
_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER",
                 "CAP_SETPCAP", "CAP_SYS_ADMIN")  # fmt: skip


@dataclass
class BubblewrapOracle(WarmOracle):
    """Fields beyond :class:`WarmOracle`:

    bwrap : the bubblewrap program.
    scratch_mb : MiB of memory for everything that gradings write, each of work, /tmp and /dev/shm.
    """

    name: str = "bubblewrap"
    bwrap: str = "bwrap"
    scratch_mb: int = 256

    def check(self) -> str | None:
        if shutil.which(self.bwrap) is None:
            return f"{self.bwrap} is not installed; try: apt-get install bubblewrap"
        for path in map(Path, self.paths):
            hidden = next((own for own in _OWN if path.resolve().is_relative_to(own)), None)
            if hidden:
                return f"oracle.paths: {path} lies below {hidden}, which each grading has for itself; put it elsewhere"
        tried = subprocess.run(
            [self.bwrap, *self._namespaces(), "--ro-bind", "/", "/", "--proc", "/proc", "/bin/true"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if tried.returncode != 0:
            return f"{self.bwrap} cannot make namespaces here: {tried.stderr.strip()}"
        return None

    def launch(self, slot: int, preload: tuple[str, ...]) -> Launch:
        config = self.server_config(
            slot, preload, scratch=WORK, unveil=False, own_scratch=False, must_be_empty=_OWN[1:]
        )
        inside = [self._prefix[1], "-I", "-S", "-B", RUNNER, json.dumps(config)]
        return Spawn((self.bwrap, *self._walls(), "--", *inside), STARTED_WITH)

    def isolation(self, containment: Mapping[str, bool]) -> str:
        own_uid = "a user id" if containment["uid_per_grading"] else "no user id of its own"
        return (
            f"bubblewrap: no network, read-only system of this machine, {own_uid} and a PID namespace per grading; "
            f"weaker: no pinned image, no seccomp filter, no total memory limit; {ARRANGEMENT}"
        )

    @cached_property
    def _prefix(self) -> tuple[str, str]:
        """The interpreter's installation and its program, as it states them itself."""
        asked = "import os, sys; print(sys.base_prefix); print(os.path.realpath(sys._base_executable))"
        answer = subprocess.run(
            [self.interpreter(), "-I", "-S", "-c", asked], capture_output=True, text=True, check=True
        )  # fmt: skip
        prefix, program = answer.stdout.splitlines()
        return prefix, program

    def _namespaces(self) -> list[str]:
        flags = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try",
                 "--die-with-parent", "--new-session"]  # fmt: skip
        if os.geteuid() != 0:
            return ["--unshare-user", *flags, "--cap-add", "CAP_SYS_ADMIN"]
        return flags + [word for name in _CAPABILITIES for word in ("--cap-add", name)]

    def _walls(self) -> list[str]:
        prefix = self._prefix[0]
        walls = [*self._namespaces(), "--hostname", "oracle", "--ro-bind", "/usr", "/usr"]
        for link in _LINKS:
            if Path(link).is_symlink():
                walls += ["--symlink", str(Path(link).readlink()), link]
            elif Path(link).is_dir():
                walls += ["--ro-bind", link, link]
        for file in _ETC:
            walls += ["--ro-bind-try", file, file]
        for directory in [*([] if prefix.startswith("/usr") else [prefix]), *self.paths]:
            walls += [*_reachable(directory), "--ro-bind", directory, directory]
        size = str(self.scratch_mb << 20)
        walls += [*_reachable(RUNNER), "--ro-bind", str(self.runner), RUNNER, "--proc", "/proc", "--dev", "/dev"]
        for directory, mode in zip(_OWN, ("0711", "1777", "1777"), strict=True):
            walls += ["--perms", mode, "--size", size, "--tmpfs", directory]
        return [*walls, "--remount-ro", "/", "--chdir", "/"]


def _reachable(path: str) -> list[str]:
    """Make the directories above a mount passable for every user; bubblewrap's own are its caller's alone."""
    above = [str(parent) for parent in reversed(Path(path).parents) if str(parent) != "/"]
    return [word for parent in above if not parent.startswith("/usr") for word in ("--perms", "0755", "--dir", parent)]
