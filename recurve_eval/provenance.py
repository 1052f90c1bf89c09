"""Where a result came from: code, dependencies, machine. Each fact is read once per process."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError


@dataclass(frozen=True, slots=True)
class GitFacts:
    """The repository around a directory.

    ``commit`` is None without a repository, without git, or before the first commit. ``dirty`` is None
    on a clean tree, else the SHA-256 of what differs from the commit: the binary diff, and the names
    and contents of untracked files (a directory that is wholly untracked counts by its name).
    ``note`` says why something could not be read.
    """

    commit: str | None
    dirty: str | None
    note: str = ""


@cache
def git_facts(directory: str = ".") -> GitFacts:
    """The git state of the repository that holds ``directory``; never raises."""
    try:
        import git
    except ImportError as error:  # GitPython refuses to load on a machine without git
        return GitFacts(None, None, str(error).splitlines()[0])
    try:
        with git.Repo(directory, search_parent_directories=True) as repo:
            commit = repo.head.commit.hexsha if repo.head.is_valid() else None
            return GitFacts(commit, _difference(repo, commit))
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        return GitFacts(None, None, "not a git repository")
    except (git.GitError, OSError, ValueError) as error:
        return GitFacts(None, None, f"git could not be read: {str(error)[:200]}")


def _difference(repo: object, commit: str | None) -> str | None:
    import git

    assert isinstance(repo, git.Repo)
    quiet = {"GIT_OPTIONAL_LOCKS": "0"}
    status = repo.git.status(
        "--porcelain=v1", "-z", "--untracked-files=normal", env=quiet, strip_newline_in_stdout=False
    )
    if not status:
        return None
    sha = hashlib.sha256(status.encode("utf-8", "surrogateescape"))
    if commit is not None:
        diff = repo.git.diff("HEAD", "--binary", "--no-ext-diff", "--no-textconv", env=quiet, stdout_as_string=False)
        sha.update(diff if isinstance(diff, bytes) else str(diff).encode())
    for entry in status.split("\0"):
        path = Path(repo.working_dir) / entry[3:]
        if entry.startswith("?? ") and path.is_file():
            sha.update(file_sha256(path).encode())
    return sha.hexdigest()


_DIST_INFO = re.compile(r"([^-]+)-([^-]+)\.dist-info")


@cache
def freeze() -> tuple[str, ...]:
    """Installed distributions as sorted ``name==version``, names normalised."""
    return tuple(sorted({line for line in map(_pin, distributions()) if line}))


@cache
def dependency_hash() -> str:
    """SHA-256 over :func:`freeze`, one distribution a line."""
    return hashlib.sha256("\n".join(freeze()).encode()).hexdigest()


def _pin(distribution: Distribution) -> str:
    # An installer writes the normalised name and the version into the directory's name, so that no file need be read.
    where = getattr(distribution, "_path", None)
    named = _DIST_INFO.fullmatch(where.name) if where is not None else None
    return f"{_normalised(named[1])}=={named[2]}" if named else _pin_of_metadata(distribution)


def _pin_of_metadata(distribution: Distribution) -> str:
    # Only the two fields wanted: parsing whole metadata as an e-mail costs ten times as much.
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    head = text.partition("\n\n")[0]
    name = re.search(r"^Name: *(\S+)", head, re.MULTILINE)
    version = re.search(r"^Version: *(\S+)", head, re.MULTILINE)
    if not name or not version:
        return ""
    return f"{_normalised(name[1])}=={version[1]}"


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def host_facts() -> dict[str, JSON]:
    """What of this machine can change a timing. Memory in bytes."""
    return {
        "hostname": platform.node(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "cpus_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _cpu_model() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def code_hash(modules: Iterable[str]) -> str:
    """SHA-256 over the source files of the named modules, in sorted order.

    Raises ConfigError for a module that is not found or has no source file.
    """
    return _code_hash(tuple(sorted(set(modules))))


@cache
def _code_hash(modules: tuple[str, ...]) -> str:
    sha = hashlib.sha256()
    for module in modules:
        spec = importlib.util.find_spec(module)
        if spec is None or not spec.origin or not spec.has_location:
            raise ConfigError(f"module '{module}' has no source file to hash")
        sha.update(f"{module}\0{file_sha256(Path(spec.origin))}\n".encode())
    return sha.hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read in bounded memory."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
