"""What benchmarks of every shape do alike: finding a task, the least that must fail, files by their directory."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from recurve_eval.domain import KnownBad, digest
from recurve_eval.errors import UnknownName

T = TypeVar("T")


class Directory(Protocol):
    """A task that was read whole from a directory; ``files`` by their path below it."""

    @property
    def where(self) -> Path: ...
    @property
    def files(self) -> Mapping[str, bytes]: ...


def find(tasks: Mapping[str, T], task_id: str, benchmark: str) -> T:
    """A benchmark's task by its id. Raises UnknownName with the known ones."""
    if task_id not in tasks:
        raise UnknownName("task", task_id, tasks, benchmark)
    return tasks[task_id]


def check_timeouts(timeouts_s: Iterable[str], known: Collection[str], benchmark: str) -> None:
    """Raises UnknownName where ``task.timeouts_s`` names a task that is not there."""
    for task_id in timeouts_s:
        if task_id not in known:
            raise UnknownName("task", task_id, list(known)[:40], f"task.timeouts_s of {benchmark}")


def hollow_functions(path: str, entry_point: str) -> tuple[KnownBad, ...]:
    """Submissions that must fail whatever the function is for: no file content, returning None, raising."""
    head = f"def {entry_point}(*args, **kwargs):\n"
    bad = {"empty": "", "none": head + "    return None\n", "raises": head + "    raise NotImplementedError\n"}
    return tuple(KnownBad(kind, {path: text.encode()}) for kind, text in bad.items())


def below(files: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """The files of one directory, by their path in it."""
    return {path[len(name) + 1 :]: data for path, data in files.items() if path.startswith(f"{name}/")}


def set_hash(tasks: Mapping[str, Directory]) -> str:
    """SHA-256 (hex) over the path and content of every file of every task."""
    return digest(
        [
            [f"{task.where.name}/{path}", hashlib.sha256(data).hexdigest()]
            for task in tasks.values()
            for path, data in sorted(task.files.items())
        ]
    )
