"""Capture reads named files, bounded, and never anything else."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recurve_eval.capture import capture, capture_file, check_paths, check_relative
from recurve_eval.domain import AgentRun, CaptureSpec, CaptureStatus, Departure
from recurve_eval.errors import ConfigError

RUN = AgentRun((), Departure("process", 0, "nothing ran"))


def status(workspace: Path, path: str = "solution.py", limit: int = 100) -> CaptureStatus:
    return capture_file(workspace, path, limit).status


def test_a_file_is_captured_byte_for_byte(tmp_path: Path) -> None:
    content = bytes(range(256))
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/a.bin").write_bytes(content)
    submission = capture(RUN, tmp_path, CaptureSpec(("pkg/a.bin", "b"), 256))
    assert [(f.path, f.status, f.content, f.size) for f in submission.files] == [
        ("pkg/a.bin", CaptureStatus.OK, content, 256),
        ("b", CaptureStatus.MISSING, None, None),
    ]


@pytest.mark.parametrize(("size", "expected"), [(100, CaptureStatus.OK), (101, CaptureStatus.TOO_LARGE)])
def test_the_bound_is_inclusive(tmp_path: Path, size: int, expected: CaptureStatus) -> None:
    (tmp_path / "solution.py").write_bytes(b"x" * size)
    found = capture_file(tmp_path, "solution.py", 100)
    assert (found.status, found.size) == (expected, size)


def test_a_sparse_terabyte_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "solution.py").open("wb") as file:
        file.truncate(1 << 40)
    found = capture_file(tmp_path, "solution.py", 100)
    assert (found.status, found.size, found.content) == (CaptureStatus.TOO_LARGE, 1 << 40, None)


def test_a_file_whose_size_lies_stays_bounded() -> None:
    found = capture_file(Path(f"/proc/{os.getpid()}"), "maps", 100)
    assert (found.status, found.content, found.size) == (CaptureStatus.TOO_LARGE, None, 101)


def test_links_are_not_followed_anywhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "solution.py").write_text("secret")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "solution.py").symlink_to(outside / "solution.py")
    (workspace / "dangling").symlink_to("nowhere")
    (workspace / "dir").symlink_to(outside)
    (workspace / "deep").mkdir()
    (workspace / "deep/dir").symlink_to(outside)
    (tmp_path / "moved").symlink_to(outside)
    for path in ("solution.py", "dangling", "dir/solution.py", "deep/dir/solution.py"):
        assert status(workspace, path) is CaptureStatus.NOT_FILE, path
    assert status(tmp_path / "moved") is CaptureStatus.NOT_FILE


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in ("fifo", "directory", "socket"):
            assert status(tmp_path, path) is CaptureStatus.NOT_FILE
    assert status(Path("/dev"), "zero") is CaptureStatus.NOT_FILE
    (tmp_path / "file").write_text("")
    assert status(tmp_path, "file/solution.py") is CaptureStatus.NOT_FILE


def test_unreadable_does_not_depend_on_who_captures(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("x")
    (tmp_path / "solution.py").chmod(0)
    assert status(tmp_path) is CaptureStatus.UNREADABLE


def test_a_deleted_workspace_is_all_missing(tmp_path: Path) -> None:
    submission = capture(RUN, tmp_path / "gone", CaptureSpec(("a", "b/c")))
    assert {f.status for f in submission.files} == {CaptureStatus.MISSING}
    assert submission.empty


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", ".", "a\0b", ".git/config"]
)
def test_paths_that_leave_the_workspace_are_refused_at_plan_time(path: str) -> None:
    assert check_paths(CaptureSpec((path,)))
    with pytest.raises(ConfigError, match="task t"):
        check_relative(path, "task t")


def test_plain_captures_are_admitted_and_odd_ones_explained() -> None:
    assert check_paths(CaptureSpec(("solution.py", "src/pkg/..hidden", ".gitignore"))) is None
    assert "twice" in (check_paths(CaptureSpec(("a", "a"))) or "")
    assert "no path" in (check_paths(CaptureSpec(())) or "")
    assert "positive" in (check_paths(CaptureSpec(("a",), 0)) or "")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_an_admitted_path_stays_inside(path: str) -> None:
    if check_paths(CaptureSpec((path,))) is None:
        joined = os.path.normpath(f"/workspace/{path}")
        assert joined.startswith("/workspace/") and joined != "/workspace/"
