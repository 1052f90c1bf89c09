"""The claims ledger of a workspace, ``.recurve/claims.yaml``, read strictly.

::

    schema: 1
    claims:
      - id: sorts-ascending                    # letters, digits, '.', '_' and '-'
        proposition: sort_numbers returns its input in ascending order
        probe: .recurve/probes/sorts.py        # exit 0 GREEN, 1 RED, anything else BROKEN
        timeout_s: 10                          # optional
        traps:                                 # known-bad work that the probe must turn RED
          - .recurve/traps/descending          # a directory that is judged instead of the work
          - .recurve/traps/unstable.patch      # or a patch of the work (in a cell: as it was given)
        reference:                             # optional
          path: .recurve/reference
          kind: mechanical                     # or model, where a model wrote it

A probe is a file below ``.recurve/`` (``.py`` files are run by the interpreter, others executed) or a list of words.
A tier is derived from what ran, so there is no key for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from recurve_eval.capture import capture_file
from recurve_eval.domain import CaptureStatus
from recurve_eval.errors import ConfigError

HOME = ".recurve"
LEDGER = f"{HOME}/claims.yaml"
FIXTURES = f"{HOME}/.fixtures"  # of a private copy: where the gate lays down what is judged instead of the work
MAX_BYTES = 256 * 1024
MAX_CLAIMS = 200
_MAX_DEPTH, _MAX_EVENTS = 20, 100 * MAX_CLAIMS
MAX_TIMEOUT_S = 600.0
KINDS = ("mechanical", "model")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class LedgerError(ConfigError):
    """The ledger cannot be read; the message opens with ``FILE:LINE:``."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Another implementation that a claim's probe must accept too. ``kind`` is ``mechanical`` or ``model``."""

    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One falsifiable proposition, its probe (command words) and its traps (paths in the workspace)."""

    id: str
    proposition: str
    probe: tuple[str, ...]
    traps: tuple[str, ...] = ()
    reference: Reference | None = None
    timeout_s: float | None = None
    line: int = 0

    @property
    def probe_file(self) -> str | None:
        """The file of the probe, where it is one below ``.recurve/``."""
        return next((w for w in self.probe if w.startswith(f"{HOME}/")), None)


def read_ledger(workspace: Path) -> tuple[Claim, ...]:
    """The claims of a workspace. Raises LedgerError; links are not followed."""
    found = capture_file(workspace, LEDGER, MAX_BYTES)
    if found.status is CaptureStatus.MISSING:
        raise LedgerError(f"{LEDGER}: there is no such file: write one")
    if found.status is CaptureStatus.TOO_LARGE:
        raise LedgerError(f"{LEDGER}: is longer than {MAX_BYTES} bytes")
    if found.content is None:
        raise LedgerError(
            f"{LEDGER}: is no readable file of its own (a link, a pipe, a directory, or without permission)"
        )
    try:
        return parse(found.content.decode())
    except UnicodeDecodeError as error:
        raise LedgerError(f"{LEDGER}:{found.content.count(10, 0, error.start) + 1}: is not UTF-8") from None


def parse(text: str, where: str = LEDGER) -> tuple[Claim, ...]:
    """The claims of a ledger's text. Raises LedgerError naming the file, the line and what is wrong with it."""
    return _Reader(where).claims(text)


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def fail(self, node: Any, message: str) -> NoReturn:
        mark = getattr(node, "start_mark", None)
        raise LedgerError(f"{self.where}:{mark.line + 1 if mark else 1}: {message}")

    def claims(self, text: str) -> tuple[Claim, ...]:
        root = self.compose(text)
        top = self.mapping(root, "the ledger", ("schema", "claims"), ("schema", "claims"))
        if self.scalar(top["schema"], "schema", "int") != "1":
            self.fail(top["schema"], f"schema must be 1; got {top['schema'].value}")
        items = self.sequence(top["claims"], "claims")
        if not items:
            self.fail(top["claims"], "claims is empty: state at least one")
        if len(items) > MAX_CLAIMS:
            self.fail(top["claims"], f"more than {MAX_CLAIMS} claims")
        found: dict[str, Claim] = {}
        for item in items:
            claim = self.claim(item)
            if claim.id in found:
                self.fail(item, f"claim '{claim.id}' stands twice (first on line {found[claim.id].line})")
            found[claim.id] = claim
        return tuple(found.values())

    def compose(self, text: str) -> Any:
        import yaml

        try:
            depth = 0
            for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
                if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                    self.fail(event, "anchors and aliases are not allowed: write each value out")
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                # Both bound the time of reading, which grows with the square of the depth.
                if depth > _MAX_DEPTH:
                    self.fail(event, "nested too deeply")
                if count > _MAX_EVENTS:
                    self.fail(event, "holds too many values")
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            raise LedgerError(f"{self.where}:{line}: not YAML: {error.problem or error.context}") from None
        except yaml.YAMLError as error:
            raise LedgerError(f"{self.where}:1: not YAML: {' '.join(str(error).split())[:200]}") from None
        except RecursionError:
            raise LedgerError(f"{self.where}:1: nested too deeply") from None
        if root is None:
            raise LedgerError(f"{self.where}:1: is empty: it needs schema and claims")
        return root

    def claim(self, node: Any) -> Claim:
        known = ("id", "proposition", "probe", "traps", "reference", "timeout_s")
        fields = self.mapping(node, "a claim", known, ("id", "proposition", "probe"))
        name = self.text(fields["id"], "id")
        if not _ID.fullmatch(name):
            self.fail(fields["id"], f"id {name!r}: letters, digits, '.', '_' and '-', at most 80")
        traps = [self.inside(t, "a trap") for t in self.sequence(fields["traps"], "traps")] if "traps" in fields else []
        if len(set(traps)) != len(traps):
            self.fail(fields["traps"], f"claim '{name}' names a trap twice")
        return Claim(
            id=name,
            proposition=self.text(fields["proposition"], "proposition"),
            probe=self.probe(fields["probe"]),
            traps=tuple(traps),
            reference=self.reference(fields["reference"]) if "reference" in fields else None,
            timeout_s=self.seconds(fields["timeout_s"]) if "timeout_s" in fields else None,
            line=node.start_mark.line + 1,
        )

    def probe(self, node: Any) -> tuple[str, ...]:
        if getattr(node, "id", "") == "sequence":
            words = tuple(self.text(word, "a word of probe") for word in self.sequence(node, "probe"))
            if not words:
                self.fail(node, "probe is an empty list of words")
            return words
        path = self.inside(node, "probe")
        return ("{python}", path) if path.endswith(".py") else (path,)

    def reference(self, node: Any) -> Reference:
        fields = self.mapping(node, "reference", ("path", "kind"), ("path", "kind"))
        kind = self.text(fields["kind"], "reference.kind")
        if kind not in KINDS:
            self.fail(fields["kind"], f"reference.kind is {' or '.join(KINDS)}; got {kind!r}")
        return Reference(self.inside(fields["path"], "reference.path"), kind)

    def inside(self, node: Any, what: str) -> str:
        """A plain path below ``.recurve/``."""
        path = self.text(node, what)
        parts = PurePosixPath(path).parts
        if "/".join(parts) != path or ".." in parts or parts[0] != HOME or len(parts) < 2 or "\0" in path:
            self.fail(node, f"{what} must be a path below {HOME}/; got {path!r}")
        return path

    def seconds(self, node: Any) -> float:
        text = self.scalar(node, "timeout_s", "int", "float")
        value = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else math.nan
        if not 0 < value <= MAX_TIMEOUT_S:
            self.fail(node, f"timeout_s is a number of seconds up to {MAX_TIMEOUT_S:g}; got {text}")
        return value

    def text(self, node: Any, what: str) -> str:
        value = self.scalar(node, what, "str")
        if not value.strip():
            self.fail(node, f"{what} is empty")
        return value

    def scalar(self, node: Any, what: str, *kinds: str) -> str:
        tag = node.tag.rpartition(":")[2]
        if node.id != "scalar" or tag not in kinds:
            wanted = "text" if kinds == ("str",) else "a number"
            got = f"the {tag} {node.value}" if node.id == "scalar" else f"a {node.id}"
            self.fail(node, f"{what} must be {wanted}; got {got}{' (quote it)' if node.id == 'scalar' else ''}")
        return str(node.value)

    def sequence(self, node: Any, what: str) -> list[Any]:
        if node.id != "sequence":
            self.fail(node, f"{what} must be a list; got a {node.id}")
        return list(node.value)

    def mapping(self, node: Any, what: str, known: tuple[str, ...], needed: tuple[str, ...]) -> dict[str, Any]:
        if node.id != "mapping":
            self.fail(node, f"{what} must be a mapping; got a {node.id}")
        fields: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value) if key.id == "scalar" else f"a {key.id}"
            if name == "tier":
                self.fail(key, "a tier is derived from what ran and is never written by hand: remove 'tier'")
            if name not in known:
                self.fail(key, f"unknown key '{name}' in {what}. Known: {', '.join(known)}")
            if name in fields:
                self.fail(key, f"key '{name}' stands twice in {what}")
            fields[name] = value
        for name in needed:
            if name not in fields:
                self.fail(node, f"{what} lacks '{name}'")
        return fields


