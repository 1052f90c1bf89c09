"""A commit of a local clone: its files, as they are stored, and what a patch makes of them.

Only git's object reader runs on a clone; nothing is checked out, so no filter, hook or attribute of it
has a say, and a workspace made of the files has none of the clone's history, references or reflogs.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from recurve_eval.domain import TreeFile
from recurve_eval.errors import ConfigError
from recurve_eval.workspace import NOBODYS_GIT

_LINK, _PROGRAM, _FILE = "120000", "100755", "100644"
_PATHS = re.compile(r"^(?:--- a/|\+\+\+ b/|rename from |rename to |copy from |copy to )([^\t\n]+)", re.MULTILINE)
_HEADS = re.compile(r"^diff --git a/(.+) b/(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Tree(Mapping[str, bytes]):
    """The regular files of a commit by path, read when they are asked for. Links and submodules are left out."""

    clone: Path
    commit: str

    def __iter__(self) -> Iterator[str]:
        return iter(self._blobs)

    def __len__(self) -> int:
        return len(self._blobs)

    def __contains__(self, path: object) -> bool:
        return path in self._blobs

    def __getitem__(self, path: str) -> bytes:
        return _contents(self.clone, self.commit)[self._blobs[path]]

    def only(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Some files, without reading the rest; those that the commit does not have are left out."""
        names = {path: self._blobs[path] for path in paths if path in self._blobs}
        found = _read(self.clone, sorted(set(names.values())))
        return {path: found[name] for path, name in names.items()}

    def files(self) -> dict[str, TreeFile]:
        """Everything but submodules, with modes and links."""
        contents = _contents(self.clone, self.commit)
        return {
            path: TreeFile(contents[blob], 0o755 if mode == _PROGRAM else 0o644, mode == _LINK)
            for path, (mode, blob) in self._entries.items()
        }

    @cached_property
    def _blobs(self) -> dict[str, str]:
        return {path: blob for path, (mode, blob) in self._entries.items() if mode != _LINK}

    @cached_property
    def _entries(self) -> dict[str, tuple[str, str]]:
        return _entries(self.clone, self.commit)


def clone_of(root: Path, repo: str) -> Path:
    """The local clone of OWNER/NAME below ``root``. Raises ConfigError listing where it may lie."""
    owner, _, name = repo.partition("/")
    places = [root / f"{owner}__{name}", root / owner / name, root / name]
    for place in [*places, *(p.with_name(p.name + ".git") for p in places)]:
        if (place / "HEAD").is_file() or (place / ".git").exists():
            return place
    raise ConfigError(
        f"no clone of {repo} in {root}: make one with git clone https://github.com/{repo} {places[0]} "
        f"(or at {', '.join(str(p) for p in places[1:])})"
    )


def tree_of(clone: Path, commit: str) -> Tree:
    """Raises ConfigError where the clone does not have the commit."""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit):
        raise ConfigError(f"'{commit}' is not a commit id")
    if _git(clone, ["cat-file", "-t", commit]).strip() != b"commit":
        raise ConfigError(f"{clone} has no commit {commit}: fetch it, with its whole history")
    return Tree(clone, commit)


def applied(tree: Tree, patch: str, what: str) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The files that a patch leaves, whole, and the paths that it removes. Raises ConfigError if it fails."""
    paths = set(_PATHS.findall(patch)) | {path for pair in _HEADS.findall(patch) for path in pair}
    before = tree.only(sorted(paths))
    with tempfile.TemporaryDirectory(prefix="recurve-patch-") as name:
        place = Path(name).resolve()
        for path, content in before.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"], input=patch.encode("utf-8", "surrogateescape"), cwd=place,
            env=_environment() | {"GIT_CEILING_DIRECTORIES": str(place.parent)}, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ConfigError(f"{what} does not apply to {tree.commit}: {done.stderr.decode(errors='replace')[:300]}")
        after = {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}
    return after, tuple(sorted(set(before) - set(after)))


@lru_cache(maxsize=64)
def _entries(clone: Path, commit: str) -> dict[str, tuple[str, str]]:
    """Path -> (mode, blob id)."""
    found = {}
    for row in _git(clone, ["ls-tree", "-r", "-z", "--full-tree", commit]).split(b"\0"):
        if row:
            head, _, path = row.partition(b"\t")
            mode, kind, blob = head.decode().split()
            if kind == "blob":
                found[os.fsdecode(path)] = (mode, blob)
    return found


@lru_cache(maxsize=2)
def _contents(clone: Path, commit: str) -> dict[str, bytes]:
    """Every blob of a commit. A few trees at most are held: a large one takes tens of megabytes."""
    return _read(clone, sorted({blob for _, blob in _entries(clone, commit).values()}))


def _read(clone: Path, blobs: Sequence[str]) -> dict[str, bytes]:
    if not blobs:
        return {}
    said = _git(clone, ["cat-file", "--batch"], "".join(f"{blob}\n" for blob in blobs).encode())
    found, at = {}, 0
    for blob in blobs:
        end = said.index(b"\n", at)
        size = int(said[at:end].split()[2])
        found[blob] = said[end + 1 : end + 1 + size]
        at = end + 2 + size
    return found


def _git(clone: Path, words: Sequence[str], given: bytes = b"") -> bytes:
    argv = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=", "-C", str(clone), *words]
    done = subprocess.run(argv, input=given, env=_environment(), capture_output=True, check=False)
    if done.returncode:
        raise ConfigError(f"git cannot read {clone}: {done.stderr.decode(errors='replace').strip()[:300]}")
    return done.stdout


def _environment() -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return keep | NOBODYS_GIT | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
