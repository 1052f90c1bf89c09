"""One container for one command, through the ``docker`` command line: its pipes are the container's own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from recurve_eval.errors import SandboxError
from recurve_eval.sandbox._guard import Removal
from recurve_eval.sandbox._proc import Ending, Pipes

LABEL = "recurve-session"
CALL_SECONDS = 60.0
END_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Engine:
    """A Docker daemon; an empty ``host`` is what DOCKER_HOST says, else the usual socket."""

    host: str = ""

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k.startswith("DOCKER_") or k in ("PATH", "HOME")}
        return kept | ({"DOCKER_HOST": self.host} if self.host else {})

    def call(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run ``docker WORDS``. Raises SandboxError where it cannot be run or does not come back."""
        try:
            return subprocess.run(
                [_docker(), *words], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                timeout=CALL_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxError(f"docker {words[0]} failed: {error}") from error

    def trouble(self) -> str:
        """Why the daemon does not answer, or nothing."""
        try:
            said = self.call("version", "--format", "{{.Server.Version}}")
        except SandboxError as error:
            return str(error)
        return "" if said.returncode == 0 else said.stderr.decode(errors="replace").strip()[:300] or "no reason given"

    def image_id(self, image: str) -> str | None:
        try:
            said = self.call("image", "inspect", "--format", "{{.Id}}", image)
        except SandboxError:
            return None
        return said.stdout.decode().strip() if said.returncode == 0 else None

    def state(self, name: str) -> dict[str, object]:
        """The container's state; empty where there is none of that name."""
        said = self.call("container", "inspect", "--format", "{{json .State}}", name)
        return dict(json.loads(said.stdout)) if said.returncode == 0 else {}

    def exists(self, name: str) -> bool:
        return bool(self.state(name))

    def listed(self, label: str, value: str = "") -> dict[str, str]:
        """Every container that carries a label (with this value, where one is given), and the label's value.

        Raises SandboxError where no daemon answers.
        """
        wanted = f"label={label}={value}" if value else f"label={label}"
        said = self.call("ps", "--all", "--filter", wanted, "--format", f'{{{{.Names}}}}\t{{{{.Label "{label}"}}}}')
        if said.returncode:
            raise SandboxError(f"docker ps failed: {said.stderr.decode(errors='replace').strip()[:300]}")
        rows = [line.partition("\t") for line in said.stdout.decode().splitlines()]
        return {name: found for name, _, found in rows}

    def remove(self, names: Collection[str]) -> int:
        """Kill and remove containers; how many were there."""
        if not names:
            return 0
        said = self.call("rm", "--force", "--volumes", *names)
        return len(said.stdout.split())


def _docker() -> str:
    found = shutil.which("docker")
    if found is None:
        raise SandboxError("the docker command is not installed: apt-get install docker.io")
    return found


class ContainerChild:
    """A command in a container of its own, attached to three pipes.

    Parameters
    ----------
    words : list of str
        Arguments of ``docker run`` beside name, environment and image.
    environment : mapping
        The whole environment of the command; the values never stand on a command line.
    """

    def __init__(
        self, engine: Engine, name: str, words: Sequence[str], image: str, argv: Sequence[str],
        environment: Mapping[str, str], stdin_fd: int | None = None,
    ) -> None:  # fmt: skip
        self._engine, self._name = engine, name
        self._ending: Ending | None = None
        self.guarded = Removal((_docker(), "rm", "--force", "--volumes", name), engine.environment())
        self._pipes = Pipes(stdin_fd)
        self.stdin, self.stdout, self.stderr = self._pipes.stdin, self._pipes.stdout, self._pipes.stderr
        named = [f"--env={key}" for key in environment]
        start = [_docker(), "run", "--interactive", f"--name={name}", "--log-driver=none", "--pull=never"]
        try:
            self._process = subprocess.Popen(
                [*start, *named, *words, image, *argv],
                stdin=self._pipes.far_in, stdout=self._pipes.far_out, stderr=self._pipes.far_err,
                env=self._client_environment(environment), start_new_session=True, cwd="/",
            )  # fmt: skip
        except OSError as error:
            os.close(self.stdin)
            self._pipes.close_outputs()
            raise SandboxError(f"docker could not be started: {error}") from error
        finally:
            self._pipes.close_far()
        self.ended = os.pidfd_open(self._process.pid)

    def _client_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The client takes the values of ``--env=NAME`` from its own environment, and needs to find its daemon."""
        return self._engine.environment() | dict(environment)

    def terminate(self) -> None:
        with contextlib.suppress(SandboxError):
            self._engine.call("kill", "--signal=TERM", self._name)

    def finish(self) -> Ending:
        if self._ending is None:
            code = self._process.poll()
            ran = code is not None and (code not in (125, 126, 127) or self._was_started())
            killed = int(code is None)
            self._gone()
            self._ending = Ending(code if ran else None, killed)
        return self._ending

    def _was_started(self) -> bool:
        """125 to 127 are the client's own codes too; only the container's state tells them from the command's."""
        state = self._engine.state(self._name)
        error, code = str(state.get("Error") or ""), state.get("ExitCode")
        if code in (126, 127) and error:
            return True  # the image has no such program: the command's failure
        return bool(state) and not error and str(state.get("StartedAt", "0001")) > "0002"

    def _gone(self) -> None:
        """Remove the container, also one that the client is only about to make. Raises SandboxError."""
        deadline = time.monotonic() + END_SECONDS
        removed = 0
        while True:
            removed += self._engine.remove([self._name])
            try:
                self._process.wait(0.2)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    self._process.kill()
                    self._process.wait()
                    break
        # Somebody else, a watchdog, may be removing it at this moment: then it is there, and is not to be had.
        deadline = time.monotonic() + END_SECONDS
        while not removed and self._engine.exists(self._name):
            if time.monotonic() > deadline:
                raise SandboxError(f"container {self._name} cannot be removed")
            removed += self._engine.remove([self._name])
            time.sleep(0.05)

    def release(self) -> None:
        self._pipes.close_outputs()
        with contextlib.suppress(OSError):
            os.close(self.ended)
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
