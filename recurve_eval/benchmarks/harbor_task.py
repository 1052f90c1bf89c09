"""Task directories of the Harbor format: what one holds, read whole and checked.

::

    <root>/<any name>/
      task.toml              settings; [verifier], [environment] and [solution] are read here
      instruction.md         what the agent is told
      environment/Dockerfile the container that the task is set in, and the files that it copies
      tests/test.sh          the verifier; it writes /logs/verifier/reward.txt or reward.json
      solution/solve.sh      a program that solves the task in its container
"""

from __future__ import annotations

import fnmatch
import io
import json
import posixpath
import re
import shlex
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from recurve_eval.benchmarks.common import below
from recurve_eval.errors import ConfigError

MAX_FILE_BYTES = 64 * 1024 * 1024
PARTS = ("environment", "tests", "solution")
_NEEDED = ("task.toml", "instruction.md", "tests/test.sh")


@dataclass(frozen=True, slots=True)
class Container:
    """What a Dockerfile says that matters here. ``steps`` is everything after its FROM."""

    base: str
    workdir: str
    steps: str
    copied: Mapping[str, str]  # absolute path in the image -> path below environment/


@dataclass(frozen=True)
class HarborTask:
    """One task. ``files`` maps paths below its directory to bytes."""

    where: Path
    sheet: Mapping[str, Any]
    files: Mapping[str, bytes]

    @property
    def id(self) -> str:
        return self.where.name

    @property
    def instruction(self) -> str:
        return self.files["instruction.md"].decode("utf-8", "replace")

    def part(self, name: str) -> dict[str, bytes]:
        """The files below one of the parts, by their path in it."""
        return below(self.files, name)

    def number(self, table: str, key: str, default: float) -> float:
        """A positive number of task.toml. Raises ConfigError."""
        value = self.table(table).get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise ConfigError(f"{self.where}/task.toml: {table}.{key} must be a positive number; got {value!r}")
        return float(value)

    def env(self, table: str) -> dict[str, str]:
        """The environment that a table of task.toml gives. Raises ConfigError where it wants the host's."""
        found = self.table(table).get("env") or {}
        for name, value in found.items():
            if not isinstance(value, str) or "${" in value:
                raise ConfigError(
                    f"{self.where}/task.toml: {table}.env.{name} is {value!r}; only plain text is given to a verifier, "
                    "never this machine's own environment"
                )
        return dict(found)

    def table(self, name: str) -> Mapping[str, Any]:
        found = self.sheet.get(name, {})
        if not isinstance(found, dict):
            raise ConfigError(f"{self.where}/task.toml: [{name}] must be a table; got {found!r}")
        return found

    @cached_property
    def container(self) -> Container:
        text = self.files.get("environment/Dockerfile")
        if text is None:
            raise ConfigError(f"{self.where} has no environment/Dockerfile")
        return read_dockerfile(text.decode("utf-8", "replace"), self.part("environment"), f"{self.where}/environment")

    @cached_property
    def workspace(self) -> dict[str, bytes]:
        """The files that the Dockerfile copies to below its working directory: what an agent begins with."""
        prefix, found = self.container.workdir.rstrip("/") + "/", {}
        for target, source in self.container.copied.items():
            if target.startswith(prefix):
                found[target[len(prefix) :]] = self.files[f"environment/{source}"]
        return found

    def program(self, path: str) -> list[str]:
        """The words that run a script of this task, by its first line; ``path`` is where it will stand."""
        name = f"{path.lstrip('/').partition('/')[0]}/{path.rpartition('/')[2]}"
        head = self.files[name].split(b"\n", 1)[0].decode("utf-8", "replace")
        words = shlex.split(head[2:]) if head.startswith("#!") else []
        if words and words[0].endswith("/env"):
            words = [word for word in words[1:] if word != "-S"]
        return [*(words or ["bash"]), path]


def read_tasks(root: Path) -> dict[str, HarborTask]:
    """Every task below ``root``, by its directory's name. Raises ConfigError naming what is wrong with one."""
    if not root.is_dir():
        raise ConfigError(f"{root} is not a directory of Harbor tasks")
    folders = [p for p in sorted(root.iterdir()) if p.is_dir() and not p.name.startswith((".", "__"))]
    tasks = {folder.name: read_task(folder) for folder in folders}
    if not tasks:
        raise ConfigError(f"{root} holds no task: expected one directory a task, each with a task.toml")
    return tasks


