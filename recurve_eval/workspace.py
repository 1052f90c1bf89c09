"""A fresh workspace: the public part of a task as the one commit of a new git repository.

The repository is written without starting git (a start costs more than the rest of the workspace). Its
commit has a fixed author and date, so the same public part gives the same commit id everywhere.
Formats: gitformat-index(5), version 2; loose objects as in gitrepository-layout(5).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recurve_eval.capture import check_relative
from recurve_eval.domain import Task
from recurve_eval.errors import ConfigError

# For git, in an environment without HOME and XDG_CONFIG_HOME (where a user's attributes lie): neither this machine's
# nor its user's configuration has a say.
NOBODYS_GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
WHO = "recurve-eval <recurve-eval@localhost> 946684800 +0000"
FILE, PROGRAM = 0o100644, 0o100755
CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
IDENTITY = "[user]\n\tname = agent\n\temail = agent@localhost\n"
Tree = dict[str, Any]


def materialize(task: Task, directory: Path) -> str:
    """Write the task's public part into ``directory`` and commit it; the commit's id.

    A file that begins with ``#!`` is executable. Raises ConfigError for a public path that leaves the
    workspace, FileExistsError where ``directory`` exists and is not empty.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"a workspace must start empty: {directory}")
    files = dict(sorted(task.public.items(), key=lambda item: item[0].encode()))
    for path in files:
        check_relative(path, f"task {task.id}")
    _write_files(directory, files, task.id)
    return _commit(directory / ".git", directory, files)


def remove(directory: Path) -> None:
    """Remove a workspace, whatever an agent made of it. Missing is fine.

    Permissions taken away, nesting beyond the interpreter's recursion and paths beyond the kernel's
    limit are all removed. Raises OSError where something remains.
    """
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        directory.unlink()
        return
    try:
        _open_up(directory)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(directory)
    except (OSError, RecursionError):
        _remove_by_descent(directory)


def _open_up(directory: Path) -> None:
    for parent, directories, _ in os.walk(directory):
        for name in directories:
            with contextlib.suppress(OSError):
                child = Path(parent, name)
                if not child.is_symlink():
                    child.chmod(0o700)


def _remove_by_descent(directory: Path) -> None:
    """The system's own tools walk by descriptors, so neither depth nor the length of a path stops them."""
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(directory)], stderr=subprocess.DEVNULL, check=False)
    if os.path.lexists(directory):
        raise OSError(errno.ENOTEMPTY, "something remains of the workspace", str(directory))


def _write_files(directory: Path, files: Mapping[str, bytes], task_id: str) -> None:
    for path, content in files.items():
        target = directory / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except (NotADirectoryError, FileExistsError, IsADirectoryError) as error:
            raise ConfigError(f"task {task_id}: '{path}' is a file and a directory of the public part") from error
        target.chmod(0o755 if _mode(content) == PROGRAM else 0o644)


def _commit(git: Path, directory: Path, files: Mapping[str, bytes]) -> str:
    for place in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "logs/refs/heads"):
        (git / place).mkdir(parents=True)
    blobs = {path: _store(git, b"blob", content) for path, content in files.items()}
    tree = _store_tree(git, _nested(files, blobs))
    message = f"tree {tree.hex()}\nauthor {WHO}\ncommitter {WHO}\n\nThe task as given\n"
    commit = _store(git, b"commit", message.encode()).hex()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(CONFIG + IDENTITY)
    (git / "refs/heads/main").write_text(commit + "\n")
    entry = f"{'0' * 40} {commit} {WHO}\tcommit (initial): The task as given\n"
    (git / "logs/HEAD").write_text(entry)
    (git / "logs/refs/heads/main").write_text(entry)
    (git / "index").write_bytes(_index(directory, files, blobs))
    return commit


def _store(git: Path, kind: bytes, content: bytes) -> bytes:
    data = b"%s %d\0%s" % (kind, len(content), content)
    name = hashlib.sha1(data, usedforsecurity=False).digest()
    place = git / "objects" / name.hex()[:2] / name.hex()[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(zlib.compress(data, 1))
        place.chmod(0o444)
    return name


def _nested(files: Mapping[str, bytes], blobs: Mapping[str, bytes]) -> Tree:
    root: Tree = {}
    for path, content in files.items():
        *parents, name = path.split("/")
        node = root
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = (_mode(content), blobs[path])
    return root


def _store_tree(git: Path, tree: Tree) -> bytes:
    rows = []
    for name, node in tree.items():
        key = name.encode()
        if isinstance(node, dict):
            rows.append((key + b"/", b"40000 %s\0%s" % (key, _store_tree(git, node))))
        else:
            mode, blob = node
            rows.append((key, b"%o %s\0%s" % (mode, key, blob)))
    return _store(git, b"tree", b"".join(row for _, row in sorted(rows)))


def _index(directory: Path, files: Mapping[str, bytes], blobs: Mapping[str, bytes]) -> bytes:
    body = b"DIRC" + struct.pack(">LL", 2, len(files))
    for path, content in files.items():
        found = (directory / path).stat()
        times = (_seconds(found.st_ctime_ns), _seconds(found.st_mtime_ns))
        numbers = (found.st_dev, found.st_ino, _mode(content), found.st_uid, found.st_gid, len(content))
        head = struct.pack(">LLLL", *times[0], *times[1]) + struct.pack(">6L", *(n & 0xFFFFFFFF for n in numbers))
        name = path.encode()
        entry = head + blobs[path] + struct.pack(">H", min(len(name), 0xFFF)) + name
        body += entry + b"\0" * (8 - len(entry) % 8)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _seconds(nanoseconds: int) -> tuple[int, int]:
    seconds, rest = divmod(nanoseconds, 10**9)
    return seconds & 0xFFFFFFFF, rest


def _mode(content: bytes) -> int:
    return PROGRAM if content.startswith(b"#!") else FILE
