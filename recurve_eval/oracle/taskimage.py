"""Images of single tasks: built on a base that is here, from what a benchmark says of the task, when a person asks.

As with recipes, the result is named by its content: the layers that the steps added are brought to one
spelling, so that the same steps on the same base give the same id as far as they write the same files.
"""

from __future__ import annotations

import re
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import docker
from docker.errors import DockerException, ImageNotFound

from recurve_eval.domain import ImagePlan
from recurve_eval.errors import ConfigError, Drift, InfraError, Refused
from recurve_eval.oracle import build, dockerfile, recipe, tools, wheels
from recurve_eval.oracle.archive import image_id, write_layer
from recurve_eval.oracle.recipe import Recipe
from recurve_eval.oracle.tools import Progress

_SITE = "site.tar"


def build_task(plan: ImagePlan, *, work: Path, progress: Progress = print, repin: bool = False) -> str:
    """Build a task's image, compare it with its pin, and load it into Docker; its id.

    Parameters
    ----------
    work : Path
        Where the build may put its files, removed at the end in any case.
    repin : bool
        Accept an image that is not the pinned one, or has no pin.

    Raises
    ------
    Refused
        The base is not here, or the task has no pin yet.
    Drift
        The image is not the pinned one; it was not loaded.
    InfraError
        A step failed, or Docker did.
    """
    started = time.monotonic()
    if plan.pinned is None and not repin:
        raise Refused(f"task {plan.name} has no pinned image yet: build it once with --repin, and keep the pin")
    with build._client() as client, build._scratch(work) as scratch:
        made = _recipe(plan, _base(plan, client), scratch, progress)
        layers, config = dockerfile.build(made, client, scratch, progress)
        document = build._document(made, layers, config)
        identity = image_id(document)
        if identity != plan.pinned and not repin:
            raise Drift(
                f"task {plan.name}: its steps give {identity}, pinned is {plan.pinned}; the image was not loaded. "
                "If the change is meant: build with --repin, and calibrate again"
            )
        tag = f"recurve-eval/task-{_slug(plan.name)}:{identity.removeprefix('sha256:')[:12]}"
        build._load(client, document, layers, tag, scratch, progress)
    progress(f"{plan.name}: {identity}, {time.monotonic() - started:.0f} s")
    return identity


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _base(plan: ImagePlan, client: docker.DockerClient) -> str:
    """The id of the base image. Raises Refused where Docker does not hold it: nothing is pulled here."""
    name, remedy = plan.base, f"docker pull {plan.base} (or docker load), then build again"
    if name.startswith("recipe:"):
        pin = recipe.load(name.removeprefix("recipe:")).pin
        if pin is None:
            raise Refused(f"recipe {name} has no pin.json yet")
        name, remedy = pin.image_id, f"recurve-eval oracle build oracle={plan.base.removeprefix('recipe:')}"
    try:
        return str(client.images.get(name).id)
    except ImageNotFound:
        raise Refused(f"task {plan.name}: Docker does not hold its base image {plan.base}; {remedy}") from None
    except DockerException as error:
        raise InfraError(f"Docker failed while looking for {plan.base}: {error}") from error


def _recipe(plan: ImagePlan, base: str, scratch: Path, progress: Progress) -> Recipe:
    root = scratch / _slug(plan.name)
    context = root / "context"
    for path, file in plan.context.items():
        target = context / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            target.symlink_to(file.content.decode())
        else:
            target.write_bytes(file.content)
            target.chmod(file.mode)
    context.mkdir(parents=True, exist_ok=True)
    head = ""
    if plan.requirements:
        _site(plan, context / _SITE, scratch, progress)
        head = f"ADD {_SITE} /\n"
    (root / "Dockerfile").write_text(head + plan.dockerfile)
    return Recipe(builder="docker", base=base, network=plan.network, root=root)


def _site(plan: ImagePlan, out: Path, scratch: Path, progress: Progress) -> None:
    """The requirements' wheels, unpacked to where the base's interpreter looks for them."""
    if not plan.base.startswith("recipe:"):
        raise ConfigError(f"task {plan.name}: requirements need a base that is a recipe, not {plan.base}")
    base = recipe.load(plan.base.removeprefix("recipe:"))
    house, asked = scratch / "wheels", scratch / "requirements.txt"
    house.mkdir()
    asked.write_text("\n".join([*plan.requirements, ""]))
    argv = [*wheels._pip(), "download", "--no-deps", "--dest", str(house), *wheels._platform(base), "-r", str(asked)]
    code, output = tools.run(argv, progress)
    if code:
        raise InfraError(f"task {plan.name}: pip could not fetch its wheels:\n{wheels._tail(output)}")
    with ExitStack() as files:
        write_layer(wheels.installed(base, sorted(house.glob("*.whl")), files), out, base.epoch)
    shutil.rmtree(house)
