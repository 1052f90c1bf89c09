"""The ``docker`` builder: a Dockerfile on a base pinned by digest, its own layers brought to one spelling.

``docker build`` stamps times into layers and config, so the same steps give another id each time. The
base's layers are kept as they are; those that the steps added are rewritten with fixed times and order.
The result is reproducible exactly when the steps themselves write the same files each time.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException, ImageNotFound
from docker.models.images import Image

from recurve_eval.errors import InfraError, Refused
from recurve_eval.oracle.archive import Layer, entries_of, layer_of, write_layer
from recurve_eval.oracle.recipe import Recipe
from recurve_eval.oracle.tools import Progress


def build(
    recipe: Recipe, client: docker.DockerClient, scratch: Path, progress: Progress
) -> tuple[list[Layer], dict[str, Any]]:
    """The image's layers and its runtime config. The image that Docker built is removed again."""
    base = _base(recipe, client, progress)
    text = f"FROM {recipe.base}\n" + (recipe.root / "Dockerfile").read_text()
    context = _context(recipe.root / "context", text, scratch)
    steps: list[str] = []
    try:
        _build(recipe, client, context, progress, steps)
        return _layers(client, steps[-1], base.attrs["RootFS"]["Layers"], recipe.epoch, scratch)
    except DockerException as error:
        raise InfraError(f"docker could not build {recipe.name}: {error}") from error
    finally:
        if steps and not str(base.id).startswith(f"sha256:{steps[-1]}"):  # the images of the steps before go with it
            client.images.remove(steps[-1], force=True)


def _base(recipe: Recipe, client: docker.DockerClient, progress: Progress) -> Image:
    """The base image, pulled by digest where it is not here."""
    try:
        return client.images.get(recipe.base)
    except ImageNotFound:
        if recipe.base.startswith("sha256:"):
            raise Refused(f"recipe {recipe.name}: its base {recipe.base} is not here; build that first") from None
        progress(f"pulling {recipe.base}")
        try:
            return client.images.pull(recipe.base)
        except DockerException as error:
            raise InfraError(f"docker could not pull {recipe.base}: {error}") from error


def _context(files: Path, dockerfile: str, scratch: Path) -> Path:
    tar = scratch / "context.tar"
    with tarfile.open(tar, "w") as archive:
        if files.is_dir():
            archive.add(files, ".")
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(dockerfile.encode())
        archive.addfile(info, io.BytesIO(dockerfile.encode()))
    return tar


def _build(recipe: Recipe, client: docker.DockerClient, context: Path, progress: Progress, steps: list[str]) -> None:
    """Run the steps; ``steps`` receives the short id of the image that each left, also where one fails."""
    with context.open("rb") as stream:
        events = client.api.build(
            fileobj=stream, custom_context=True, rm=True, forcerm=True, nocache=True, decode=True,
            network_mode="default" if recipe.network else "none",
        )  # fmt: skip
        failure = ""
        for event in events:  # to the end, so that the connection is released
            failure = failure or event.get("error", "").strip()
            line = event.get("stream", "").strip()
            if line:
                progress(line)
            if match := re.fullmatch(r"---> ([0-9a-f]{12})", line):
                steps.append(match[1])
    if failure:
        raise InfraError(f"docker could not build {recipe.name}: {failure}")


def _layers(
    client: docker.DockerClient, image: str, base: list[str], epoch: int, scratch: Path
) -> tuple[list[Layer], dict[str, Any]]:
    saved = scratch / "saved.tar"
    with saved.open("wb") as out:
        for chunk in client.images.get(image).save():
            out.write(chunk)
    layers = []
    with tarfile.open(saved) as tar:
        manifest = json.load(_read(tar, "manifest.json"))[0]
        config = json.load(_read(tar, manifest["Config"]))
        for index, (name, diff_id) in enumerate(zip(manifest["Layers"], config["rootfs"]["diff_ids"], strict=True)):
            raw = scratch / f"layer-{index}.raw"
            with raw.open("wb") as out, _read(tar, name) as content:
                while chunk := content.read(1 << 20):
                    out.write(chunk)
            if index < len(base) and diff_id == base[index]:
                layers.append(layer_of(raw))
                continue
            with tarfile.open(raw) as layer:
                layers.append(write_layer(entries_of(layer), scratch / f"layer-{index}.tar", epoch))
    kept = ("Env", "Cmd", "Entrypoint", "WorkingDir", "User", "Labels", "ExposedPorts", "Volumes")
    return layers, {key: config["config"][key] for key in kept if config["config"].get(key)}


def _read(tar: tarfile.TarFile, name: str) -> Any:
    member = tar.getmember(name)
    if member.issym() or member.islnk():  # docker save links a layer that stands twice
        name = str((Path("/", name).parent / member.linkname).resolve()).lstrip("/")
    stream = tar.extractfile(name)
    assert stream is not None
    return stream
