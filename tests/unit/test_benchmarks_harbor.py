"""Harbor tasks: what becomes the workspace, what stays held out, how a reward is read, and what is refused."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path

import pytest
from harbor_tasks import BASE, write

from recurve_eval.agents.scripted import ScriptedAgent
from recurve_eval.benchmarks.harbor import Harbor
from recurve_eval.benchmarks.harbor_task import read_dockerfile
from recurve_eval.domain import (
    AgentRun,
    Budget,
    CapturedFile,
    CaptureStatus,
    Departure,
    ModelSpec,
    OracleVerdict,
    Submission,
)
from recurve_eval.errors import ConfigError, Drift, NoImage, UnknownName
from recurve_eval.oracle import suite
from recurve_eval.ports import TurnRequest

IMAGE = "sha256:" + "0" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "tasks")
    (tmp_path / "tasks/images.json").write_text(json.dumps(dict.fromkeys(("sort", "sort-json"), IMAGE)))
    return tmp_path / "tasks"


def by_an_agent(files: dict[str, bytes]) -> Submission:
    run = AgentRun((), Departure("process", 0, "nothing ran"))
    return Submission(run, tuple(CapturedFile(p, CaptureStatus.OK, c, len(c)) for p, c in files.items()))


def test_the_workspace_is_what_the_dockerfile_copies_to_its_working_directory(root: Path) -> None:
    task = Harbor(path=str(root)).task("sort")
    assert set(task.public) == {"words.txt", "readme.txt", "tools/count.py"}
    assert "alphabetical" in task.statement and "/app" in task.statement


def test_tests_and_solution_are_held_out(root: Path, tmp_path: Path) -> None:
    bench = Harbor(path=str(root))
    for number, path in enumerate(("tests/check_the_answer.py", "tests/test.sh", "solution/solve.sh")):
        place = tmp_path / str(number)
        place.mkdir()
        assert bench.scanner("sort").scan(place) == []
        (place / "found.txt").write_bytes((root / "sort" / path).read_bytes())
        assert bench.scanner("sort").scan(place) != []
    plan = bench.image_plan("sort")
    assert set(plan.context) == {"words.txt", "notes/readme.txt", "tools/count.py", "secret.txt"}
    assert "check_the_answer" not in plan.dockerfile and plan.base == BASE


def test_an_agents_files_are_laid_and_never_run(root: Path) -> None:
    job = Harbor(path=str(root)).oracle_job("sort", by_an_agent({"solve.sh": b"#!/bin/sh\n"}))
    (stage,) = suite.request_of(job, 60_000, 1).message["stages"]
    assert stage["argv"] == ["/bin/sh", "/tests/test.sh"] and set(stage["lay"]) == {"/app", "/tests"}
    assert set(stage["lay"]["/app"]) == {"solve.sh"}
    assert {"/tests", "/logs/verifier"} <= set(stage["remove"])


def test_the_canonical_program_runs_first_and_is_gone_before_the_tests(root: Path) -> None:
    bench = Harbor(path=str(root))
    job = bench.oracle_job("sort", Submission.of_reference("canonical", bench.solutions("sort").canonical))
    solve, verify = suite.request_of(job, 60_000, 1).message["stages"]
    assert solve["argv"] == ["/bin/sh", "/solution/solve.sh"] and "/tests" not in solve["lay"]
    assert "/solution" in verify["remove"] and verify["lay"]["/app"] == {}
    assert "EXPECTED" not in solve["env"] and verify["env"] == {"EXPECTED": "apple pear plum"}


@pytest.mark.parametrize(
    ("file", "content", "verdict", "words"),
    [
        ("txt", "1\n", OracleVerdict.PASS, ""),
        ("txt", "1.0", OracleVerdict.PASS, ""),
        ("txt", "0.99", OracleVerdict.FAIL, "the reward is 0.99, 1 is needed"),
        ("txt", "", OracleVerdict.FAIL, "is no number"),
        ("txt", "nan", OracleVerdict.FAIL, "is no number"),
        ("txt", "inf", OracleVerdict.FAIL, "is no number"),
        ("txt", "7", OracleVerdict.FAIL, "is no number"),
        ("json", '{"reward": 1.0, "style": 0}', OracleVerdict.PASS, ""),
        ("json", '{"score": 1}', OracleVerdict.PASS, ""),
        ("json", '{"a": 1, "b": 1}', OracleVerdict.FAIL, "is no number"),
        ("json", "{}", OracleVerdict.FAIL, "is no number"),
        ("json", "[1]", OracleVerdict.FAIL, "is no number"),
        ("other", "1", OracleVerdict.FAIL, "missing tests: reward"),
    ],
)
def test_how_a_reward_becomes_a_verdict(
    root: Path, file: str, content: str, verdict: OracleVerdict, words: str
) -> None:
    job = Harbor(path=str(root)).oracle_job("sort", by_an_agent({"a": b""}))
    seen = suite.Seen(collected={f"/logs/verifier/reward.{file}": base64.b64encode(content.encode()).decode()})
    grade = suite.judge(job, seen)
    assert grade.verdict is verdict and words in grade.detail


def test_a_threshold_below_one_takes_partial_rewards(root: Path) -> None:
    job = Harbor(path=str(root), threshold=0.5).oracle_job("sort", by_an_agent({"a": b""}))
    seen = suite.Seen(collected={"/logs/verifier/reward.txt": base64.b64encode(b"0.5").decode()})
    assert suite.judge(job, seen).verdict is OracleVerdict.PASS
    with pytest.raises(ConfigError, match="threshold"):
        Harbor(path=str(root), threshold=0.0)


def test_a_simulated_agent_is_told_that_it_cannot_play_a_program(root: Path) -> None:
    answers = Harbor(path=str(root)).solutions("sort")
    request = TurnRequest(
        "p",
        Harbor(path=str(root)).task("sort"),
        ModelSpec("m", simulated=True, skill=1.0),
        0,
        1,
        Budget("b", 5.0),
        answers,
    )
    with pytest.raises(ConfigError, match="is a program"):
        ScriptedAgent().run(request, None)  # type: ignore[arg-type]


def test_what_is_pinned_is_held(root: Path) -> None:
    before = Harbor(path=str(root)).pins()
    (root / "images.json").write_text(json.dumps({"sort": "sha256:" + "1" * 64}))
    moved = Harbor(path=str(root)).pins()
    (root / "sort/tests/test.sh").write_text("#!/bin/sh\n")
    assert len({str(before), str(moved), str(Harbor(path=str(root)).pins())}) == 3
    with pytest.raises(Drift, match=r"0{64}"):
        Harbor(path=str(root), sha256="0" * 64).task_ids()
    with pytest.raises(NoImage, match=r"sort-json has no image: name one by digest in .*images.json, or build it"):
        Harbor(path=str(root)).oracle_job("sort-json", by_an_agent({}))
    with pytest.raises(UnknownName):
        Harbor(path=str(root)).task("sorted")


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("tests/test.sh", None, "has no tests/test.sh"),
        ("task.toml", "a = ", "not valid TOML"),
        ("instruction.md", " \n", "instruction.md is empty"),
        ("environment/docker-compose.yaml", "x: 1", "several containers"),
        ("steps/one/instruction.md", "x", "several steps"),
        ("environment/Dockerfile", None, "has no environment/Dockerfile"),
        ("environment/Dockerfile", "FROM a AS b\nFROM c\nWORKDIR /app\n", "several stages"),
        ("environment/Dockerfile", "FROM a\nRUN true\n", "no plain WORKDIR"),
        ("environment/Dockerfile", "ARG V=1\nFROM a:$V\nWORKDIR /app\n", "ARG before FROM"),
        (
            "environment/Dockerfile",
            "FROM a\nWORKDIR /app\nCOPY absent.txt .\n",
            "copies absent.txt, which is not there",
        ),
        ("task.toml", "[verifier]\ntimeout_sec = -1", "must be a positive number"),
        ("task.toml", "[verifier.env]\nKEY = '${API_KEY}'", "never this machine's own"),
        ("task.toml", "verifier = 3", "must be a table"),
        ("solution/solve.sh", None, "nothing shows that its verifier can pass"),
    ],
)
def test_a_task_that_cannot_be_run_is_named(root: Path, path: str, content: str | None, words: str) -> None:
    target = root / "sort" / path
    if content is None:
        target.unlink()
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        bench = Harbor(path=str(root))
        bench.task("sort")
        bench.solutions("sort")
        bench.oracle_job("sort", by_an_agent({}))


def test_a_link_in_a_task_is_refused(root: Path) -> None:
    (root / "sort/environment/link").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="links are refused"):
        Harbor(path=str(root)).task_ids()


def test_how_copies_are_followed() -> None:
    context = dict.fromkeys(("a.txt", "d/b.txt", "d/e/c.txt", "Dockerfile"), b"")
    text = (
        "FROM x:1\nWORKDIR /w\nCOPY a.txt renamed.txt\nCOPY --chown=1:1 d/ data\nWORKDIR in\nADD a.txt ./\n"
        'COPY ["a.txt", "/abs/"]\nCOPY --from=other /x /y\nADD https://example.org/f f\nCOPY . all/\n'
        "COPY a.txt /w/in\nCOPY a.txt .\n"
    )
    made = read_dockerfile(text, context, "t")
    assert (made.base, made.workdir) == ("x:1", "/w/in")
    assert made.copied == {
        "/w/renamed.txt": "a.txt", "/w/data/b.txt": "d/b.txt", "/w/data/e/c.txt": "d/e/c.txt", "/w/in/a.txt": "a.txt",
        "/abs/a.txt": "a.txt", "/w/in/all/a.txt": "a.txt", "/w/in/all/d/b.txt": "d/b.txt", "/w/in/all/d/e/c.txt": "d/e/c.txt",
    }  # fmt: skip
    assert made.steps.startswith("WORKDIR /w\nCOPY a.txt renamed.txt\n") and "FROM" not in made.steps


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        ("COPY *.txt ./", {"/w/a.txt": "a.txt", "/w/b1.txt": "b1.txt"}),
        ("COPY b?.txt .", {"/w/b1.txt": "b1.txt"}),
        ("COPY d/[de].txt one.txt", {"/w/one.txt": "d/e.txt"}),
        ("COPY d* data/", {"/w/data/e.txt": "d/e.txt", "/w/data/f/g.txt": "d/f/g.txt"}),
        ("COPY comma,d.csv .", {"/w/comma,d.csv": "comma,d.csv"}),
        ('COPY --chown=1:1 ["a.txt", "with space/"]', {"/w/with space/a.txt": "a.txt"}),
    ],
)
def test_patterns_are_followed_as_the_build_follows_them(line: str, copied: dict[str, str]) -> None:
    """What the image holds and the workspace lacks, an agent would be blamed for."""
    context = dict.fromkeys(("a.txt", "b1.txt", "comma,d.csv", "d/e.txt", "d/f/g.txt", "Dockerfile"), b"")
    assert read_dockerfile(f"FROM x\nWORKDIR /w\n{line}\n", context, "t").copied == copied


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("COPY *.csv .", r"copies \*\.csv, which is not there"),
        ("COPY a.txt ${HOME}/", "a variable in it is not followed"),
        ("ADD data.tar .", "ADD unpacks data.tar"),
    ],
)
def test_a_copy_that_cannot_be_followed_is_refused(line: str, words: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("inside"))
    context = {"a.txt": b"", "data.tar": archive.getvalue()}
    with pytest.raises(ConfigError, match=words):
        read_dockerfile(f"FROM x\nWORKDIR /w\n{line}\n", context, "t")
