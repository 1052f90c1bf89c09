"""Facts about code, dependencies and machine are true, cheap, and None where unknown."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from ledger_samples import python

from recurve_eval import provenance
from recurve_eval.errors import ConfigError


def git(directory: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *args], cwd=directory, check=True, capture_output=True, text=True).stdout


def fresh_facts(directory: Path) -> provenance.GitFacts:
    provenance.git_facts.cache_clear()
    return provenance.git_facts(str(directory))


def test_git_facts_follow_the_tree(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert fresh_facts(tmp_path).commit is None
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-qm", "first")
    (tmp_path / "sub").mkdir()
    clean = fresh_facts(tmp_path / "sub")
    assert clean == provenance.GitFacts(git(tmp_path, "rev-parse", "HEAD").strip(), None)
    seen = {None}
    for change in ("x = 2\n", "x = 3\n"):
        (tmp_path / "a.py").write_text(change)
        seen.add(fresh_facts(tmp_path).dirty)
    (tmp_path / "a.py").write_text("x = 1\n")
    for content in (b"new", b"\xff\0"):
        (tmp_path / "nü w.bin").write_bytes(content)
        seen.add(fresh_facts(tmp_path).dirty)
    assert len(seen) == 5
    (tmp_path / "nü w.bin").unlink()
    assert fresh_facts(tmp_path) == clean


def test_no_repository_is_unknown(tmp_path: Path) -> None:
    facts = fresh_facts(tmp_path)
    assert (facts.commit, facts.dirty) == (None, None) and "not a git repository" in facts.note


def test_no_git_is_unknown(tmp_path: Path) -> None:
    script = "from recurve_eval import provenance as p; f = p.git_facts(); print(f.commit, f.dirty, bool(f.note))"
    process = python(f"import os; os.environ['PATH'] = '{tmp_path}'\n{script}")
    out, err = process.communicate()
    assert out == "None None True\n", err


def test_dependencies_are_listed_and_hashed() -> None:
    frozen = provenance.freeze()
    assert f"pytest=={version('pytest')}" in frozen
    assert list(frozen) == sorted(set(frozen))
    assert provenance.dependency_hash() == hashlib.sha256("\n".join(frozen).encode()).hexdigest()


def test_host_facts_are_plain_and_hold_no_environment() -> None:
    facts = provenance.host_facts()
    assert facts["cpus"] == os.cpu_count() and facts["memory_bytes"] > 10**8
    assert set(facts) == {"hostname", "platform", "cpu", "cpus", "cpus_usable", "memory_bytes", "python"}
    json.dumps(facts)


def test_code_hash_moves_with_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "hashed_one.py").write_text("A = 1\n")
    (tmp_path / "hashed_two.py").write_text("A = 1\n")
    one, both = provenance.code_hash(["hashed_one"]), provenance.code_hash(["hashed_two", "hashed_one"])
    assert len({one, both, provenance.code_hash(["hashed_two"])}) == 3
    assert provenance.code_hash(["hashed_one", "hashed_two"]) == both
    provenance._code_hash.cache_clear()
    (tmp_path / "hashed_one.py").write_text("A = 2\n")
    assert provenance.code_hash(["hashed_one"]) != one
    with pytest.raises(ConfigError, match="no_such_module"):
        provenance.code_hash(["no_such_module"])


def test_file_sha256(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 3_000_000)
    assert provenance.file_sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()