def read_task(folder: Path) -> HarborTask:
    files = dict(_read_files(folder))
    for name in _NEEDED:
        if name not in files:
            raise ConfigError(f"{folder} has no {name}")
    try:
        sheet = tomllib.loads(files["task.toml"].decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{folder}/task.toml is not valid TOML: {error}") from None
    task = HarborTask(folder, sheet, files)
    for name in ("environment/docker-compose.yaml", "environment/docker-compose.yml"):
        if name in files:
            raise ConfigError(f"{folder}: {name}: a task of several containers cannot be run here")
    if any(path.startswith("steps/") for path in files):
        raise ConfigError(f"{folder}: a task of several steps cannot be run here")
    if not task.instruction.strip():
        raise ConfigError(f"{folder}/instruction.md is empty")
    return task


def _read_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ConfigError(f"{path} is not a regular file: a task's content is its own bytes, so links are refused")
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        yield inside, path.read_bytes()


# -- Dockerfiles ----------------------------------------------------------------------------------


def read_dockerfile(text: str, context: Mapping[str, bytes], where: str) -> Container:
    """Raises ConfigError for what cannot be carried over: several stages, no working directory, a missing file."""
    base, workdir, steps = "", "", []
    copied: dict[str, str] = {}
    for word, rest, raw in _instructions(text):
        if word == "FROM":
            if base:
                raise ConfigError(f"{where}/Dockerfile has several stages; flatten it to one")
            base = next((part for part in rest.split() if not part.startswith("--")), "")
            continue
        if not base:
            raise ConfigError(f"{where}/Dockerfile: {word} before FROM cannot be carried over")
        steps.append(raw)
        if word == "WORKDIR":
            workdir = posixpath.normpath(posixpath.join(workdir or "/", rest.strip().strip("\"'")))
        elif word in ("COPY", "ADD"):
            copied |= _copies(word, rest, workdir or "/", context, where)
    if not base or workdir in ("", "/") or "$" in workdir:
        lack = "plain WORKDIR, which the agent's workspace stands for" if base else "FROM"
        raise ConfigError(f"{where}/Dockerfile sets no {lack}")
    return Container(base, workdir, "\n".join([*steps, ""]), copied)


def _instructions(text: str) -> Iterator[tuple[str, str, str]]:
    """Word, rest and source of each instruction; comments are dropped and continued lines taken together."""
    held: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        held.append(line.rstrip())
        if not held[-1].endswith("\\"):
            word, _, rest = " ".join(part.rstrip("\\").strip() for part in held).partition(" ")
            yield word.upper(), rest.strip(), "\n".join(held)
            held = []


def _copies(word: str, rest: str, workdir: str, context: Mapping[str, bytes], where: str) -> dict[str, str]:
    """Where each file of the context goes: absolute path -> path in the context. Raises ConfigError."""
    flags, words = _words_of(rest)
    if any(flag.startswith("--from") for flag in flags):
        return {}
    if any("$" in part for part in words):
        raise ConfigError(f"{where}/Dockerfile: {word} {rest}: a variable in it is not followed; write the path out")
    *listed, target = words
    sources = [name for source in listed for name in _matched(source, context, where)]
    into = posixpath.join(workdir, target)
    found: dict[str, str] = {}
    for name in sources:
        if name in context:
            if word == "ADD" and tarfile.is_tarfile(io.BytesIO(context[name])):
                raise ConfigError(f"{where}/Dockerfile: ADD unpacks {name}: unpack it there and COPY the directory")
            is_there = f"{workdir}/".startswith(posixpath.normpath(into).rstrip("/") + "/")
            whole = is_there or target.endswith("/") or len(sources) > 1
            found[posixpath.normpath(posixpath.join(into, posixpath.basename(name)) if whole else into)] = name
        else:
            for path in context:
                if path != "Dockerfile" and (name == "." or path.startswith(f"{name}/")):
                    rest_of = path if name == "." else path[len(name) + 1 :]
                    found[posixpath.normpath(posixpath.join(into, rest_of))] = path
    return found


def _words_of(rest: str) -> tuple[list[str], list[str]]:
    """The options of a COPY, and its sources and target, which may stand as a JSON list."""
    flags = re.match(r"(?:--\S+\s+)*", rest)
    head = flags[0] if flags else ""
    body = rest[len(head) :]
    try:
        words = json.loads(body) if body.startswith("[") else shlex.split(body)
    except ValueError:
        words = shlex.split(body)
    return head.split(), words


def _matched(source: str, context: Mapping[str, bytes], where: str) -> list[str]:
    """The files and directories of the context that a source names; none for an address. Raises ConfigError."""
    if re.match(r"https?://", source):
        return []
    name = posixpath.normpath(source.lstrip("/") or ".")
    parents = {"/".join(path.split("/")[:n]) for path in context for n in range(1, path.count("/") + 1)}
    known = sorted({".", *context, *parents})
    found = [name] if name in known else [k for k in known if _matches(k, name)]
    if not found:
        raise ConfigError(f"{where}/Dockerfile copies {source}, which is not there")
    return found


def _matches(path: str, pattern: str) -> bool:
    """Whether a path is what a pattern names; a star does not reach over a slash."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))
