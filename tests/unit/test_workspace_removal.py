"""No agent can leave a workspace that the harness cannot remove, or turn that into an excuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recurve_eval.domain import CaptureSpec, GateVerdict, Task
from recurve_eval.gates.ci import CommandCheck
from recurve_eval.ports import GateContext
from recurve_eval.workspace import remove


def nest(root: Path, depth: int) -> None:
    """Directories far deeper than Python recurses and than a path may be long."""
    root.mkdir(exist_ok=True)
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a" * 20, dir_fd=here)
        inner = os.open("a" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_a_deeply_nested_workspace_is_removed(tmp_path: Path) -> None:
    nest(tmp_path / "w", 1500)
    remove(tmp_path / "w")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("kind", ["closed", "link", "file", "missing"])
def test_other_workspaces_are_removed_too(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "w"
    if kind == "closed":
        (place / "inner").mkdir(parents=True)
        (place / "inner" / "file").write_text("x")
        (place / "inner").chmod(0)
        place.chmod(0)
    elif kind == "link":
        (tmp_path / "kept").mkdir()
        place.symlink_to(tmp_path / "kept")
    elif kind == "file":
        place.write_text("x")
    remove(place)
    assert not os.path.lexists(place)
    assert kind != "link" or (tmp_path / "kept").is_dir()


def verdict(workspace: Path) -> tuple[GateVerdict, str]:
    def refuse(*_: object) -> None:
        raise AssertionError("no command may run on a workspace that was refused")

    task = Task("t", "s", {}, CaptureSpec(("solution.py",)), visible_check=("true",))
    evidence = workspace.parent / "evidence"
    evidence.mkdir(exist_ok=True)
    finding = CommandCheck().check(GateContext(task, workspace, None, evidence, refuse))  # type: ignore[arg-type]
    return finding.verdict, finding.message


def test_a_workspace_beyond_the_bounds_is_rejected_work(tmp_path: Path) -> None:
    nest(tmp_path / "deep", 1500)
    assert verdict(tmp_path / "deep") == (GateVerdict.RED, "RED: the workspace is nested deeper than 64 directories")
    remove(tmp_path / "deep")

    wide = tmp_path / "wide"
    wide.mkdir()
    for number in range(20_001):
        (wide / str(number)).touch()
    assert verdict(wide) == (GateVerdict.RED, "RED: the workspace holds more than 20000 files")

    large = tmp_path / "large"
    large.mkdir()
    with (large / "file").open("wb") as file:
        file.truncate(65 * 2**20)
    assert verdict(large) == (GateVerdict.RED, "RED: the workspace is larger than 64 MiB")
    assert verdict(tmp_path / "gone") == (GateVerdict.RED, "RED: the workspace is gone")
