"""Image recipes: what an oracle image is made of, read from ``oracle/images/NAME/``.

==================  ==========================================================================
recipe.yaml         the recipe itself, one of the dataclasses below (unknown keys are refused)
packages.lock       ``debian``: every Debian package, ``name=version sha256:HEX`` a line
requirements.in     ``debian``, optional: the Python packages asked for
requirements.lock   the wheels they resolve to, ``name==version --hash=sha256:HEX`` a line
assets.lock         the wheels that data files are copied from, in the same form
npm.lock            the npm packages, ``node_modules/NAME NAME==VERSION sha512-BASE64`` a line
pin.json            the image that the recipe gives: image id, architecture, Python version
==================  ==========================================================================
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.resources import oracle_dir

IMAGES = oracle_dir() / "images"
BUILDERS = ("debian", "docker")
_EPOCH = 1_700_000_000  # 2023-11-14; any fixed time would do
_DIGEST = re.compile(r"(?:[a-z0-9][\w./:-]*@)?sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Asset:
    """Data files copied out of a wheel that is not itself installed."""

    requirement: str  # name==version
    source: str  # directory inside the wheel
    destination: str  # directory inside the image, relative to /


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image recipe; all fields but ``root`` are the keys of recipe.yaml."""

    builder: str  # debian: from packages and wheels, bit for bit; docker: from a base pinned by digest
    architecture: str = "amd64"  # Debian's name
    python: str = "3.11"  # major.minor of the image's interpreter
    epoch: int = _EPOCH  # seconds; every time stamp in the image
    env: dict[str, str] = field(default_factory=dict)
    suite: str = "bookworm"  # debian: release name
    packages: list[str] = field(default_factory=list)  # debian: what is asked for; the lock adds what they need
    links: dict[str, str] = field(default_factory=dict)  # debian: symlinks, path -> target
    drop: list[str] = field(default_factory=list)  # debian: globs of paths left out, * matching / too
    assets: list[Asset] = field(default_factory=list)
    npm: list[str] = field(default_factory=list)  # debian: npm packages, name@version; the lock adds what they need
    omit: list[str] = field(default_factory=list)  # debian: Python packages that others ask for and nothing here uses
    bytecode: bool = False  # debian: compile every module once, checked by nothing at run time
    base: str = ""  # docker: NAME@sha256:... or the id of a local image
    network: bool = False  # docker: whether the Dockerfile's RUN steps may reach a network
    root: Path = field(default=Path(), metadata={"key": False})  # the recipe's directory, whose name is its name

    @property
    def name(self) -> str:
        return self.root.name

    def drops(self, path: str) -> bool:
        """Whether the recipe leaves this path, relative to /, out of the image."""
        return any(fnmatch.fnmatchcase(path, glob) for glob in self.drop)

    def lock_file(self, name: str) -> Path:
        return self.root / name

    @property
    def pin(self) -> Pin | None:
        path = self.root / "pin.json"
        return Pin(**json.loads(path.read_text())) if path.is_file() else None


@dataclass(frozen=True, slots=True)
class Pin:
    """The image that a recipe gives, as committed beside it."""

    image_id: str
    architecture: str
    python: str  # full version

    def write(self, root: Path) -> None:
        (root / "pin.json").write_text(json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n")


def names(images: Path = IMAGES) -> list[str]:
    """The names of all recipes, sorted."""
    return sorted(path.parent.name for path in images.glob("*/recipe.yaml"))


def load(name: str, images: Path = IMAGES) -> Recipe:
    """Read and check one recipe. Raises UnknownName or ConfigError."""
    if name not in names(images):
        raise UnknownName("image recipe", name, names(images))
    root = images / name
    return parse(yaml.safe_load((root / "recipe.yaml").read_text()), root)


def parse(document: Any, root: Path) -> Recipe:
    """A recipe from its parsed YAML. Raises ConfigError naming the file and the key."""
    where = f"{root.name}/recipe.yaml"
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: expected a mapping of keys")
    known = {f.name for f in dataclasses.fields(Recipe) if f.metadata.get("key", True)}
    for key in document:
        if key not in known:
            raise UnknownName("key", str(key), known, where)
    if document.get("builder") not in BUILDERS:
        raise UnknownName("builder", str(document.get("builder")), BUILDERS, where)
    assets = [Asset(**asset) for asset in document.get("assets", [])]
    recipe = Recipe(**{**document, "assets": assets, "root": root})
    if recipe.builder == "docker" and not _DIGEST.fullmatch(recipe.base):
        raise ConfigError(
            f"{where}: base '{recipe.base}' is a mutable tag; name it by digest (NAME@sha256:...), "
            "as shown by: docker image inspect --format '{{index .RepoDigests 0}}' NAME"
        )
    if recipe.builder == "debian" and not recipe.packages:
        raise ConfigError(f"{where}: the debian builder needs a list of packages")
    return recipe


def locked_packages(recipe: Recipe) -> dict[tuple[str, str], str]:
    """(name, version) -> SHA-256 of each pinned Debian package. Raises ConfigError where there is no lock."""
    lines = _lines(recipe, "packages.lock")
    found = {}
    for line in lines:
        match = re.fullmatch(r"(\S+)=(\S+) sha256:([0-9a-f]{64})", line)
        if not match:
            raise ConfigError(f"{recipe.name}/packages.lock: cannot read '{line}'; re-lock: {lock_command(recipe)}")
        found[match[1], match[2]] = match[3]
    return found


def lock_command(recipe: Recipe) -> str:
    return f"recurve-eval oracle lock oracle={recipe.name}"


def _lines(recipe: Recipe, name: str) -> list[str]:
    path = recipe.lock_file(name)
    if not path.is_file():
        raise ConfigError(f"recipe {recipe.name} has no {name}; make it with: {lock_command(recipe)}")
    return [line for raw in path.read_text().splitlines() if (line := raw.strip()) and not line.startswith("#")]
