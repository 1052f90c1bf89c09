"""A materialized workspace is a valid git repository with one reproducible commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from recurve_eval.domain import CaptureSpec, Task
from recurve_eval.errors import ConfigError
from recurve_eval.workspace import materialize, remove

PUBLIC = {
    "solution.py": b"def f():\n    pass\n", "a.txt": b"", "a/b/c.txt": b"\xff\0", "a-b": b"1", "run.sh": b"#!/bin/sh\n",
    "\u00fcn\u00ef/x": b"3", "copy": b"1", "a0": b"2",
}  # fmt: skip


def task(public: dict[str, bytes]) -> Task:
    return Task("t", "s", public, CaptureSpec(("solution.py",)))


def git(workspace: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(workspace), *words], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_git_agrees(tmp_path: Path) -> None:
    commit = materialize(task(PUBLIC), tmp_path / "w")
    assert git(tmp_path / "w", "fsck", "--full", "--strict") == ""
    assert git(tmp_path / "w", "status", "--porcelain") == ""
    assert git(tmp_path / "w", "diff", "HEAD") == ""
    assert git(tmp_path / "w", "log", "--format=%H %an %aI %D").split() == [
        commit, "recurve-eval", "2000-01-01T00:00:00+00:00", "HEAD", "->", "main",
    ]  # fmt: skip
    words = ("-c", "core.quotePath=false", "ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD")
    listed = git(tmp_path / "w", *words)
    assert sorted(listed.splitlines()) == sorted(f"{'100755' if p == 'run.sh' else '100644'} {p}" for p in PUBLIC)
    assert {p: (tmp_path / "w" / p).read_bytes() for p in PUBLIC} == PUBLIC
    assert git(tmp_path / "w", "log", "--all", "--oneline").count("\n") == 1


def test_the_tree_is_the_one_git_would_write(tmp_path: Path) -> None:
    materialize(task(PUBLIC), tmp_path / "w")
    ours = git(tmp_path / "w", "rev-parse", "HEAD^{tree}")
    (tmp_path / "w/.git/index").unlink()
    git(tmp_path / "w", "add", "--all")
    assert git(tmp_path / "w", "write-tree") == ours


def test_an_agent_can_go_on_working_in_it(tmp_path: Path) -> None:
    materialize(task(PUBLIC), tmp_path / "w")
    (tmp_path / "w/solution.py").write_text("changed")
    assert git(tmp_path / "w", "status", "--porcelain") == " M solution.py\n"
    git(tmp_path / "w", "commit", "-aqm", "mine")
    git(tmp_path / "w", "gc", "-q")
    assert git(tmp_path / "w", "fsck", "--strict") == ""


def test_same_public_part_same_commit_and_none_is_a_commit_too(tmp_path: Path) -> None:
    backwards = dict(reversed(PUBLIC.items()))
    assert materialize(task(PUBLIC), tmp_path / "a") == materialize(task(backwards), tmp_path / "b")
    materialize(task({}), tmp_path / "c")
    assert git(tmp_path / "c", "fsck", "--strict") == ""


@pytest.mark.parametrize("path", ["../x", "/x", ".git/hooks/post-commit", "a//b"])
def test_a_public_path_that_escapes_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="task t"):
        materialize(task({path: b""}), tmp_path / "w")
    with pytest.raises(ConfigError, match="file and a directory"):
        materialize(task({"a": b"", "a/b": b""}), tmp_path / "v")


def test_a_used_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(FileExistsError, match="empty"):
        materialize(task(PUBLIC), tmp_path)


def test_remove_takes_links_not_what_they_point_at(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    materialize(task(PUBLIC), tmp_path / "w")
    (tmp_path / "w/link").symlink_to(tmp_path / "kept")
    (tmp_path / "place").symlink_to(tmp_path / "kept")
    for place in ("w", "place", "never"):
        remove(tmp_path / place)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept"]
    assert (tmp_path / "kept/file").exists()
