"""Layers and Docker archives whose bytes depend on their content alone.

An image id is the SHA-256 of the image's config JSON, which names each layer by the SHA-256 of its
uncompressed tar. So the same files give the same id wherever they were built, provided that order,
times, owners and hard links have one spelling. That spelling is made here.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

CHUNK = 1 << 20
FILE, DIRECTORY, SYMLINK, HARDLINK = "file", "directory", "symlink", "hardlink"
_TYPES = {FILE: tarfile.REGTYPE, DIRECTORY: tarfile.DIRTYPE, SYMLINK: tarfile.SYMTYPE, HARDLINK: tarfile.LNKTYPE}


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a layer, relative to the root. ``target`` belongs to links, ``open`` and ``size`` to files."""

    path: str
    kind: str = FILE
    mode: int = 0o644
    target: str = ""
    size: int = 0
    open: Callable[[], IO[bytes]] = field(default=lambda: io.BytesIO(b""), compare=False)
    uid: int = 0
    gid: int = 0

    @classmethod
    def of_bytes(cls, path: str, content: bytes, mode: int = 0o644) -> Entry:
        return cls(path, FILE, mode, size=len(content), open=lambda: io.BytesIO(content))

    @classmethod
    def symlink(cls, path: str, target: str) -> Entry:
        return cls(path, SYMLINK, 0o777, target=target)


@dataclass(frozen=True, slots=True)
class Layer:
    """A tar on disk and its digest (``sha256:`` + hex), which Docker calls the diff id."""

    path: Path
    diff_id: str
    size: int  # bytes


def entries_of(tar: tarfile.TarFile) -> list[Entry]:
    """The files, directories and links of an open tar; devices and FIFOs are left out.

    Set-user-id and set-group-id bits are cleared: nothing in a grader may gain rights by being run.
    """
    found = []
    for member in tar.getmembers():
        path = str(PurePosixPath("/", member.name)).lstrip("/")
        kind = next((k for k, t in _TYPES.items() if member.type == t), None)
        if not path or kind is None:
            continue
        target = member.linkname
        if kind == HARDLINK:
            target = str(PurePosixPath("/", target)).lstrip("/")
        found.append(
            Entry(path, kind, member.mode & 0o1777, target, member.size, _reader(tar, member), member.uid, member.gid)
        )
    return found


def write_layer(entries: Iterable[Entry], out: Path, epoch: int) -> Layer:
    """Write a layer in its one spelling: sorted, owned by number, every time equal to ``epoch`` (seconds).

    Of two entries with one path the later wins; directories that are implied and not given are added.
    """
    ordered = _canonical(entries)
    with out.open("wb") as raw:
        hashed = _Hashing(raw)
        with tarfile.open(fileobj=hashed, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK) as tar:
            for entry in ordered:
                with entry.open() as content:
                    tar.addfile(_info(entry, epoch), content if entry.kind == FILE else None)
    return Layer(out, f"sha256:{hashed.sha256.hexdigest()}", out.stat().st_size)


def layer_of(path: Path) -> Layer:
    """An existing tar as a layer, its bytes untouched."""
    sha256 = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            sha256.update(chunk)
    return Layer(path, f"sha256:{sha256.hexdigest()}", path.stat().st_size)


def image_config(layers: Sequence[Layer], *, architecture: str, created: str, config: Mapping[str, Any]) -> bytes:
    """The image's config JSON; ``created`` is RFC 3339. Its SHA-256 is the image id."""
    document = {
        "architecture": architecture,
        "config": dict(config),
        "created": created,
        "history": [{"created": created} for _ in layers],
        "os": "linux",
        "rootfs": {"diff_ids": [layer.diff_id for layer in layers], "type": "layers"},
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def image_id(config: bytes) -> str:
    return f"sha256:{hashlib.sha256(config).hexdigest()}"


def write_archive(config: bytes, layers: Sequence[Layer], tags: Sequence[str], out: Path) -> Path:
    """A docker-archive, as ``docker load`` reads it."""
    name = f"{image_id(config).removeprefix('sha256:')}.json"
    names = [f"{layer.diff_id.removeprefix('sha256:')}/layer.tar" for layer in layers]
    manifest = json.dumps([{"Config": name, "Layers": names, "RepoTags": list(tags)}], sort_keys=True).encode()
    with ExitStack() as stack:
        tar = stack.enter_context(tarfile.open(out, "w"))
        for path, content in ((name, config), ("manifest.json", manifest)):
            tar.addfile(_info(Entry.of_bytes(path, content), 0), io.BytesIO(content))
        for path, layer in dict(zip(names, layers, strict=True)).items():
            tar.addfile(_info(Entry(path, size=layer.size), 0), stack.enter_context(layer.path.open("rb")))
    return out


def _reader(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def read() -> IO[bytes]:
        stream = tar.extractfile(member) if member.isreg() else None
        return stream if stream is not None else io.BytesIO(b"")

    return read


def _canonical(entries: Iterable[Entry]) -> list[Entry]:
    """Sorted by path, hard links last; the first path of each linked group holds the content."""
    at = {entry.path: entry for entry in entries}
    groups: dict[str, list[str]] = {}
    for entry in at.values():
        if entry.kind == HARDLINK:
            groups.setdefault(entry.target, []).append(entry.path)
    for target, links in groups.items():
        if target not in at:
            raise ValueError(f"the hard link {links[0]} points to {target}, which is not in the layer")
        holder, *others = sorted([target, *links])
        content = at[target]
        at[holder] = replace(content, path=holder)
        at.update({path: Entry(path, HARDLINK, content.mode, target=holder) for path in others})
    for path in list(at):
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                at.setdefault(str(parent), Entry(str(parent), DIRECTORY, 0o755))
    return sorted(at.values(), key=lambda e: (e.kind == HARDLINK, e.path.encode()))


def _info(entry: Entry, epoch: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.path)
    info.type, info.mode, info.linkname, info.mtime = _TYPES[entry.kind], entry.mode, entry.target, epoch
    info.size = entry.size if entry.kind == FILE else 0
    info.uid, info.gid = entry.uid, entry.gid
    return info


class _Hashing(io.RawIOBase):
    """Writes through and hashes what it wrote."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw, self.sha256 = raw, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        return self.raw.write(data)
