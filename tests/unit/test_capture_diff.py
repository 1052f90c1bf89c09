"""A diff capture: what differs from the public part, and nothing that git or the agent could slip in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from recurve_eval.capture import capture, changed_paths, check_paths
from recurve_eval.domain import AgentRun, CaptureKind, CaptureSpec, CaptureStatus, Departure, Task
from recurve_eval.workspace import materialize

RUN = AgentRun((), Departure("process", 0, "nothing ran"))
SPEC = CaptureSpec(kind=CaptureKind.DIFF, max_file_bytes=100, omit=("*.pyc", "tests/*", "*/tests/*"))
PUBLIC = {
    "pkg/a.py": b"a = 1\n",
    "pkg/b.py": b"b = 1\n",
    "pkg/tests/test_a.py": b"assert True\n",
    ".gitignore": b"build/\n*.log\n!kept.log\n",
    "pkg/.gitignore": b"local.py\n",
    "tracked.log": b"tracked although ignored\n",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    materialize(Task("t", "s", PUBLIC, SPEC), tmp_path / "w")
    return tmp_path / "w"


def taken(workspace: Path, spec: CaptureSpec = SPEC) -> dict[str, CaptureStatus]:
    return {f.path: f.status for f in capture(RUN, workspace, spec, PUBLIC).files}


def test_an_untouched_workspace_gives_an_empty_submission(workspace: Path) -> None:
    assert taken(workspace) == {}
    assert capture(RUN, workspace, SPEC, PUBLIC).empty


def test_changed_new_and_deleted_files_are_taken_with_their_content(workspace: Path) -> None:
    (workspace / "pkg/a.py").write_text("a = 2\n")
    (workspace / "pkg/b.py").unlink()
    (workspace / "new").mkdir()
    (workspace / "new/c.py").write_text("c = 1\n")
    submission = capture(RUN, workspace, SPEC, PUBLIC)
    assert submission.contents == {"new/c.py": b"c = 1\n", "pkg/a.py": b"a = 2\n"}
    assert taken(workspace)["pkg/b.py"] is CaptureStatus.MISSING


def test_same_size_other_bytes_is_a_change(workspace: Path) -> None:
    (workspace / "pkg/a.py").write_text("a = 9\n")
    assert taken(workspace) == {"pkg/a.py": CaptureStatus.OK}


def test_tests_and_bytecode_are_left_out(workspace: Path) -> None:
    (workspace / "pkg/tests/test_a.py").write_text("pass\n")
    (workspace / "pkg/tests/conftest.py").write_text("import evil\n")
    (workspace / "pkg/a.pyc").write_bytes(b"x")
    assert taken(workspace) == {}


def test_new_files_that_the_public_gitignore_names_are_left_out_and_tracked_ones_are_not(workspace: Path) -> None:
    (workspace / "build/deep").mkdir(parents=True)
    for path in ("build/deep/x", "out.log", "kept.log", "pkg/local.py", "local.py"):
        (workspace / path).write_text("x")
    (workspace / "tracked.log").write_text("changed")
    assert set(taken(workspace)) == {"kept.log", "local.py", "tracked.log"}


def test_an_agents_own_gitignore_hides_nothing(workspace: Path) -> None:
    (workspace / ".gitignore").write_text("*\n")
    (workspace / "pkg/new.py").write_text("x")
    assert set(taken(workspace)) == {".gitignore", "pkg/new.py"}


def test_a_hostile_git_directory_runs_nothing_and_committing_hides_nothing(workspace: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {tmp_path}/ran"], cwd=workspace, check=True)
    (workspace / "pkg/a.py").write_text("a = 3\n")
    subprocess.run(["git", "-c", "core.fsmonitor=", "commit", "-qam", "x"], cwd=workspace, check=True)
    (workspace / "sub/.git").mkdir(parents=True)
    (workspace / "sub/.git/config").write_text("x")
    assert taken(workspace) == {"pkg/a.py": CaptureStatus.OK}
    assert not (tmp_path / "ran").exists()


def test_links_pipes_and_large_files_are_named_and_never_read(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (workspace / "pkg/a.py").unlink()
    (workspace / "pkg/a.py").symlink_to(tmp_path / "secret")
    (workspace / "tree").symlink_to(tmp_path)
    os.mkfifo(workspace / "pipe")
    (workspace / "big").write_bytes(b"x" * 101)
    assert taken(workspace) == {
        "pkg/a.py": CaptureStatus.NOT_FILE, "tree": CaptureStatus.NOT_FILE, "pipe": CaptureStatus.NOT_FILE,
        "big": CaptureStatus.TOO_LARGE,
    }  # fmt: skip
    assert capture(RUN, workspace, SPEC, PUBLIC).contents == {}


def test_a_directory_turned_into_a_link_loses_its_files(workspace: Path, tmp_path: Path) -> None:
    (workspace / "pkg").rename(tmp_path / "elsewhere")
    (workspace / "pkg").symlink_to(tmp_path / "elsewhere")
    found = taken(workspace)
    assert found.pop("pkg") is CaptureStatus.NOT_FILE
    assert set(found) == {"pkg/a.py", "pkg/b.py", "pkg/.gitignore"}
    assert not any(status is CaptureStatus.OK for status in found.values())


def test_the_number_of_files_is_bounded(workspace: Path) -> None:
    for number in range(5):
        (workspace / f"n{number}").write_text("x")
    few = CaptureSpec(kind=CaptureKind.DIFF, max_files=3)
    assert list(taken(workspace, few).values()) == [CaptureStatus.OK] * 3 + [CaptureStatus.TOO_LARGE] * 2


def test_a_name_that_is_not_utf8_is_a_path_like_any_other(workspace: Path) -> None:
    (workspace / os.fsdecode(b"\xff.py")).write_text("x")
    submission = capture(RUN, workspace, SPEC, PUBLIC)
    assert [f.status for f in submission.files] == [CaptureStatus.OK] and len(submission.sha256) == 64


def test_a_workspace_that_is_gone_has_lost_every_file(tmp_path: Path) -> None:
    assert set(taken(tmp_path / "nothing").values()) <= {CaptureStatus.MISSING, CaptureStatus.UNREADABLE}
    assert changed_paths(tmp_path / "nothing", PUBLIC, SPEC) == sorted(set(PUBLIC) - {"pkg/tests/test_a.py"})


def test_a_diff_names_no_paths() -> None:
    assert check_paths(SPEC) is None
    assert "no paths" in (check_paths(CaptureSpec(("a",), kind=CaptureKind.DIFF)) or "")
    assert "positive" in (check_paths(CaptureSpec(kind=CaptureKind.DIFF, max_files=0)) or "")
