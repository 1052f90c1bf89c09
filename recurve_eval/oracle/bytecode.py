"""Compiles an image's modules once, by the image's own interpreter, so that no grading has to.

The .pyc files are of the unchecked-hash kind (PEP 552): they hold no time, so they are the same in every
build, and the interpreter uses them without looking at the source. Under a read-only root nothing can
write others.
"""

from __future__ import annotations

import tarfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import docker

from recurve_eval.errors import InfraError
from recurve_eval.oracle.archive import Entry, entries_of

_OUT = "/bytecode"
_SCRIPT = """
import os, py_compile, sys
out, roots = sys.argv[1], sys.argv[2:]
done = skipped = 0
for root in roots:
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                tag = sys.implementation.cache_tag
                target = f"{out}{folder}/__pycache__/{name[:-3]}.{tag}.pyc"
                try:
                    py_compile.compile(os.path.join(folder, name), target, doraise=True, quiet=2,
                                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
                    done += 1
                except (py_compile.PyCompileError, ValueError, UnicodeError, RecursionError):
                    skipped += 1
print(f"compiled {done} modules, {skipped} are not Python {sys.version_info.major}.{sys.version_info.minor}")
"""


def compiled(
    client: docker.DockerClient, image: str, roots: list[str], scratch: Path, open_files: ExitStack
) -> tuple[list[Entry], str]:
    """The .pyc entries of every module under ``roots`` in ``image``, and a line saying how many."""
    container = client.containers.create(
        image, ["/usr/bin/python3", "-I", "-S", "-B", "-c", _SCRIPT, _OUT, *roots], network_mode="none",
        environment={"PYTHONHASHSEED": "0"}, labels={"recurve-eval": "image-build"},
    )  # fmt: skip
    try:
        container.start()
        code = container.wait()["StatusCode"]
        said = container.logs().decode(errors="replace").strip()
        if code:
            raise InfraError(f"compiling the modules of the image failed ({code}): {said[-2000:]}")
        tar = scratch / "bytecode.tar"
        with tar.open("wb") as out:
            for chunk in container.get_archive(_OUT)[0]:
                out.write(chunk)
    finally:
        container.remove(force=True)
    prefix = _OUT.lstrip("/") + "/"
    archive = open_files.enter_context(tarfile.open(tar))  # noqa: SIM115
    found = [entry for entry in entries_of(archive) if entry.path.endswith(".pyc")]
    return [replace(entry, path=entry.path.removeprefix(prefix), mode=0o644) for entry in found], said
