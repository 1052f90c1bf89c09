"""npm packages of an image: locked by version and integrity, fetched, and unpacked without running anything.

A package is a tar whose files lie below one directory (docs.npmjs.com, *package tarballs*). They go to
``usr/local/lib/node_modules``, where Node's own installer puts packages for all users; no install script
runs and no command is linked, since a grading starts a package's program by its path.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from recurve_eval.errors import ConfigError, Drift, InfraError
from recurve_eval.oracle import tools
from recurve_eval.oracle.archive import FILE, Entry, entries_of
from recurve_eval.oracle.recipe import Recipe, lock_command
from recurve_eval.oracle.tools import Progress

LOCK = "npm.lock"
ROOT = "usr/local/lib"


@dataclass(frozen=True, slots=True)
class Locked:
    """One package: its place below ``ROOT``, its name and version, and the SHA-512 (base64) of its tar."""

    place: str
    name: str
    version: str
    sha512: str

    @property
    def line(self) -> str:
        return f"{self.place} {self.name}=={self.version} sha512-{self.sha512}"


def resolve(recipe: Recipe, scratch: Path, progress: Progress) -> str:
    """The text of npm.lock: what the recipe's ``npm`` packages need, at their present versions."""
    tools.require("npm")
    place = scratch / "npm"
    place.mkdir()
    asked = dict(spec.rsplit("@", 1) for spec in recipe.npm)
    (place / "package.json").write_text(json.dumps({"private": True, "dependencies": asked}))
    _npm(recipe, ["install", "--package-lock-only", "--ignore-scripts", "--prefix", str(place)], scratch, progress)
    packages = json.loads((place / "package-lock.json").read_text())["packages"]
    found = []
    for where, facts in sorted(packages.items()):
        if where and not facts.get("optional"):
            name = where.rpartition("node_modules/")[2]
            found.append(Locked(where, name, facts["version"], facts["integrity"].removeprefix("sha512-")).line)
    return "\n".join([f"# npm packages. Resolved by: {lock_command(recipe)}", *found, ""])


def locked(recipe: Recipe) -> list[Locked]:
    """The lines of npm.lock. Raises ConfigError on one that cannot be read."""
    found = []
    for line in recipe.lock_file(LOCK).read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(node_modules/\S+) (\S+)==(\S+) sha512-([A-Za-z0-9+/=]+)", line)
        if match is None or ".." in PurePosixPath(match[1]).parts:
            raise ConfigError(f"{recipe.name}/{LOCK}: cannot read '{line}'; re-lock: {lock_command(recipe)}")
        found.append(Locked(match[1], match[2], match[3], match[4]))
    return found


def entries(recipe: Recipe, scratch: Path, progress: Progress, open_files: ExitStack) -> Iterator[Entry]:
    """The files of every locked package at their places, readable as long as ``open_files`` is.

    Raises Drift where the registry serves other bytes than were locked.
    """
    tools.require("npm")
    for number, package in enumerate(locked(recipe)):
        place = scratch / f"npm-{number}"
        place.mkdir()
        spec = f"{package.name}@{package.version}"
        _npm(recipe, ["pack", spec, "--ignore-scripts", "--pack-destination", str(place)], scratch, progress)
        (packed,) = place.iterdir()
        found = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        if found != package.sha512:
            raise Drift(
                f"recipe {recipe.name}: {spec} is sha512-{found}, {LOCK} says sha512-{package.sha512}. Find out why; "
                f"re-lock with: {lock_command(recipe)}; then build and re-pin, and recalibrate"
            )
        tar = open_files.enter_context(tarfile.open(packed))  # noqa: SIM115 - it is read as long as the layer is written
        yield from _placed(recipe, package, tar)


def _placed(recipe: Recipe, package: Locked, tar: tarfile.TarFile) -> Iterator[Entry]:
    for entry in entries_of(tar):
        inside = PurePosixPath(entry.path).parts[1:]
        path = f"{ROOT}/{package.place}/{'/'.join(inside)}"
        if entry.kind == FILE and inside and ".." not in inside and not recipe.drops(path):
            yield replace(entry, path=path, mode=0o755 if entry.mode & 0o100 else 0o644, uid=0, gid=0)


def _npm(recipe: Recipe, words: list[str], scratch: Path, progress: Progress) -> None:
    world = {"npm_config_cache": str(scratch / "npm-cache"), "npm_config_update_notifier": "false"}
    code, output = tools.run(["npm", *words, "--no-audit", "--no-fund"], progress, world)
    if code:
        tail = "\n".join(output.splitlines()[-12:])
        raise InfraError(f"recipe {recipe.name}: npm {words[0]} failed:\n{tail}")
