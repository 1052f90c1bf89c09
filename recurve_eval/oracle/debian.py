"""The root file system of a ``debian`` image: packages pinned to the version, unpacked and never run.

mmdebstrap's ``extract`` variant unpacks packages without running a maintainer script, so nothing in
the result depends on the machine that built it, and no privilege is needed. The .deb files that it used
stay in its output until we have compared each with the lock.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import subprocess
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from recurve_eval.errors import ConfigError, Drift, InfraError
from recurve_eval.oracle import tools
from recurve_eval.oracle.archive import DIRECTORY, Entry, entries_of
from recurve_eval.oracle.recipe import Recipe, lock_command, locked_packages
from recurve_eval.oracle.tools import Progress

Packages = dict[tuple[str, str], str]  # (name, version) -> SHA-256

# What differs from build to build, belongs to the container engine, or names the mirror.
_VARYING = (
    "dev/*", "etc/apt/*", "etc/fstab", "etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/machine-id", "proc/*",
    "run/*", "sys/*", "tmp/*", "var/cache/*", "var/lib/apt/*", "var/lib/dpkg/*", "var/log/*", "*.pyc", "*/__pycache__",
)  # fmt: skip
_UNREAD = ("usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/lintian/*")
_ARCHIVES = "var/cache/apt/archives/"
_ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
# Merged /usr, laid before anything is unpacked.
_MERGE = 'for d in bin sbin lib lib64; do mkdir -p "$1/usr/$d"; ln -s "usr/$d" "$1/$d"; done'
# A package that was not named with its version has no candidate, so apt cannot bring one in unasked.
_NO_OTHERS = "printf 'Package: *\\nPin: release *\\nPin-Priority: -1\\n' > \"$1/etc/apt/preferences.d/00-locked-only\""


def root_entries(recipe: Recipe, scratch: Path, progress: Progress, open_files: ExitStack) -> list[Entry]:
    """The base layer's entries, from exactly the locked packages.

    Raises Drift where the mirror no longer has a locked version or serves other bytes under its name.
    """
    locked = locked_packages(recipe)
    wanted = [f"{name}={version}" for name, version in locked]
    tar = open_files.enter_context(_mmdebstrap(recipe, wanted, scratch, progress, locked_only=True))
    _compare(recipe, locked, _packages_of(tar))
    usual = (*_VARYING, *_UNREAD)
    kept = [
        entry
        for entry in entries_of(tar)
        if not recipe.drops(entry.path) and not any(fnmatch.fnmatchcase(entry.path, glob) for glob in usual)
    ]
    extra = [Entry.of_bytes(path, content) for path, content in _ACCOUNTS.items()]
    extra += [Entry.symlink(path, target) for path, target in recipe.links.items()]
    extra += [Entry("tmp", DIRECTORY, 0o1777), Entry("var/tmp", DIRECTORY, 0o1777)]
    extra.append(Entry.of_bytes("usr/share/recurve/packages.lock", recipe.lock_file("packages.lock").read_bytes()))
    return kept + extra


def resolve(recipe: Recipe, scratch: Path, progress: Progress) -> str:
    """The text of packages.lock: what the recipe's packages need, at the mirror's present versions."""
    with _mmdebstrap(recipe, recipe.packages, scratch, progress, locked_only=False) as tar:
        found = _packages_of(tar)
    lines = [f"{name}={version} sha256:{sha256}" for (name, version), sha256 in sorted(found.items())]
    head = f"# Debian {recipe.suite}, {recipe.architecture}. Resolved from recipe.yaml by: {lock_command(recipe)}"
    return "\n".join([head, *lines, ""])


def sources(suite: str) -> list[str]:
    """apt source lines for a Debian suite on the mirrors that this machine is set up with, if any."""
    fields = "$(REPO_URI)|$(ORIGIN)|$(LABEL)"
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    lines = []
    for uri, origin, label in sorted({tuple(line.split("|")) for line in listed.splitlines()}):
        if origin == "Debian" and label == "Debian":
            lines += [f"deb {uri} {suite} main", f"deb {uri} {suite}-updates main"]
        elif origin == "Debian" and label == "Debian-Security":
            lines.append(f"deb {uri} {suite}-security main")
    return lines


def _mmdebstrap(
    recipe: Recipe, packages: list[str], scratch: Path, progress: Progress, *, locked_only: bool
) -> tarfile.TarFile:
    tools.require("mmdebstrap", "apt-get")
    out = scratch / "root.tar"
    hooks = [_MERGE, _NO_OTHERS] if locked_only else [_MERGE]
    argv = [
        "mmdebstrap", "--variant=extract", "--mode=unshare", f"--architectures={recipe.architecture}", "--format=tar",
        "--skip=essential/unlink,cleanup/apt/cache", *[f"--setup-hook={hook}" for hook in hooks],
        f"--include={' '.join(packages)}", recipe.suite, str(out), *sources(recipe.suite),
    ]  # fmt: skip
    env = {"SOURCE_DATE_EPOCH": str(recipe.epoch), "TMPDIR": str(scratch)}
    code, output = tools.run(argv, progress, env)
    if code:
        _explain(recipe, output)
    return tarfile.open(out)


def _explain(recipe: Recipe, output: str) -> None:
    gone = [f"{name}={version}" for version, name in re.findall(r"Version '(.+?)' for '(.+?)' was not found", output)]
    gone += re.findall(r"Unable to locate package (\S+)", output)
    if gone:
        raise Drift(
            f"recipe {recipe.name}: the mirror no longer has {', '.join(gone)}. Re-lock with: {lock_command(recipe)}; "
            "then build and re-pin, and recalibrate: another package is another oracle"
        )
    missing = re.findall(r"Depends: (.+?) but it is not (?:installable|going to be installed)", output)
    if missing:
        raise ConfigError(
            f"{recipe.name}/packages.lock lacks {', '.join(sorted(set(missing)))}; re-lock: {lock_command(recipe)}"
        )
    tail = "\n".join(output.splitlines()[-15:])
    hint = ""
    if re.search(r"subuid|newuidmap|unshare", tail):
        hint = (
            "\nWithout root, mmdebstrap needs user namespaces, a range for you in /etc/subuid and /etc/subgid, and "
            f"newuidmap ({tools.INSTALL['newuidmap']})"
        )
    raise InfraError(f"mmdebstrap could not build {recipe.name}:\n{tail}{hint}")


def _packages_of(tar: tarfile.TarFile) -> Packages:
    """(name, version) -> SHA-256 of the .deb files that the build left in its cache."""
    found = {}
    for member in tar.getmembers():
        path = PurePosixPath("/", member.name).as_posix().lstrip("/")
        if path.startswith(_ARCHIVES) and path.endswith(".deb"):
            name, version, _ = PurePosixPath(path).name.split("_")
            stream = tar.extractfile(member)
            assert stream is not None
            found[name, unquote(version)] = hashlib.sha256(stream.read()).hexdigest()
    return found


def _compare(recipe: Recipe, locked: Mapping[tuple[str, str], str], used: Packages) -> None:
    odd = sorted(f"{name}={version}" for name, version in locked.keys() ^ used.keys())
    odd += sorted(f"{n}={v} (other bytes)" for n, v in locked.keys() & used.keys() if locked[n, v] != used[n, v])
    if odd:
        raise Drift(
            f"recipe {recipe.name}: the packages differ from packages.lock: {', '.join(odd)}. Re-lock with: "
            f"{lock_command(recipe)}; then build and re-pin, and recalibrate"
        )
