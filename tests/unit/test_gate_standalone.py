"""``python -m recurve_eval.gates``: a verdict as an exit code, without the harness around it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recurve_eval.gates.places import local_place
from tests.gating import BAD, CLAIMS, GOOD, LEDGER, PROBE, STUB, write
from tests.repositories import commit, git

DOUBLES = ".recurve/probes/doubles.py"


def gate(*words: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "recurve_eval.gates", *map(str, words)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write(tmp_path, {**CLAIMS, "solution.py": GOOD})
    return tmp_path


def test_the_verdict_is_the_exit_code(work: Path) -> None:
    code, said = gate("check", work, "--ledger")
    assert (code, said.splitlines()[-1]) == (0, "GREEN")
    assert said.startswith("trap_hardened  doubles")
    write(work, {"solution.py": BAD})
    assert gate("check", work) == (1, "RED: claim 'doubles': double(3) is not 6\nRED: double(3) is not 6\n")
    assert gate("admit", work)[0] == 0
    write(work, {DOUBLES: "raise SystemExit(7)\n"})
    assert gate("check", work)[0] == 2
    assert gate("check", work / "nowhere")[0] == 64
    assert gate("judge", work)[0] == 64


def test_nothing_is_left_and_nothing_is_touched(work: Path) -> None:
    write(work, {DOUBLES: "open('litter', 'w').close()\n" + PROBE})
    before = sorted(p for p in work.rglob("*"))
    code, said = gate("check", work)
    assert code == 2
    assert "writes to the work (litter)" in said
    assert sorted(p for p in work.rglob("*")) == before


def test_a_flood_of_output_and_a_probe_that_leaves_a_process_do_not_hold_the_gate(work: Path) -> None:
    flood = (
        "import sys, subprocess\nsubprocess.Popen(['sleep', '300'])\nsys.stdout.write('x' * 30_000_000)\nsys.exit(1)\n"
    )
    write(work, {DOUBLES: flood})
    code, said = gate("check", work)
    assert code == 1
    assert len(said) < 10_000


def test_a_claim_without_a_trap_is_broken_unless_traps_are_left_out(work: Path) -> None:
    write(work, {".recurve/claims.yaml": LEDGER.replace("    traps: [.recurve/traps/identity]\n", "")})
    assert "has no trap" in gate("check", work)[1]
    assert gate("check", work, "--no-traps")[0] == 0


def test_in_a_repository_what_git_ignores_is_no_part_of_the_work(work: Path) -> None:
    write(work, {".gitignore": "big/\n", "big/file": b"x" * 1000, "solution.py": STUB})
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    write(work, {DOUBLES: "import os, sys\nsys.exit(0 if os.path.exists('big') else 1)\n"})
    assert gate("check", work)[0] == 1


def test_it_needs_neither_the_tracker_nor_the_composer() -> None:
    names = "'mlflow', 'hydra', 'omegaconf', 'numpy', 'pandas', 'docker'"
    code = f"import sys, recurve_eval.gates.__main__\nsys.exit(any(n in sys.modules for n in ({names},)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ)).returncode == 0


@pytest.mark.parametrize(
    ("config", "attributes"),
    [
        ("[core]\n\tautocrlf = true\n", ""),
        ("[core]\n\tattributesFile = ~/mine\n", "*.py export-ignore\n"),
        ("", "*.txt export-subst\n"),
    ],
)
def test_the_work_as_given_is_what_was_committed_whatever_the_users_git_would_do(
    config: str, attributes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, repository, out = tmp_path / "home", tmp_path / "repository", tmp_path / "out"
    files = {"solution.py": STUB.decode(), "notes.txt": "$Format:%H$\n"}
    write(home, {".gitconfig": config, "mine": attributes, ".config/git/attributes": attributes})
    repository.mkdir()
    out.mkdir()
    git(repository, "init", "-q")
    commit(repository, "The task as given", files)
    commit(repository, "The work", {"solution.py": GOOD.decode()})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    with local_place(repository, in_cell=True) as place:
        place.base(out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {k: v.encode() for k, v in files.items()}
