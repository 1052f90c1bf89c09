"""The pinned commit: what was given and what would be submitted, with the claims, exported by ``git archive``.

The commit is made in a repository of our own from a copy of the files, so nothing in the workspace's own history,
attributes or configuration reaches whoever reads the snapshot.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recurve_eval.errors import InfraError
from recurve_eval.gates.copies import copy_of
from recurve_eval.gates.ledger import HOME, LEDGER, Claim
from recurve_eval.gates.places import Unjudgeable
from recurve_eval.ports import GateContext
from recurve_eval.workspace import NOBODYS_GIT, remove

_WHO = {"NAME": "recurve-eval", "EMAIL": "recurve-eval@localhost", "DATE": "2000-01-01T00:00:00Z"}
# Attributes that would let an author hide files from the export, or write a commit's message into them.
_PLAIN = "* -export-ignore -export-subst -text -ident -filter -working-tree-encoding -eol\n"


@contextmanager
def snapshot(context: GateContext, claims: Iterable[Claim], *, traps: bool) -> Iterator[tuple[Path, str]]:
    """A fresh directory holding the pinned commit, and the commit's id; removed afterwards.

    Without ``traps`` the ledger names none and none is there. Raises Unjudgeable, InfraError.
    """
    top = Path(tempfile.mkdtemp(prefix="recurve-snapshot-", dir=context.workspace.parent))
    top.chmod(0o700)
    try:
        with copy_of(context.workspace, context.task) as copy:
            if isinstance(copy, str):
                raise Unjudgeable(copy)
            stage = top / "stage"
            stage.mkdir()
            _stage(context, tuple(claims), copy, stage, traps)
        out = top / "workspace"
        commit = _export(stage, top / "pin.git", out)
        remove(stage)
        yield out, commit
    finally:
        remove(top)


def _stage(context: GateContext, claims: tuple[Claim, ...], copy: Path, stage: Path, traps: bool) -> None:
    """What was given, what would be submitted, and the claims: nothing else that lies about in the workspace."""
    for path in dict.fromkeys((*context.task.public, *context.task.capture.paths)):
        _take(copy, stage, path)
    if traps:
        for file in (copy / HOME).rglob("*"):
            if file.is_file() and not file.is_symlink() and file.name != "gate.pyz":
                _take(copy, stage, str(file.relative_to(copy)))
        return
    for claim in claims:
        if claim.probe_file is not None:
            _take(copy, stage, claim.probe_file)
    plain = [{"id": c.id, "proposition": c.proposition, "probe": list(c.probe)} for c in claims]
    (stage / HOME).mkdir(exist_ok=True)
    (stage / LEDGER).write_text(json.dumps({"schema": 1, "claims": plain}, indent=1) + "\n", encoding="utf-8")


def _take(copy: Path, stage: Path, path: str) -> None:
    source, target = copy / path, stage / path
    if source.is_file() and not source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        target.chmod(source.stat().st_mode & 0o777)


def _export(stage: Path, git: Path, out: Path) -> str:
    """Commit the staged files and unpack the archive of that commit; its id."""
    _git(git, stage, "init", "--quiet", "--bare", str(git))
    (git / "info").mkdir(exist_ok=True)
    (git / "info" / "attributes").write_text(_PLAIN)
    _git(git, stage, "add", "--all", "--force", ".")
    _git(git, stage, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", "pinned")
    commit = _git(git, stage, "rev-parse", "HEAD").decode().strip()
    out.mkdir()
    with tarfile.open(fileobj=io.BytesIO(_git(git, stage, "archive", "--format=tar", commit))) as archive:
        archive.extractall(out, filter="data")
    return commit


def _git(git: Path, stage: Path, *words: str) -> bytes:
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _WHO.items()}
    env = NOBODYS_GIT | {"PATH": os.environ.get("PATH", os.defpath), **who}
    bare = words[0] == "init"
    place = [] if bare else [f"--git-dir={git}", f"--work-tree={stage}"]
    try:
        done = subprocess.run(
            ["git", "-c", "core.autocrlf=false", "-c", "core.bare=false", *place, *words],
            cwd=stage, env=env, capture_output=True, check=False,
        )  # fmt: skip
    except OSError as error:
        raise InfraError(f"git cannot be started: {error.strerror}") from error
    if done.returncode:
        raise InfraError(f"git {words[0]} failed: {done.stderr.decode(errors='replace').strip()[:300]}")
    return done.stdout
