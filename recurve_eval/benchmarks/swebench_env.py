"""How the instances of repositories are built and tested: the settings file.

The settings file is YAML with the keys ``defaults``, ``repositories`` (by OWNER/NAME), ``versions`` (by
OWNER/NAME@VERSION) and ``instances`` (by id). Each holds the fields of :class:`Setting`; the later wins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from recurve_eval.errors import ConfigError, UnknownName

LEVELS = ("defaults", "repositories", "versions", "instances")
RUNNERS = ("pytest", "unittest")
TREES = ("image", "sent")


@dataclass(frozen=True, slots=True)
class Setting:
    """What one instance needs."""

    runner: str = "pytest"  # pytest, or unittest: anything that ends in unittest's text runner
    command: list[str] = field(default_factory=list)  # unittest: ["-m", "unittest"], or a script and its options
    strip: str = ""  # unittest: prefix that a test file loses before it becomes a dotted name
    root: str = "/testbed"  # where the repository stands in the container
    python: str = "python3"  # interpreter in the container
    env: dict[str, str] = field(default_factory=dict)  # environment of the tests
    tests: list[str] = field(default_factory=list)  # further globs of test files
    tree: str = "image"  # image: the image holds the repository; sent: it is sent with each grading
    base: str = "recipe:python-repo"  # what the image is built on: recipe:NAME, an image id or a local image's name
    requirements: list[str] = field(default_factory=list)  # name==version, unpacked into the base
    build_env: dict[str, str] = field(default_factory=dict)  # environment of the install steps
    install: list[str] = field(default_factory=list)  # shell lines, run in the repository without a network


@dataclass(frozen=True)
class Settings:
    """A settings file, read and checked."""

    levels: Mapping[str, Mapping[str, Mapping[str, Any]]]
    where: str

    def of(self, instance_id: str, repo: str, version: str) -> Setting:
        """Raises ConfigError where the result is not whole."""
        merged: dict[str, Any] = dict(self.levels["defaults"].get("", {}))
        names = _names(instance_id, repo, version)
        if not self.knows(instance_id, repo, version):
            raise ConfigError(
                f"{self.where} says nothing of {repo}: add it under repositories, or {instance_id} under instances"
            )
        for level, name in names.items():
            merged |= self.levels[level].get(name, {})
        setting = Setting(**merged)
        for name, choices in (("runner", RUNNERS), ("tree", TREES)):
            if getattr(setting, name) not in choices:
                raise UnknownName(name, str(getattr(setting, name)), choices, f"{self.where} ({instance_id})")
        return setting

    def knows(self, instance_id: str, repo: str, version: str) -> bool:
        return any(name in self.levels[level] for level, name in _names(instance_id, repo, version).items())


def _names(instance_id: str, repo: str, version: str) -> dict[str, str]:
    return {"repositories": repo, "versions": f"{repo}@{version}", "instances": instance_id}


def read_settings(path: Path) -> Settings:
    """Raises ConfigError or UnknownName naming the file and the key."""
    try:
        tree: Any = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected a mapping with {', '.join(LEVELS)}")
    for key in tree:
        if key not in LEVELS:
            raise UnknownName("key", str(key), LEVELS, str(path))
    levels = {level: dict(tree.get(level) or {}) for level in LEVELS}
    levels["defaults"] = {"": levels["defaults"]}
    for level, entries in levels.items():
        for name, entry in entries.items():
            _check(entry, f"{path}: {level}" + (f".{name}" if name else ""))
    return Settings(levels, str(path))


def _check(entry: object, where: str) -> None:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: expected a mapping of keys")
    known = {f.name: f for f in dataclasses.fields(Setting)}
    for key, value in entry.items():
        if key not in known:
            raise UnknownName("key", str(key), known, where)
        kind: Any = {"list[str]": list, "dict[str, str]": dict}.get(str(known[key].type), str)
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        if type(value) is not kind or not all(isinstance(item, str) for item in inner):
            raise ConfigError(f"{where}.{key} must be {known[key].type}; got {value!r}")