def missing_parts(workspace: Path, claims: tuple[Claim, ...]) -> Iterator[str]:
    """What the ledger names and the workspace does not hold as it should; one line each."""
    for claim in claims:
        where = f"{LEDGER}:{claim.line}: claim '{claim.id}'"
        path = claim.probe_file
        if path is not None:
            problem = _wrong_file(workspace, path)
            if problem:
                yield f"{where}: probe {path} {problem}"
        for trap in claim.traps:
            problem = _wrong_trap(workspace, trap)
            if problem:
                yield f"{where}: trap {trap} {problem}"
        if claim.reference is not None:
            problem = _wrong_trap(workspace, claim.reference.path)
            if problem:
                yield f"{where}: reference {claim.reference.path} {problem}"


def _wrong_file(workspace: Path, path: str) -> str:
    if _has_link(workspace, path):
        return "is reached through a link"
    file = workspace / path
    if not file.is_file():
        return "does not exist" if not file.exists() else "is not a file"
    if not file.read_bytes().strip():
        return "is empty"
    if not path.endswith(".py") and not file.stat().st_mode & 0o111:
        return "is not executable"
    return ""


def _wrong_trap(workspace: Path, path: str) -> str:
    if _has_link(workspace, path):
        return "is reached through a link"
    place = workspace / path
    if path.endswith(".patch"):
        return _wrong_file(workspace, path).replace("is not executable", "")
    if not place.is_dir():
        return "does not exist" if not place.exists() else "is neither a directory nor a .patch"
    if not any(p.is_file() for p in place.rglob("*")):
        return "is empty"
    return ""


def _has_link(workspace: Path, path: str) -> bool:
    parts = PurePosixPath(path).parts
    return any((workspace.joinpath(*parts[: n + 1])).is_symlink() for n in range(len(parts)))
