"""Where probes run: a private copy of the workspace, in the agent's sandbox or, stand-alone, as a plain process."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from recurve_eval.domain import JSON
from recurve_eval.errors import SandboxError
from recurve_eval.gates.copies import clear_fixtures, copy_of, copy_tree, copy_work, lay, reset
from recurve_eval.ports import Command, GateContext, Session
from recurve_eval.workspace import NOBODYS_GIT, remove

MAX_OUTPUT = 64 * 1024
COUNTED = ("Ip:OutNoRoutes", "Udp:NoPorts", "Ip6OutNoRoutes", "Udp6NoPorts")
QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}

# The fixture's path is completed where the copy is known under its own name, and the network's counters are read
# in the probe's own network namespace, after it has ended.
_INSIDE = """\
if [ -n "$RECURVE_FIXTURE" ]; then TRAP_FIXTURE="$PWD/$RECURVE_FIXTURE"; export TRAP_FIXTURE; fi
unset RECURVE_FIXTURE
"$@"
code=$?
cat /proc/net/snmp /proc/net/snmp6 > "$RECURVE_RESULT_FILE" 2>/dev/null
exit $code
"""


class Unjudgeable(Exception):
    """The workspace cannot even be copied; the message opens with ``RED:``."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a probe's command ended. ``network`` says that it tried to reach a network it was denied."""

    exit_code: int | None
    output: bytes
    wall_s: float
    network: bool = False


class Place(Protocol):
    """A copy of a workspace in which commands run."""

    root: Path  # as this process sees it
    retried: list[dict[str, JSON]]  # where a time-out that is asked once more goes on record

    def base(self, target: Path) -> None:
        """Lay down in ``target`` what a trap's patch is a patch of."""

    def run(self, argv: Sequence[str], fixture: str | None, timeout_s: float) -> Ran:
        """Run in the copy; ``fixture``, a path in it, becomes TRAP_FIXTURE. ``exit_code`` None is a time-out."""


OpenPlace = Callable[[], AbstractContextManager[Place]]


@dataclass
class SessionPlace:
    """A copy in the agent's sandbox."""

    root: Path
    session: Session
    given: Mapping[str, bytes]  # the work as the task gave it
    clock: dict[str, float] = field(default_factory=dict)  # adds up the probes' own seconds
    retried: list[dict[str, JSON]] = field(default_factory=list)
    isolated: bool = False  # the session has a network namespace of its own, with nothing but its loopback

    def base(self, target: Path) -> None:
        lay(target, self.given)

    def run(self, argv: Sequence[str], fixture: str | None, timeout_s: float) -> Ran:
        env = {**QUIET, "RECURVE_FIXTURE": fixture or ""}
        words = ("/bin/sh", "-c", _INSIDE, "probe", *argv)
        done = self.session.run(Command(words, env=env, timeout_s=timeout_s, max_output_bytes=MAX_OUTPUT))
        if done.cancelled:
            raise SandboxError("a probe was cancelled")
        self.clock["probes"] = self.clock.get("probes", 0.0) + done.wall_s
        code = None if done.timed_out else done.exit_code
        return Ran(code, done.stdout + done.stderr, done.wall_s, self._reached_out())

    def _reached_out(self) -> bool:
        """Whether the probe's network namespace counted a packet without a route or without a listener.

        A name is looked up at a resolver that is not there, an address has no route: both are counted.
        """
        try:
            said = (self.session.read_result(MAX_OUTPUT) or b"").decode("ascii", "replace")
        except ValueError:
            return False
        counters = parse_counters(said)
        return self.isolated and any(counters.get(name, 0) for name in COUNTED)


def parse_counters(text: str) -> dict[str, int]:
    """The counters of /proc/net/snmp (``Ip:OutNoRoutes``) and /proc/net/snmp6 (``Ip6OutNoRoutes``)."""
    counters: dict[str, int] = {}
    names: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit():
            counters[words[0]] = int(words[1])
        elif words and words[0].endswith(":"):
            if words[0] in names:
                values = [int(w) if w.lstrip("-").isdigit() else 0 for w in words[1:]]
                counters.update({words[0] + n: v for n, v in zip(names[words[0]], values, strict=False)})
            names.setdefault(words[0], words[1:])
    return counters


