"""The leak scanner finds held-out bytes wherever they stand, and nothing in a clean workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recurve_eval.domain import CaptureSpec, Task
from recurve_eval.leak import HeldOutScanner
from recurve_eval.workspace import materialize

SECRET = b"    assert candidate([3, 1, 2]) == [1, 2, 3], 'sorted'"
SHARED = b"from solution import candidate_function_name"
PUBLIC = {"solution.py": b"def candidate():\n    pass\n", "tests/visible.py": SHARED + b"\n"}
HELD_OUT = {"tests/hidden.py": SHARED + b"\n\ndef test():\n" + SECRET + b"\n", "tiny": b"k = 7\n", "void": b"\n"}
SCANNER = HeldOutScanner(HELD_OUT, PUBLIC)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    materialize(Task("t", "s", PUBLIC, CaptureSpec(("solution.py",))), tmp_path / "w")
    return tmp_path / "w"


def test_a_fresh_workspace_is_clean(workspace: Path) -> None:
    assert SCANNER.scan(workspace) == []


@pytest.mark.parametrize(
    "content",
    [
        SECRET,
        SECRET.strip(),
        b"x = 1 # " + SECRET.strip() + b" # y",
        HELD_OUT["tests/hidden.py"],
        b"k = 7",
        b"\n k = 7 \n",
    ],
)
def test_a_line_or_a_whole_file_is_found(workspace: Path, content: bytes) -> None:
    (workspace / "notes.bin").write_bytes(content)
    (found,) = SCANNER.scan(workspace)
    assert found.startswith("notes.bin: holds")
    assert "candidate" not in found, "a report must not leak in its turn"


@pytest.mark.parametrize("content", [SHARED, b"    assert candidate([3", b"j = 7", b"k = 77", b""])
def test_shared_and_short_text_is_no_leak(workspace: Path, content: bytes) -> None:
    (workspace / "notes.txt").write_bytes(content)
    assert SCANNER.scan(workspace) == []


def test_git_objects_names_and_links_are_searched(tmp_path: Path, workspace: Path) -> None:
    leaky = Task("t", "s", {"deep/x.py": SECRET}, CaptureSpec(("a",)))
    materialize(leaky, tmp_path / "leaky")
    (tmp_path / "leaky/deep/x.py").unlink()
    (found,) = SCANNER.scan(tmp_path / "leaky")
    assert found.startswith(".git/objects/") and "tests/hidden.py" in found
    (workspace / "tests/hidden.py").write_text("pass")
    (workspace / os.fsdecode(SECRET.strip().replace(b"/", b""))).mkdir()
    (workspace / "out").symlink_to("/etc/passwd")
    (workspace / ".git/objects/pack/pack-1.pack").write_bytes(b"PACK")
    reasons = "\n".join(SCANNER.scan(workspace))
    assert "named as the held-out file" in reasons
    assert "leads out of the workspace" in reasons
    assert "cannot be searched" in reasons
    assert reasons.count("holds a line") == 1


def test_a_fifo_is_not_opened(workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    assert SCANNER.scan(workspace) == []
