"""Python packages of an image: resolved to single wheels, fetched by hash, unpacked without running anything.

A wheel is a zip whose files go to fixed places (PyPA, *Binary distribution format*), so it needs neither
pip nor an interpreter inside the image, and gives the same files wherever it is unpacked. Console
scripts are not made: a grading imports modules.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath

from recurve_eval.errors import ConfigError, Drift, InfraError, Refused
from recurve_eval.oracle import tools
from recurve_eval.oracle.archive import Entry
from recurve_eval.oracle.recipe import Recipe, lock_command
from recurve_eval.oracle.tools import Progress

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_GLIBC_MINOR = {"bookworm": 36, "trixie": 41}  # newest manylinux_2_N that the release can load
_PYTHON = b"#!/usr/bin/python3"
_SCRIPTS = "usr/local/bin/"


def site_packages(recipe: Recipe) -> str:
    return f"usr/local/lib/python{recipe.python}/dist-packages"


def resolve(recipe: Recipe, requirements: list[str], scratch: Path, progress: Progress, *, deps: bool = True) -> str:
    """The text of a lock: one wheel for each package, by version and hash. Raises ConfigError where there is none."""
    asked, report = scratch / "requirements.in", scratch / "report.json"
    asked.write_text("\n".join([*requirements, ""]))
    argv = [
        *_pip(), "install", "--dry-run", "--ignore-installed", "--report", str(report),
        "--target", str(scratch / "none"), *([] if deps else ["--no-deps"]), *_platform(recipe), "-r", str(asked),
    ]  # fmt: skip
    code, output = tools.run(argv, progress)
    if code:
        raise ConfigError(f"recipe {recipe.name}: pip cannot resolve its requirements:\n{_tail(output)}")
    found, omitted = [], {_normal(name) for name in recipe.omit}
    for item in json.loads(report.read_text())["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if _normal(name) in omitted:
            continue
        found.append(f"{name}=={version} --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}")
    head = f"# Wheels for Python {recipe.python}, {recipe.architecture}. Resolved by: {lock_command(recipe)}"
    return "\n".join([head, *sorted(found, key=str.lower), ""])


def download(recipe: Recipe, lock: Path, wheelhouse: Path, progress: Progress) -> list[Path]:
    """The locked wheels, checked against their hashes, sorted by file name.

    Raises Drift where an index no longer has a locked wheel or serves other bytes under its name.
    """
    wheelhouse.mkdir(parents=True, exist_ok=True)
    argv = [
        *_pip(), "download", "--no-deps", "--require-hashes", "--dest", str(wheelhouse), *_platform(recipe),
        "-r", str(lock),
    ]  # fmt: skip
    code, output = tools.run(argv, progress)
    if code:
        _explain(recipe, lock.name, output)
    return sorted(wheelhouse.glob("*.whl"))


def installed(recipe: Recipe, found: list[Path], open_files: ExitStack) -> Iterator[Entry]:
    """The files of every wheel at their places in the image, readable as long as ``open_files`` is."""
    for wheel in found:
        archive = open_files.enter_context(zipfile.ZipFile(wheel))
        for info in archive.infolist():
            place = _place(recipe, PurePosixPath(info.filename))
            if place is None or info.is_dir() or recipe.drops(place):
                continue
            executable = bool(info.external_attr >> 16 & 0o111)
            if place.startswith(_SCRIPTS):
                yield Entry.of_bytes(place, _script(archive.read(info)), 0o755)
            else:
                mode = 0o755 if executable else 0o644
                yield Entry(place, mode=mode, size=info.file_size, open=partial(archive.open, info))


def assets(recipe: Recipe, found: list[Path], open_files: ExitStack) -> Iterator[Entry]:
    """The data files that the recipe copies out of wheels. Raises ConfigError where a directory holds none."""
    for asset in recipe.assets:
        name = _normal(asset.requirement.split("==")[0])
        wheel = next((w for w in found if _normal(w.name.split("-")[0]) == name), None)
        if wheel is None:
            raise ConfigError(f"{recipe.name}/assets.lock lacks {asset.requirement}; re-lock: {lock_command(recipe)}")
        archive = open_files.enter_context(zipfile.ZipFile(wheel))
        prefix = asset.source.rstrip("/") + "/"
        chosen = [i for i in archive.infolist() if i.filename.startswith(prefix) and not i.is_dir()]
        if not chosen:
            raise ConfigError(f"recipe {recipe.name}: {asset.requirement} holds nothing under {asset.source}")
        for info in chosen:
            rest = PurePosixPath(info.filename.removeprefix(prefix))
            if ".." not in rest.parts:
                yield Entry(f"{asset.destination}/{rest}", size=info.file_size, open=partial(archive.open, info))


def _place(recipe: Recipe, path: PurePosixPath) -> str | None:
    """Where a wheel's file goes, relative to /; None for what the image has no place for."""
    if ".." in path.parts or path.is_absolute():
        return None
    site = site_packages(recipe)
    if not path.parts[0].endswith(".data"):
        return f"{site}/{path}"
    roots = {"scripts": _SCRIPTS.rstrip("/"), "purelib": site, "platlib": site, "data": "usr/local"}
    root = roots.get(path.parts[1]) if len(path.parts) > 2 else None
    return f"{root}/{'/'.join(path.parts[2:])}" if root else None


def _explain(recipe: Recipe, lock: str, output: str) -> None:
    # pip calls a version missing also where it could not ask, so a failed connection comes first.
    if "Retrying (" not in output and ("No matching distribution" in output or "DO NOT MATCH" in output):
        about = [line.strip() for line in output.splitlines() if re.search(r"^ERROR|==\S+ from|Expected|Got ", line)]
        raise Drift(
            f"recipe {recipe.name}: a wheel of {lock} is gone or is no longer what was locked: {' '.join(about)}. "
            f"Re-lock with: {lock_command(recipe)}; then build and re-pin, and recalibrate"
        )
    raise InfraError(f"recipe {recipe.name}: pip could not fetch the wheels of {lock}:\n{_tail(output)}")


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    if found := shutil.which("pip3") or shutil.which("pip"):
        return [found, "--disable-pip-version-check", "--no-input"]
    raise Refused(f"missing: pip ({sys.executable} -m ensurepip)")


def _platform(recipe: Recipe) -> list[str]:
    machine, newest = _MACHINES.get(recipe.architecture), _GLIBC_MINOR.get(recipe.suite)
    if machine is None or newest is None:
        raise ConfigError(
            f"recipe {recipe.name}: wheels are known for {', '.join(_MACHINES)} on {', '.join(_GLIBC_MINOR)}, "
            f"not for {recipe.architecture} on {recipe.suite}"
        )
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)] + [f"manylinux2014_{machine}"]
    platforms = [word for tag in tags for word in ("--platform", tag)]
    return ["--only-binary=:all:", "--implementation", "cp", "--python-version", recipe.python, *platforms]


def _script(content: bytes) -> bytes:
    return _PYTHON + content[len(b"#!python") :] if content.startswith(b"#!python") else content


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _tail(output: str, lines: int = 12) -> str:
    return "\n".join(output.splitlines()[-lines:])
