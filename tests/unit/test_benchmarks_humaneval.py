"""HumanEval: how the file is found and read, what an agent is shown, and what a grading is made of."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.benchmarks.completion import SUBMITTED
from recurve_eval.benchmarks.humaneval import FILE, HumanEval
from recurve_eval.domain import CapturedFile, CaptureStatus, Reference, Submission
from recurve_eval.errors import ConfigError, Drift, UnknownName

PLAIN = {
    "task_id": "HumanEval/0",
    "prompt": 'def double(n):\n    """Twice n.\n    >>> double(2)\n    4\n    >>> print(double(3))\n    6\n    """\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * n\n",
    "test": "def check(candidate):\n    assert candidate(5) == 10\n    assert candidate(1) == double(1)\n",
}
WITH_HELPER = {
    "task_id": "HumanEval/1",
    "prompt": 'import math\n\n\ndef up(x):\n    return math.ceil(x)\n\n\ndef total(xs):\n    """Sum, rounded up."""\n',
    "entry_point": "total",
    "canonical_solution": "    return sum(up(x) for x in xs)\n",
    "test": "def check(candidate):\n    assert candidate([0.5, 1.5]) == up(2.5)\n",
}


def jsonl(*records: Any) -> bytes:
    return "".join(json.dumps(r) + "\n" for r in records).encode()


def made(folder: Path, content: bytes | None = None, **options: Any) -> HumanEval:
    path = folder / "tasks.jsonl"
    path.write_bytes(jsonl(PLAIN, WITH_HELPER) if content is None else content)
    return HumanEval(**{"path": str(path), "sha256": None, "count": 2, **options})


def submitted(text: str) -> Submission:
    return Submission.of_reference("test", {"solution.py": text.encode()})


def run(folder: Path, files: dict[str, bytes], *words: str) -> subprocess.CompletedProcess[str]:
    for path, content in files.items():
        (folder / path).write_bytes(content)
    command = [sys.executable, "-B", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=False)


def passes(bench: HumanEval, task_id: str, submission: Submission, folder: Path) -> bool:
    """Grade in a bare subprocess, as the ``check`` convention says."""
    folder.mkdir()
    job = bench.oracle_job(task_id, submission)
    (name,) = job.held_out
    driver = f"import solution, {name[:-3]} as held\nheld.check(solution.{job.params['entry_point']})\n"
    files = {**submission.contents, **job.support, **job.held_out, "driver.py": driver.encode()}
    return run(folder, files, "driver.py").returncode == 0


# -- what an agent is shown ----------------------------------------------------------------------


def test_the_workspace_starts_with_the_prompt(tmp_path: Path) -> None:
    task = made(tmp_path).task("HumanEval/0")
    assert task.public["solution.py"] == PLAIN["prompt"].encode()
    assert task.capture.paths == ("solution.py",)
    assert "`double`" in task.statement and "solution.py" in task.statement and ">>> double(2)" in task.statement


def test_examples_come_from_the_docstring(tmp_path: Path) -> None:
    bench = made(tmp_path)
    assert bench.visible_examples["HumanEval/0"] == ("assert (double(2)) == (4)", "assert (print(double(3))) == (6)")
    bare = bench.task("HumanEval/1")
    assert (bare.visible_check, bare.protected, set(bare.public)) == (None, (), {"solution.py"})


def test_recorded_examples_win_and_gaps_fall_back(tmp_path: Path) -> None:
    record = {"task_id": "HumanEval/1", "visible_tests": ["assert total([1]) == 1"]}
    path = tmp_path / "visible.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(record, record, {"task_id": "HumanEval/0"})))
    bench, plain = made(tmp_path, visible_tests=str(path)), made(tmp_path)
    assert bench.visible_examples["HumanEval/1"] == ("assert total([1]) == 1",)
    assert bench.visible_examples["HumanEval/0"] == plain.visible_examples["HumanEval/0"]
    assert bench.pins()["dataset_hash"] != plain.pins()["dataset_hash"]
    again = tmp_path / "elsewhere.jsonl"
    again.write_bytes(jsonl({**record, "solution": "other"}))
    assert made(tmp_path, visible_tests=str(again)).pins() == bench.pins()


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"task_id": "HumanEval/1", "visible_tests": "assert 1"}], "line 1: 'visible_tests' must be a list"),
        ([{"task_id": "HumanEval/1", "visible_tests": ["import os"]}], "line 1: .*assert statements"),
        ([{"task_id": "a", "visible_tests": ["assert 1"]}, {"task_id": "a", "visible_tests": []}], "line 2: .*earlier"),
        ([{"visible_tests": ["assert 1"]}], "line 1: 'task_id' is missing"),
    ],
)
def test_wrong_recorded_examples_are_refused(tmp_path: Path, records: list[Any], message: str) -> None:
    path = tmp_path / "visible.jsonl"
    path.write_bytes(jsonl(*records))
    with pytest.raises(ConfigError, match=message):
        made(tmp_path, visible_tests=str(path)).pins()


GOOD = "def total(xs):\n    return sum(up(x) for x in xs)\n"
CHECKS = {
    "holds": (GOOD, 0, "GREEN: 2 examples hold"),
    "fails": (GOOD.replace("up(x)", "x"), 1, "RED: assert total([1, 0.5]) == 2 (AssertionError)"),
    "raises": ("def total(xs):\n    raise KeyError('k')\n", 1, "RED: assert total([]) == 0 (KeyError: 'k')"),
    "does not compile": (
        "def total(:\n",
        1,
        "RED: solution.py does not run (SyntaxError: invalid syntax (solution.py, line 1))",
    ),
    "exits at import": ("raise SystemExit(0)\n", 1, "RED: solution.py does not run (SystemExit: 0)"),
    "exits in a call": (
        "import sys\n\n\ndef total(xs):\n    sys.exit(0)\n",
        1,
        "RED: assert total([]) == 0 (SystemExit: 0)",
    ),
    "future import": ("from __future__ import annotations\n" + GOOD, 0, "GREEN: 2 examples hold"),
    "byte order mark": ("\ufeff" + GOOD, 0, "GREEN: 2 examples hold"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_visible_check(tmp_path: Path, name: str) -> None:
    text, code, line = CHECKS[name]
    visible = tmp_path / "visible.jsonl"
    tests = ["assert total([]) == 0", "assert total([1, 0.5]) == 2"]
    visible.write_bytes(jsonl({"task_id": "HumanEval/1", "visible_tests": tests}))
    task = made(tmp_path, visible_tests=str(visible)).task("HumanEval/1")
    assert task.visible_check == ("{python}", "-B", "test_visible.py")
    place = tmp_path / "work"
    place.mkdir()
    done = run(place, {**task.public, "solution.py": text.encode()}, *task.visible_check[2:])
    assert (done.returncode, done.stdout, done.stderr) == (code, line + "\n", "")


def test_the_visible_check_needs_a_solution(tmp_path: Path) -> None:
    task = made(tmp_path).task("HumanEval/0")
    place = tmp_path / "work"
    place.mkdir()
    done = run(place, {"test_visible.py": task.public["test_visible.py"]}, "test_visible.py")
    assert done.returncode == 1 and done.stdout.startswith("RED: solution.py does not run (FileNotFoundError")


# -- what is graded ------------------------------------------------------------------------------


def test_a_submission_is_graded_as_it_is_where_nothing_is_given(tmp_path: Path) -> None:
    job = made(tmp_path).oracle_job("HumanEval/0", submitted("x"))
    assert job.support == {}
    assert (job.convention, job.expected) == ("check", ("check",))
    assert job.params == {"module": "solution", "entry_point": "double"}


def test_the_given_part_precedes_unaltered_bytes(tmp_path: Path) -> None:
    job = made(tmp_path).oracle_job("HumanEval/1", submitted("from __future__ import annotations\n"))
    assert job.support[SUBMITTED] == b"from __future__ import annotations\n"
    assert b"def up(x):" in job.support["solution.py"] and b"def total" not in job.support["solution.py"]


def test_nothing_is_given_to_a_missing_submission(tmp_path: Path) -> None:
    absent = Submission(Reference("none"), (CapturedFile("solution.py", CaptureStatus.MISSING),))
    bench = made(tmp_path)
    assert bench.oracle_job("HumanEval/1", absent).support == {}
    assert not passes(bench, "HumanEval/1", absent, tmp_path / "work")


SUBMISSIONS = {
    "uses the given helper": (GOOD, True),
    "future import first": ("from __future__ import annotations\n\n" + GOOD, True),
    "byte order mark": ("\ufeff" + GOOD, True),
    "coding line": ("# -*- coding: latin-1 -*-\n" + GOOD, True),
    "repeats the prompt": (WITH_HELPER["prompt"] + WITH_HELPER["canonical_solution"], True),
    "its own wrong helper": ("def up(x):\n    return 0\n\n\n" + GOOD, False),
    "empty": ("", False),
    "body alone": (WITH_HELPER["canonical_solution"], False),
    "not Python": ("def total(:\n", False),
}


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_composition(tmp_path: Path, name: str) -> None:
    text, good = SUBMISSIONS[name]
    assert passes(made(tmp_path), "HumanEval/1", submitted(text), tmp_path / "work") is good


def test_solutions_known_good_and_bad(tmp_path: Path) -> None:
    bench = made(tmp_path)
    for number, task_id in enumerate(bench.task_ids()):
        solutions = bench.solutions(task_id)
        assert [bad.kind for bad in solutions.known_bad] == ["empty", "none", "raises"]
        good = Submission.of_reference("canonical", solutions.canonical)
        assert passes(bench, task_id, good, tmp_path / f"good{number}")
        for bad in solutions.known_bad:
            wrong = Submission.of_reference("known_bad", bad.files)
            assert not passes(bench, task_id, wrong, tmp_path / f"{bad.kind}{number}")


# -- how the file is read ------------------------------------------------------------------------


def without(key: str) -> dict[str, str]:
    return {k: v for k, v in WITH_HELPER.items() if k != key}


MALFORMED = {
    "bad JSON": (jsonl(PLAIN) + b'{"task_id": \n', "line 2: not JSON"),
    "bad UTF-8": (jsonl(PLAIN) + b'{"a": "\xff"}\n', "line 2: not JSON"),
    "not an object": (jsonl(PLAIN, [1]), "line 2: expected an object, got list"),
    "no canonical": (jsonl(PLAIN, without("canonical_solution")), "line 2: 'canonical_solution' is missing"),
    "blank canonical": (
        jsonl(PLAIN, {**WITH_HELPER, "canonical_solution": " "}),
        "line 2: 'canonical_solution' is empty",
    ),
    "number": (jsonl({**PLAIN, "prompt": 7}), "line 1: 'prompt' must be a string, not int"),
    "twice": (jsonl(PLAIN, PLAIN), "line 2: task_id 'HumanEval/0' is already"),
    "entry point": (jsonl({**PLAIN, "entry_point": "triple"}), "line 1: 'prompt' does not define entry_point 'triple'"),
    "prompt": (jsonl({**PLAIN, "prompt": "def double(n):\n"}), "line 1: 'prompt' is not Python"),
    "test": (jsonl({**PLAIN, "test": "def chekc(c): pass\n"}), r"line 1: 'test' does not define check\(candidate\)"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_named_by_line(tmp_path: Path, name: str) -> None:
    content, message = MALFORMED[name]
    with pytest.raises(ConfigError, match=rf"tasks\.jsonl, {message}"):
        made(tmp_path, content).task_ids()


def test_another_file_than_the_pinned_one_is_drift(tmp_path: Path) -> None:
    content = jsonl(PLAIN, WITH_HELPER)
    right = hashlib.sha256(content).hexdigest()
    assert made(tmp_path, gzip.compress(content), sha256=right).task_ids() == ("HumanEval/0", "HumanEval/1")
    with pytest.raises(Drift) as refused:
        made(tmp_path, sha256="0" * 64).task_ids()
    assert all(part in str(refused.value) for part in ("tasks.jsonl", right, "0" * 64, "task.sha256"))


def test_another_count_is_drift(tmp_path: Path) -> None:
    with pytest.raises(Drift, match=r"has 2 tasks, task\.count pins 164"):
        made(tmp_path, count=164).task_ids()


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*tasks\.jsonl"):
        made(tmp_path, gzip.compress(jsonl(PLAIN))[:-12]).task_ids()


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere: No such file"):
        HumanEval(path=str(tmp_path / "nowhere")).task_ids()


def test_an_unknown_task_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown task 'HumanEval/7' in humaneval"):
        made(tmp_path).task("HumanEval/7")


# -- where the file is found ---------------------------------------------------------------------


class Shelf(http.server.BaseHTTPRequestHandler):
    """Serves one body; ``/short`` promises more than it sends."""

    body = gzip.compress(jsonl(PLAIN, WITH_HELPER))
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(404 if self.path == "/absent" else 200)
        self.send_header("Content-Length", str(len(self.body) + (100 if self.path == "/short" else 0)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shelf) as shelf:
        thread = threading.Thread(target=shelf.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        Shelf.asked.clear()
        yield f"http://127.0.0.1:{shelf.server_address[1]}"
        shelf.shutdown()
        thread.join()


def test_downloaded_once_and_kept(places: Path, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert len(HumanEval(url=f"{server}/data", sha256=None, count=2).task_ids()) == 2
    assert Shelf.asked == ["/data"]
    (kept,) = (p.relative_to(places) for p in places.rglob("*") if p.is_file())
    assert kept.parts[:2] == ("cache", "datasets") and kept.name == Path(FILE).name
    assert f"downloaded {server}/data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/absent", "cannot download .*404|cannot download .*Not Found"),
        ("/short", "cannot download .*it ended after|IncompleteRead"),
    ],
)
def test_a_failed_download_leaves_nothing(places: Path, server: str, path: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        HumanEval(url=server + path, sha256=None, count=2).task_ids()
    assert "RECURVE_DATA" in str(refused.value)
    assert [p for p in places.rglob("*") if p.is_file()] == []


def test_a_download_of_other_content_is_drift_and_not_kept(places: Path, server: str) -> None:
    with pytest.raises(Drift, match=f"{server}/data: the content's sha256 is"):
        HumanEval(url=f"{server}/data").task_ids()
    assert [p for p in places.rglob("*") if p.is_file()] == []


def test_no_server_is_said_plainly(places: Path, server: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot download http://127\.0\.0\.1:9/x: .*refused"):
        HumanEval(url="http://127.0.0.1:9/x", download_timeout_s=5).task_ids()
    with pytest.raises(ConfigError, match=r"task\.url is null"):
        HumanEval(url=None).task_ids()
    with pytest.raises(ConfigError, match="only http and https"):
        HumanEval(url="ftp://host/file").task_ids()


def test_the_data_directory_comes_before_the_cache(places: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(HumanEval(url=f"{server}/data", sha256=None, count=2).task_ids()) == 2
    (places / "data" / FILE).parent.mkdir(parents=True)
    (places / "data" / FILE).write_bytes(jsonl(PLAIN))
    monkeypatch.setenv("RECURVE_DATA", str(places / "data"))
    assert len(HumanEval(url=f"{server}/data", sha256=None, count=1).task_ids()) == 1


# -- the real file -------------------------------------------------------------------------------


def test_the_public_file_and_its_recorded_examples() -> None:
    root = Path(os.environ.get("RECURVE_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (root / FILE).is_file():
        pytest.skip(f"{FILE} is not below RECURVE_DATA")
    bench = HumanEval(path=str(root / FILE))
    assert len(bench.task_ids()) == 164
    assert sum(bool(tests) for tests in bench.visible_examples.values()) == 69
    recorded = [root / "submissions" / f"humaneval_{m}.jsonl.gz" for m in ("gpt-3.5-turbo-0613", "starcoder-15b")]
    if not all(path.is_file() for path in recorded):
        pytest.skip("the recorded submissions are not below RECURVE_DATA")
    first, second = (HumanEval(path=str(root / FILE), visible_tests=str(path)) for path in recorded)
    assert all(first.visible_examples.values())
    assert first.pins() == second.pins() != bench.pins()
