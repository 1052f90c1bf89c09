"""A Docker daemon that holds the python-min oracle image: the one at hand, else a private one for this session."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from recurve_eval.oracle import build, recipe
from recurve_eval.oracle.daemon import TROUBLE, connect

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPT = REPOSITORY / "scripts" / "dockerd"
IMAGE = "python-min"


def lack(reason: str) -> None:
    """Skip, unless the environment says that Docker must be here."""
    if os.environ.get("RECURVE_REQUIRE_DOCKER") == "1":
        pytest.fail(f"{reason} (RECURVE_REQUIRE_DOCKER=1)")
    pytest.skip(reason)


def answers() -> bool:
    try:
        client = connect("")
    except TROUBLE:
        return False
    client.close()
    return True


def start(place: Path) -> str:
    """Start a private daemon below ``place``; return its address."""
    if os.geteuid() != 0:
        lack("no Docker daemon answers, and a private one needs root")
    if shutil.which("dockerd") is None:
        lack("no Docker daemon answers, and dockerd is not installed")
    said = subprocess.run([SCRIPT, "start", place], capture_output=True, text=True, check=False)
    if said.returncode:
        lack(f"no Docker daemon can be started: {said.stderr[-300:]}")
    return said.stdout.strip().removeprefix("export DOCKER_HOST=")


@pytest.fixture(scope="session")
def python_min(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The id of the image; DOCKER_HOST leads to a daemon that holds it."""
    before, place = os.environ.get("DOCKER_HOST"), None
    if not answers():
        place = tmp_path_factory.mktemp("d")
        os.environ["DOCKER_HOST"] = start(place)
    try:
        pin = recipe.load(IMAGE).pin
        assert pin is not None
        if not build.image_present(pin.image_id):
            if shutil.which("mmdebstrap") is None:
                lack(f"the image {IMAGE} is absent, and mmdebstrap is not installed to build it")
            build.build(IMAGE, work=tmp_path_factory.mktemp("build"))
        yield pin.image_id
    finally:
        if place is not None:
            subprocess.run([SCRIPT, "remove", place], check=True)
            os.environ.pop("DOCKER_HOST", None)
            if before is not None:
                os.environ["DOCKER_HOST"] = before
