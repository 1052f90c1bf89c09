"""Bounded capture of an ended run: what it left becomes the submission, whatever it left.

No link is followed, in the last component or in any before it; nothing that is not a regular file is opened.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import stat
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from recurve_eval.domain import AgentRun, CapturedFile, CaptureKind, CaptureSpec, CaptureStatus, Submission
from recurve_eval.errors import ConfigError, InfraError

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
STATUS = {
    errno.ENOENT: CaptureStatus.MISSING,
    errno.ENOTDIR: CaptureStatus.NOT_FILE,
    errno.ELOOP: CaptureStatus.NOT_FILE,
}


def capture(
    run: AgentRun, workspace: Path, spec: CaptureSpec, public: Mapping[str, bytes] | None = None
) -> Submission:  # fmt: skip
    """Read the files that ``spec`` asks for, each with a status; never raises for what an agent left there.

    ``public`` is what the workspace began as; a diff is taken against it.
    """
    if spec.kind is CaptureKind.PATHS:
        return Submission(run, tuple(capture_file(workspace, path, spec.max_file_bytes) for path in spec.paths))
    changed = changed_paths(workspace, public or {}, spec)
    within = [capture_file(workspace, path, spec.max_file_bytes) for path in changed[: spec.max_files]]
    beyond = [CapturedFile(path, CaptureStatus.TOO_LARGE) for path in changed[spec.max_files :]]
    return Submission(run, (*within, *beyond))


def changed_paths(workspace: Path, public: Mapping[str, bytes], spec: CaptureSpec) -> list[str]:
    """Sorted paths at which a workspace differs from what it began as, less what ``spec`` leaves out.

    The workspace's own git directory is not asked: its configuration can name programs to run, and its
    commits can claim anything.
    """
    seen = {path: entry for path, entry in _entries(workspace) if not _matches(path, spec.omit)}
    gone = [path for path in public if path not in seen and not _matches(path, spec.omit)]
    changed = [path for path, entry in seen.items() if path in public and not _holds(entry, public[path])]
    new = [path for path in seen if path not in public]
    ignored = _ignored(new, {p: c for p, c in public.items() if p.rpartition("/")[2] == ".gitignore"} if new else {})
    return sorted([*gone, *changed, *(path for path in new if path not in ignored)])


def _entries(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Everything that is not a directory, by its path in the workspace; git directories are passed over."""
    for here, directories, files in os.walk(workspace, followlinks=False):
        inside = Path(here).relative_to(workspace)
        links = [name for name in directories if Path(here, name).is_symlink()]
        directories[:] = [name for name in directories if name != ".git" and name not in links]
        for name in [*files, *links]:
            if name != ".git":
                yield (inside / name).as_posix(), Path(here, name)


def _matches(path: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, glob) for glob in globs)


def _holds(entry: Path, content: bytes) -> bool:
    try:
        found = entry.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size != len(content):
            return False
        fd = os.open(entry, FILE)
        try:
            return _bounded(fd, len(content) + 1) == content
        finally:
            os.close(fd)
    except OSError:
        return False


