"""task.yaml: what a task directory says about its task, checked key by key."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from recurve_eval.errors import ConfigError, UnknownName

SCHEMA = 1
DIFFICULTIES = ("easy", "medium", "hard")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


@dataclass(frozen=True, slots=True)
class TaskSheet:
    """What task.yaml says. Keys with a default may be left out; no other key is known."""

    schema: int  # version of this format
    id: str  # unique in the set
    title: str  # one line, for people
    statement: str  # what the agent is told; it must specify everything that the held-out tests check
    capture: tuple[str, ...]  # workspace paths that are the submission
    module: str  # dotted name by which the held-out tests import the submission
    entry_point: str = ""  # the function or class that they call, where there is one
    max_file_bytes: int = 32 * 1024  # largest captured file, bytes
    timeout_s: float = 10.0  # wall-clock seconds for one run of the held-out tests
    difficulty: str = "medium"  # easy, medium or hard
    tags: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()  # the kinds of known_bad, each a directory there


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML's safe subset, refusing a key that is given twice."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str) or key in seen:
            problem = f"key {key!r} is given twice" if key in seen else f"key {key!r} is not text"
            raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
        seen.add(key)
    mapping: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return mapping


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_sheet(content: bytes, where: Path) -> TaskSheet:
    """A task.yaml, checked key by key. Raises ConfigError or UnknownName, naming file, line and key."""
    try:
        tree = yaml.load(content.decode("utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark else str(where)
        raise ConfigError(f"{place}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{where}: expected a mapping of keys, got {type(tree).__name__}")
    known, lines = [f.name for f in fields(TaskSheet)], lines_of(content)
    for key in tree:
        if key not in known:
            raise UnknownName("key", key, known, f"{where}:{lines[key]}")
    for key in ("schema", "id", "title", "statement", "capture", "module"):
        if key not in tree:
            raise ConfigError(f"{where}: key '{key}' is missing; known keys: {', '.join(known)}")
    if tree["schema"] != SCHEMA:
        raise ConfigError(
            f"{where}:{lines['schema']}: schema is {tree['schema']!r}, this version reads schema {SCHEMA}"
        )
    values = {key: _VALUES[key](key, value, f"{where}:{lines[key]}") for key, value in tree.items() if key != "schema"}
    return TaskSheet(schema=SCHEMA, **values)


def lines_of(content: bytes) -> dict[str, int]:
    """The line, from 1, of each key of a valid task.yaml."""
    root = yaml.compose(content.decode("utf-8"), Loader=_Loader)
    assert isinstance(root, yaml.MappingNode)
    return {key.value: key.start_mark.line + 1 for key, _ in root.value}


def _text(key: str, value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: '{key}' must be non-empty text; got {value!r}")
    return value


def _name(key: str, value: Any, where: str) -> str:
    text = _text(key, value, where)
    if not _NAME.fullmatch(text):
        raise ConfigError(f"{where}: '{key}' may hold letters, digits, '.', '_', '-' and '/'; got {text!r}")
    return text


def _dotted(key: str, value: Any, where: str) -> str:
    text = _text(key, value, where)
    if not all(word.isidentifier() for word in text.split(".")):
        raise ConfigError(f"{where}: '{key}' must be a Python name; got {text!r}")
    return text


def _choice(key: str, value: Any, where: str) -> str:
    if value not in DIFFICULTIES:
        raise UnknownName(key, str(value), DIFFICULTIES, where)
    return str(value)


def _names(key: str, value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: '{key}' must be a list; got {value!r}")
    names = tuple(_name(key, item, where) for item in value)
    if len(set(names)) < len(names):
        raise ConfigError(f"{where}: '{key}' names an item twice: {', '.join(names)}")
    return names


def _paths(key: str, value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{where}: '{key}' must be a non-empty list of paths; got {value!r}")
    for item in value:
        path = PurePosixPath(_text(key, item, where))
        if path.is_absolute() or ".." in path.parts or "\\" in item or str(path) != item or item == ".":
            raise ConfigError(f"{where}: '{key}' must stay inside the workspace, as plain relative paths; got {item!r}")
    if len(set(value)) < len(value):
        raise ConfigError(f"{where}: '{key}' names a path twice")
    return tuple(value)


def _positive(key: str, value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise ConfigError(f"{where}: '{key}' must be a positive number; got {value!r}")
    return value


def _positive_int(key: str, value: Any, where: str) -> int:
    if not isinstance(value, int):
        raise ConfigError(f"{where}: '{key}' must be a whole number; got {value!r}")
    return int(_positive(key, value, where))


_VALUES: dict[str, Any] = {
    "id": _name, "title": _text, "statement": _text, "capture": _paths, "module": _dotted, "entry_point": _dotted,
    "max_file_bytes": _positive_int, "timeout_s": _positive, "difficulty": _choice, "tags": _names, "faults": _names,
}  # fmt: skip
