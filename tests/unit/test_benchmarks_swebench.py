"""SWE-bench rows over a repository of our own: what an agent is given, what is held out, and what is refused."""

from __future__ import annotations

import json
import subprocess
import zlib
from pathlib import Path

import pytest
from repositories import FIXED, TEST_ADD, Tiny, git, make

from recurve_eval.domain import Submission
from recurve_eval.errors import ConfigError, Drift, NoImage, UnknownName
from recurve_eval.workspace import materialize

ID = "tiny__calc-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def tiny(made: Tiny, tmp_path: Path) -> Tiny:
    return made.copied(tmp_path / "tiny")


def canonical(tiny: Tiny) -> Submission:
    return Submission.of_reference("canonical", tiny.bench().solutions(ID).canonical)


def test_the_workspace_is_the_base_and_holds_nothing_later(tiny: Tiny, tmp_path: Path) -> None:
    bench, workspace = tiny.bench(), tmp_path / "w"
    materialize(bench.task(ID), workspace)
    assert bench.scanner(ID).scan(workspace) == []
    assert git(workspace, "log", "--all", "--format=%s") == "The task as given"
    assert git(workspace, "tag") == git(workspace, "remote") == git(workspace, "stash", "list") == ""
    assert git(workspace, "status", "--porcelain") == ""
    assert git(workspace, "rev-parse", "HEAD^{tree}") == git(
        tiny.root / "repos/tiny__calc", "rev-parse", f"{tiny.base}^{{tree}}"
    )
    assert not list(workspace.glob(".git/**/*.pack")) and not (workspace / ".git/FETCH_HEAD").exists()
    objects = b"".join(zlib.decompress(p.read_bytes()) for p in workspace.glob(".git/objects/??/*"))
    assert b"return a - b" in objects
    for later in (b"the sum that the issue asks for", b"test_adds_two_numbers", tiny.fix.encode(), b"future"):
        assert later not in objects
    assert subprocess.run(["git", "cat-file", "-e", tiny.fix], cwd=workspace, capture_output=True).returncode


def test_a_clone_would_have_given_the_future_away(tiny: Tiny, tmp_path: Path) -> None:
    """The check above can fail: a checkout of the base in a clone is found out by the same scan."""
    subprocess.run(["git", "clone", "-q", tiny.root / "repos/tiny__calc", tmp_path / "w"], check=True)
    git(tmp_path / "w", "checkout", "-q", tiny.base)
    assert tiny.bench().scanner(ID).scan(tmp_path / "w") != []


def test_either_patch_in_a_workspace_is_a_leak(tiny: Tiny, tmp_path: Path) -> None:
    bench = tiny.bench()
    for number, text in enumerate((FIXED, TEST_ADD)):
        workspace = tmp_path / str(number)
        materialize(bench.task(ID), workspace)
        (workspace / "notes.txt").write_text(text)
        assert any(line.startswith("notes.txt") for line in bench.scanner(ID).scan(workspace))


def test_gold_is_whole_files_and_empty_is_the_base(tiny: Tiny) -> None:
    solutions = tiny.bench().solutions(ID)
    assert solutions.canonical == {"calc.py": FIXED.encode()}
    (bad,) = solutions.known_bad
    assert (bad.kind, bad.files) == ("empty", {"calc.py": tiny.bench().task(ID).public["calc.py"]})