def _ignored(paths: Sequence[str], rules: Mapping[str, bytes]) -> frozenset[str]:
    """Which of ``paths`` the .gitignore files in ``rules`` name. Git is asked in an empty repository of ours."""
    if not paths or not rules:
        return frozenset()
    with tempfile.TemporaryDirectory(prefix="recurve-ignore-") as place:
        for path, content in {**rules, ".git/HEAD": b"ref: refs/heads/main\n"}.items():
            target = Path(place, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        for name in ("objects", "refs"):
            Path(place, ".git", name).mkdir()
        done = subprocess.run(
            ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin", "-z"],
            input=b"\0".join(map(os.fsencode, paths)), cwd=place, capture_output=True, check=False,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": place, "GIT_CONFIG_NOSYSTEM": "1"},
        )  # fmt: skip
    if done.returncode > 1:
        raise InfraError(f"git could not read the .gitignore files: {done.stderr.decode(errors='replace')[-300:]}")
    return frozenset(os.fsdecode(path) for path in done.stdout.split(b"\0") if path)


def capture_file(workspace: Path, path: str, max_bytes: int) -> CapturedFile:
    """One file of at most ``max_bytes`` bytes; ``size`` is what the file system said, where it said it."""
    try:
        with _parent(workspace, path) as directory:
            return _read(directory, path, max_bytes)
    except OSError as error:
        return CapturedFile(path, STATUS.get(error.errno or 0, CaptureStatus.UNREADABLE))


def capture_tree(workspace: Path, top: str, skip: Collection[str], max_bytes: int, max_files: int) -> dict[str, bytes]:
    """The readable regular files below a directory of a workspace, by path; the first ``max_files`` by name.

    ``skip`` names entries of that directory that are passed over. No link is followed.
    """
    found: dict[str, bytes] = {}
    root = workspace / top
    if root.is_symlink() or not root.is_dir():
        return found
    for here, directories, files in os.walk(root, followlinks=False):
        if Path(here) == root:
            directories[:] = [d for d in directories if d not in skip]
            files = [f for f in files if f not in skip]
        directories.sort()
        for name in sorted(files):
            path = str((Path(here) / name).relative_to(workspace))
            content = capture_file(workspace, path, max_bytes).content
            if content is not None and len(found) < max_files:
                found[path] = content
    return found


def check_paths(spec: CaptureSpec) -> str | None:
    """At plan time: None, or why this capture cannot be made inside a workspace."""
    if spec.kind is CaptureKind.DIFF:
        if spec.paths:
            return "a diff is captured whole: it names no paths"
        least = min(spec.max_file_bytes, spec.max_files)
        return None if least >= 1 else f"max_file_bytes and max_files must be positive; got {least}"
    if not spec.paths:
        return "no path is captured: name at least one file of the submission"
    try:
        for path in spec.paths:
            check_relative(path, "capture")
    except ConfigError as error:
        return str(error)
    if len(set(spec.paths)) != len(spec.paths):
        return f"a path is captured twice: {', '.join(spec.paths)}"
    if spec.max_file_bytes < 1:
        return f"max_file_bytes must be positive; got {spec.max_file_bytes}"
    return None


def check_relative(path: str, where: str) -> None:
    """Refuse a path that is not plainly inside a workspace. Raises ConfigError naming ``where``."""
    parts = PurePosixPath(path).parts
    plain = bool(parts) and "/".join(parts) == path and ".." not in parts and "\0" not in path
    if not plain or path.startswith("/"):
        raise ConfigError(f"{where}: '{path}' is not a plain relative path inside the workspace")
    if parts[0] == ".git":
        raise ConfigError(f"{where}: '{path}' lies in the workspace's own git directory")


@contextlib.contextmanager
def _parent(workspace: Path, path: str) -> Iterator[int]:
    directory = os.open(workspace, DIRECTORY)
    try:
        for part in PurePosixPath(path).parts[:-1]:
            inner = os.open(part, DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        yield directory
    finally:
        os.close(directory)


def _read(directory: int, path: str, max_bytes: int) -> CapturedFile:
    name = PurePosixPath(path).name
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return CapturedFile(path, CaptureStatus.NOT_FILE)
    if not found.st_mode & stat.S_IRUSR:
        # A privileged harness could read it; the status must not depend on who captures.
        return CapturedFile(path, CaptureStatus.UNREADABLE, size=found.st_size)
    if found.st_size > max_bytes:
        return CapturedFile(path, CaptureStatus.TOO_LARGE, size=found.st_size)
    fd = os.open(name, FILE, dir_fd=directory)
    try:
        content = _bounded(fd, max_bytes + 1)
    finally:
        os.close(fd)
    if len(content) > max_bytes:
        return CapturedFile(path, CaptureStatus.TOO_LARGE, size=len(content))
    return CapturedFile(path, CaptureStatus.OK, content, len(content))


def _bounded(fd: int, limit: int) -> bytes:
    content = b""
    while len(content) < limit and (chunk := os.read(fd, limit - len(content))):
        content += chunk
    return content