@contextmanager
def session_place(context: GateContext, label: str, *, untouched: bool = False) -> Iterator[Place]:
    """A fresh copy of the work in its own session, gone afterwards. Raises Unjudgeable.

    With ``untouched``, the claims stand over the work as the task gave it.
    """
    with copy_of(context.workspace, context.task) as copy:
        if isinstance(copy, str):
            raise Unjudgeable(copy)
        if untouched:
            reset(copy, context.task)
        session = context.open_session(copy, label)
        try:
            record, walls = context.record, bool(getattr(session, "isolated", False))
            yield SessionPlace(copy, session, context.task.public, record.clock, record.retried, isolated=walls)
        finally:
            session.close()


@dataclass
class LocalPlace:
    """A copy in a temporary directory, its commands plain processes: the walls are those around this process."""

    root: Path
    home: Path
    given: Path | None = None  # the work as it was given, where that is known
    retried: list[dict[str, JSON]] = field(default_factory=list)

    def base(self, target: Path) -> None:
        copy_work(self.given or self.root, target)

    def run(self, argv: Sequence[str], fixture: str | None, timeout_s: float) -> Ran:
        words = [sys.executable if word == "{python}" else word for word in argv]
        if words[0].startswith(".recurve/"):
            words[0] = f"./{words[0]}"
        started = time.monotonic()
        with tempfile.TemporaryFile(dir=self.home) as said:  # a pipe would have to be held in memory
            try:
                child = subprocess.Popen(
                    words, cwd=self.root, env=self._environment(fixture), stdin=subprocess.DEVNULL,
                    stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                return Ran(127, f"{words[0]}: {error.strerror}".encode(), 0.0)
            try:
                code: int | None = child.wait(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            if code is None:
                self._sweep()
            said.seek(0)
            return Ran(code, said.read(MAX_OUTPUT), time.monotonic() - started)

    def _sweep(self) -> None:
        """Kill what a probe that did not end has put outside its process group; its home, in the environment, tells."""
        ours = b"HOME=" + os.fsencode(self.home)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if ours in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)

    def _environment(self, fixture: str | None) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
        trap = {"TRAP_FIXTURE": str(self.root / fixture)} if fixture else {}
        # Bytecode is kept outside the work, so that many probes of one package do not compile it each time.
        quiet = {"PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": str(self.home / "bytecode")}
        return {**kept, **quiet, "HOME": str(self.home), "TMPDIR": str(self.home), "TZ": "UTC", **trap}


@contextmanager
def local_place(workspace: Path, *, in_cell: bool = False) -> Iterator[Place]:
    """A fresh copy for the stand-alone gate. In a git repository, of what git does not ignore. Raises Unjudgeable.

    ``in_cell`` says that the repository is a cell's workspace, whose first commit is the work as it was given.
    """
    top = Path(tempfile.mkdtemp(prefix="recurve-check-"))
    try:
        (top / "home").mkdir()
        copy = top / "workspace"
        listed = _not_ignored(workspace)
        problem = copy_tree(workspace, copy) if listed is None else _copy_listed(workspace, copy, listed)
        if problem:
            raise Unjudgeable(problem)
        clear_fixtures(copy)
        yield LocalPlace(copy, top / "home", _first_commit(workspace, top / "given") if in_cell else None)
    finally:
        remove(top)


def _first_commit(workspace: Path, target: Path) -> Path | None:
    """The files of the first commit, in ``target``; None where git or the commit is gone."""
    target.mkdir()
    git = ["git", "-C", str(workspace), "-c", f"safe.directory={workspace.resolve()}"]
    env = NOBODYS_GIT | {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        said = subprocess.run([*git, "rev-list", "--max-parents=0", "HEAD"], env=env, capture_output=True, check=True)
        archived = [*git, "archive", "--format=tar", said.stdout.split()[-1].decode()]
        files = subprocess.run(archived, env=env, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            archive.extractall(target, filter="data")
    except (OSError, subprocess.SubprocessError, tarfile.TarError, IndexError):
        return None
    return target


def _not_ignored(workspace: Path) -> list[str] | None:
    if not (workspace / ".git").exists():
        return None
    command = ["git", "-C", str(workspace), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    return sorted(set(os.fsdecode(done.stdout).split("\0")) - {""}) if done.returncode == 0 else None


def _copy_listed(workspace: Path, copy: Path, listed: list[str]) -> str:
    for name in listed:
        source, target = workspace / name, copy / name
        if source.is_symlink() or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        target.chmod(0o700 if source.stat().st_mode & 0o100 else 0o600)
    copy.mkdir(exist_ok=True)
    return ""
