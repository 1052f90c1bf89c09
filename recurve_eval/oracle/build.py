"""Oracle images: built from a recipe, compared with the recipe's pin, loaded into Docker.

Nothing here is ever called by a plan, a run or a grading: an image comes into being only when a person
asks for it. An image that is not the pinned one is not even loaded.
"""

from __future__ import annotations

import datetime
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound

from recurve_eval.errors import ConfigError, Drift, InfraError, Refused
from recurve_eval.oracle import bytecode, debian, dockerfile, npm, recipe, wheels
from recurve_eval.oracle.archive import Layer, image_config, image_id, write_archive, write_layer
from recurve_eval.oracle.recipe import IMAGES, Pin, Recipe
from recurve_eval.oracle.tools import Progress

LOAD_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A built image beside its pin. ``size`` is in bytes (all layers), ``wall_s`` in seconds."""

    recipe: str
    image_id: str
    pinned: str | None
    architecture: str
    python: str
    size: int
    wall_s: float

    @property
    def matches(self) -> bool:
        return self.image_id == self.pinned


def recipes(images: Path = IMAGES) -> list[Recipe]:
    """Every recipe, by name. Raises ConfigError on one that cannot be read."""
    return [recipe.load(name, images) for name in recipe.names(images)]


def build(
    name: str, *, work: Path, progress: Progress = print, repin: bool = False, images: Path = IMAGES
) -> BuildResult:
    """Build a recipe's image, compare it with its pin, and load it into Docker.

    Parameters
    ----------
    name : str
        The recipe.
    work : Path
        Where the build may put its files; about three times the image's size, removed at the end in any case.
    progress : callable
        Receives a line at a time.
    repin : bool
        Write the pin instead of comparing with it.

    Raises
    ------
    Drift
        The image is not the pinned one, or a locked package or wheel is no longer to be had.
    Refused
        A tool is missing, or the recipe has no pin yet.
    InfraError
        The mirror, the index or Docker failed.
    """
    started = time.monotonic()
    made = recipe.load(name, images)
    if made.pin is None and not repin:
        raise Refused(f"recipe {name} has no pin.json yet; build it once with repin, and commit the pin")
    with _client() as client, _scratch(work) as scratch:
        layers, config = _layers(made, client, scratch, progress)
        document = _document(made, layers, config)
        identity = image_id(document)
        pinned = made.pin.image_id if made.pin else None
        if identity != pinned and not repin:
            raise Drift(_drifted(made, identity))
        _load(client, document, layers, _tag(made, identity), scratch, progress)
        facts = _inside(client, identity)
        _check_python(made, facts)
    if repin:
        Pin(identity, made.architecture, facts["python"]).write(made.root)
        pinned = identity
    size = sum(layer.size for layer in layers)
    wall_s = time.monotonic() - started
    progress(f"{name}: {identity}, {size / 1e6:.0f} MB, Python {facts['python']}, {wall_s:.0f} s")
    return BuildResult(name, identity, pinned, made.architecture, facts["python"], size, wall_s)


def lock(name: str, *, work: Path, progress: Progress = print, images: Path = IMAGES) -> list[Path]:
    """Resolve a recipe's packages and wheels anew and write its lock files. The pin then no longer holds.

    Raises ConfigError for a recipe without locks (the ``docker`` builder's base is its lock).
    """
    made = recipe.load(name, images)
    if made.builder == "docker":
        raise ConfigError(f"recipe {name} has nothing to lock: its base is pinned by digest")
    with _scratch(work) as scratch:
        texts = {"packages.lock": debian.resolve(made, scratch, progress)}
        asked = made.lock_file("requirements.in")
        if asked.is_file():
            texts["requirements.lock"] = wheels.resolve(made, asked.read_text().splitlines(), scratch, progress)
        if made.assets:
            wanted = sorted({asset.requirement for asset in made.assets})
            texts["assets.lock"] = wheels.resolve(made, wanted, scratch, progress, deps=False)
        if made.npm:
            texts[npm.LOCK] = npm.resolve(made, scratch, progress)
    for file, text in texts.items():
        made.lock_file(file).write_text(text)
    return [made.lock_file(file) for file in texts]


def image_present(identity: str) -> bool:
    """Whether Docker holds the image with exactly this id. Raises InfraError where Docker does not answer."""
    with _client() as client:
        return _present(client, identity)


def _present(client: docker.DockerClient, identity: str) -> bool:
    try:
        return bool(client.images.get(identity).id == identity)
    except ImageNotFound:
        return False
    except DockerException as error:
        raise InfraError(f"Docker failed while looking for {identity}: {error}") from error


def _layers(
    made: Recipe, client: docker.DockerClient, scratch: Path, progress: Progress
) -> tuple[list[Layer], dict[str, Any]]:
    if made.builder == "docker":
        return dockerfile.build(made, client, scratch, progress)
    with ExitStack() as files:
        layers = [write_layer(debian.root_entries(made, scratch, progress, files), scratch / "0.tar", made.epoch)]
    for number, (lock_name, unpack) in enumerate((("requirements", wheels.installed), ("assets", wheels.assets)), 1):
        path = made.lock_file(f"{lock_name}.lock")
        if path.is_file():
            found = wheels.download(made, path, scratch / lock_name, progress)
            progress(f"unpacking {len(found)} wheels")
            with ExitStack() as files:
                layers.append(write_layer(unpack(made, found, files), scratch / f"{number}.tar", made.epoch))
    if made.npm:
        with ExitStack() as files:
            entries = list(npm.entries(made, scratch, progress, files))
            layers.append(write_layer(entries, scratch / "npm.tar", made.epoch))
    config = {"Cmd": ["python3"], "Env": [f"{k}={v}" for k, v in sorted(made.env.items())]}
    if made.bytecode:
        layers.append(_bytecode(made, client, layers, config, scratch, progress))
    return layers, config


def _bytecode(
    made: Recipe, client: docker.DockerClient, layers: list[Layer], config: dict[str, Any], scratch: Path,
    progress: Progress,
) -> Layer:  # fmt: skip
    progress("compiling modules")
    document = _document(made, layers, config)
    identity = image_id(document)
    was_here = _present(client, identity)
    try:
        _load(client, document, layers, None, scratch, progress)
        roots = [f"/usr/lib/python{made.python}", f"/{wheels.site_packages(made)}"]
        with ExitStack() as files:
            entries, said = bytecode.compiled(client, identity, roots, scratch, files)
            progress(said)
            return write_layer(entries, scratch / "bytecode-layer.tar", made.epoch)
    finally:
        # Another build of the same recipe may be using it, and then removes it itself.
        with suppress(APIError):
            if not was_here and _present(client, identity):
                client.images.remove(identity, force=True)


def _document(made: Recipe, layers: list[Layer], config: dict[str, Any]) -> bytes:
    created = datetime.datetime.fromtimestamp(made.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return image_config(layers, architecture=made.architecture, created=created, config=config)


def _tag(made: Recipe, identity: str) -> str:
    return f"recurve-eval/{made.name}:{identity.removeprefix('sha256:')[:12]}"


def _load(
    client: docker.DockerClient, document: bytes, layers: list[Layer], tag: str | None, scratch: Path,
    progress: Progress,
) -> None:  # fmt: skip
    identity = image_id(document)
    progress(f"loading {identity} into Docker")
    archive = write_archive(document, layers, [tag] if tag else [], scratch / "image.tar")
    try:
        with archive.open("rb") as stream:
            client.images.load(stream)
        loaded = client.images.get(identity).id
    except DockerException as error:
        raise InfraError(f"Docker did not take the image: {error}") from error
    finally:
        archive.unlink()
    if loaded != identity:
        raise InfraError(
            f"Docker names the image {loaded} instead of {identity}: its containerd image store counts "
            'manifests, not configs; turn it off ("features": {"containerd-snapshotter": false})'
        )


def _inside(client: docker.DockerClient, identity: str) -> dict[str, str]:
    """What the image's own interpreter says of itself."""
    script = "import json, platform; print(json.dumps({'python': platform.python_version()}))"
    container = client.containers.create(
        identity, ["python3", "-I", "-c", script], network_mode="none", labels={"recurve-eval": "image-build"}
    )
    try:
        container.start()
        code = container.wait()["StatusCode"]
        said = container.logs().decode(errors="replace")
    except DockerException as error:
        raise InfraError(f"a container of {identity} could not run: {error}") from error
    finally:
        container.remove(force=True)
    if code:
        raise InfraError(f"Python does not run in {identity}: {said[-1000:]}")
    facts: dict[str, str] = json.loads(said)
    return facts


def _check_python(made: Recipe, facts: dict[str, str]) -> None:
    if not facts["python"].startswith(f"{made.python}."):
        raise ConfigError(f"recipe {made.name} says Python {made.python}, the image has {facts['python']}")


def _drifted(made: Recipe, identity: str) -> str:
    pin = made.pin
    assert pin is not None
    return (
        f"recipe {made.name} gives {identity}, its pin says {pin.image_id} ({pin.architecture}, Python {pin.python}); "
        f"the image was not loaded. If the change is meant: re-lock ({recipe.lock_command(made)}), build with repin "
        "to write the new pin, and recalibrate: results graded by the other image do not compare"
    )


@contextmanager
def _client() -> Iterator[docker.DockerClient]:
    with ExitStack() as stack:
        try:
            client = docker.from_env(timeout=LOAD_TIMEOUT_S)
            stack.callback(client.close)
            client.ping()
        except DockerException as error:
            raise Refused(
                f"Docker does not answer ({error}). Install it (apt-get install -y docker.io), start it, or point "
                "DOCKER_HOST at it; scripts/dockerd starts a private one"
            ) from error
        yield client


@contextmanager
def _scratch(work: Path) -> Iterator[Path]:
    """A directory of this build's own, traversable by mmdebstrap's mapped users, gone at the end."""
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="image-", dir=work) as name:
        path = Path(name).resolve()
        path.chmod(0o755)
        yield path