def test_a_users_git_configuration_changes_no_file(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line ends that this machine's user prefers would be graded."""
    (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tiny.bench().solutions(ID).canonical == {"calc.py": FIXED.encode()}


def test_a_job_runs_whole_test_files_after_the_test_patch(tiny: Tiny) -> None:
    job = tiny.bench().oracle_job(ID, canonical(tiny))
    assert set(job.held_out) == {"tests/test_calc.py"} and TEST_ADD.encode() in job.held_out["tests/test_calc.py"]
    assert job.params["removed"] == ["tests/old.py"]
    assert job.params["files"] == ["tests/test_calc.py"]
    assert job.expected == ("test_adds_two_numbers (tests.test_calc.Calc)", "test_double (tests.test_calc.Calc)")
    assert set(job.support) == {".gitignore", "tests/__init__.py", "tests/old.py"}
    assert job.image == "sha256:" + "0" * 64


def test_test_files_are_no_part_of_a_submission(tiny: Tiny) -> None:
    omit = tiny.bench().task(ID).capture.omit
    assert {"tests/*", "conftest.py", "*/conftest.py", "*.pyc"} <= set(omit)


def test_a_glob_that_would_hide_the_gold_patch_does_not_count(tiny: Tiny) -> None:
    rows = [json.loads(line) for line in (tiny.root / "rows.jsonl").read_text().splitlines()]
    rows[0]["patch"] = rows[0]["patch"].replace("calc.py", "tests/calc.py")
    (tiny.root / "rows.jsonl").write_text(json.dumps(rows[0]))
    omit = tiny.bench().task(ID).capture.omit
    assert "tests/*" not in omit and "conftest.py" in omit


def test_hints_are_shown_only_when_asked_for(tiny: Tiny) -> None:
    assert "operator" not in tiny.bench().task(ID).statement
    assert "operator" in tiny.bench(hints=True).task(ID).statement
    assert tiny.bench().pins() != tiny.bench(hints=True).pins()


def test_the_dataset_hash_covers_rows_settings_and_images(tiny: Tiny) -> None:
    seen = {str(tiny.bench().pins())}
    images = json.loads((tiny.root / "images.json").read_text())
    (tiny.root / "images.json").write_text(json.dumps(images | {ID: "sha256:" + "1" * 64}))
    seen.add(str(tiny.bench().pins()))
    (tiny.root / "settings.yaml").write_text((tiny.root / "settings.yaml").read_text() + "    env: {A: b}\n")
    seen.add(str(tiny.bench().pins()))
    with (tiny.root / "rows.jsonl").open("a") as rows:
        rows.write("\n")
    seen.add(str(tiny.bench().pins()))
    assert len(seen) == 4


def test_a_missing_image_is_refused_with_the_file_that_may_name_it(tiny: Tiny) -> None:
    (tiny.root / "images.json").unlink()
    with pytest.raises(NoImage, match=r"name one by digest in .*images.json, or build it"):
        tiny.bench().oracle_job(ID, Submission.of_reference("canonical", {"calc.py": b""}))


def test_an_image_is_named_by_content(tiny: Tiny) -> None:
    (tiny.root / "images.json").write_text(json.dumps({ID: "swebench/sweb.eval:latest"}))
    with pytest.raises(ConfigError, match="can move"):
        tiny.bench().pins()
    (tiny.root / "images.json").write_text(json.dumps({ID: "swebench/sweb.eval.x86_64.tiny@sha256:" + "a" * 64}))
    assert tiny.bench().oracle_job(ID, Submission.of_reference("canonical", {"calc.py": b""})).image


def test_pinning_an_image_is_seen_at_once(tiny: Tiny) -> None:
    bench = tiny.bench()
    before = bench.pins()
    bench.pin_image(ID, "sha256:" + "2" * 64)
    assert bench.image_plan(ID).pinned == "sha256:" + "2" * 64 and bench.pins() != before


def test_an_image_plan_copies_the_base_and_nothing_held_out(tiny: Tiny) -> None:
    (tiny.root / "settings.yaml").write_text(
        "repositories: {tiny/calc: {install: [pip install -e .], build_env: {V: '1 2'}}}"
    )
    plan = tiny.bench().image_plan(ID)
    assert set(plan.context) == {
        "testbed/calc.py",
        "testbed/tests/__init__.py",
        "testbed/tests/test_calc.py",
        "testbed/.gitignore",
        "testbed/tests/old.py",
    }
    assert plan.dockerfile == 'COPY testbed /testbed\nRUN set -e; cd /testbed; export V="1 2"; pip install -e .\n'
    assert not any(b"test_adds" in file.content or b"the sum" in file.content for file in plan.context.values())


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("FAIL_TO_PASS", "[]", "FAIL_TO_PASS is empty"),
        ("FAIL_TO_PASS", "not json", "list of test ids"),
        ("PASS_TO_PASS", [1], "list of test ids"),
        ("patch", "", "'patch' is empty"),
        ("base_commit", "HEAD", "not a commit id"),
        ("base_commit", "0" * 40, "no commit|cannot read"),
        ("repo", "tiny/other", "no clone of tiny/other"),
        ("test_patch", "--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-nothing like it\n+x\n", "does not apply"),
    ],
)
def test_a_row_that_is_wrong_is_named(tiny: Tiny, key: str, value: object, words: str) -> None:
    row = json.loads((tiny.root / "rows.jsonl").read_text().splitlines()[0]) | {key: value}
    (tiny.root / "rows.jsonl").write_text(json.dumps(row))
    with pytest.raises(ConfigError, match=words):
        bench = tiny.bench()
        bench.task(ID)
        bench.oracle_job(ID, Submission.of_reference("canonical", {"calc.py": b""}))


def test_what_is_pinned_is_held(tiny: Tiny) -> None:
    with pytest.raises(Drift, match=r"0{64}"):
        tiny.bench(sha256="0" * 64).task_ids()
    with pytest.raises(Drift, match="pins 3"):
        tiny.bench(count=3).task_ids()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wrong: {}", "unknown key 'wrong'"),
        ("repositories: {tiny/calc: {runer: pytest}}", "Did you mean 'runner'"),
        ("repositories: {tiny/calc: {runner: nose}}", "unknown runner 'nose'"),
        ("repositories: {tiny/calc: {install: pip}}", "must be list"),
        ("repositories: {other/repo: {}}", "says nothing of tiny/calc"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_settings_file_that_is_wrong_is_named(tiny: Tiny, text: str, words: str) -> None:
    (tiny.root / "settings.yaml").write_text(text)
    with pytest.raises((ConfigError, UnknownName), match=words):
        tiny.bench().oracle_job(ID, Submission.of_reference("canonical", {"calc.py": b""}))


def test_settings_of_an_instance_win_over_those_of_its_repository(tiny: Tiny) -> None:
    (tiny.root / "settings.yaml").write_text(
        "defaults: {runner: unittest, root: /a, tree: sent}\nrepositories: {tiny/calc: {root: /b}}\n"
        "versions: {tiny/calc@1.0: {root: /c, strip: x}}\ninstances: {tiny__calc-1: {root: /d}}\n"
    )
    params = tiny.bench().oracle_job(ID, Submission.of_reference("canonical", {"calc.py": b""})).params
    assert (params["root"], params["strip"], params["runner"]) == ("/d", "x", "unittest")
