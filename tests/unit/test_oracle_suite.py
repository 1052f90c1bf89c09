"""The supervisor and the driver, run for real without a container, and how their evidence becomes a verdict."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from recurve_eval.domain import (
    CapturedFile,
    CaptureStatus,
    OracleJob,
    OracleVerdict,
    Reference,
    Submission,
    UnscoredReason,
)
from recurve_eval.oracle import suite
from recurve_eval.oracle.fresh import ENVIRONMENT, FreshOracle
from recurve_eval.oracle.line import Launch, Line, PipeLine, Spawn
from recurve_eval.oracle.protocol import frame
from recurve_eval.oracle.runner import runner_sources
from recurve_eval.resources import oracle_dir

PASS, FAIL, TAMPERED, UNSCORED = OracleVerdict
GOOD = b"def add(a, b):\n    return a + b\n"
WRONG = b"def add(a, b):\n    return a - b\n"
TESTS = b"""
import unittest
from calc import add

class Add(unittest.TestCase):
    def test_sum(self):
        '''Sums two numbers.'''
        self.assertEqual(add(20, 22), 42)

    def test_zero(self):
        assert add(0, 0) == 0

    @unittest.expectedFailure
    def test_expected_to_fail(self):
        self.assertEqual(add(1, 1), 3)

    @unittest.skip("no reason")
    def test_skipped(self):
        pass
"""
IDS = {
    "unittest": ("test_sum (tests.test_add.Add)", "test_zero (tests.test_add.Add)"),
    "pytest": ("tests/test_add.py::Add::test_sum", "tests/test_add.py::Add::test_zero"),
}


@dataclass(frozen=True)
class _Spawned:
    """The supervisor as a child of this test, under this test's own user id."""

    argv: tuple[str, ...]
    sources: Mapping[str, bytes]

    def open(self) -> Line:
        line = PipeLine(Spawn(self.argv, {**ENVIRONMENT, "PATH": os.environ["PATH"]}))
        line.send(frame({"drive.py": self.sources["drive.py"].decode()}), float("inf"))
        return line


class Local(FreshOracle):
    def launch(self, job: OracleJob) -> Launch:
        sources = runner_sources(oracle_dir() / "fresh")
        return _Spawned((sys.executable, "-I", "-S", "-B", "-c", sources["supervise.py"].decode()), sources)


@pytest.fixture
def oracle() -> FreshOracle:
    return Local(uid=0, restarts=0)


@dataclass
class Room:
    """One job maker: a directory that stands for the container's, and files of its own."""

    root: Path
    runner: str

    def job(self, files: Mapping[str, bytes], tests: bytes = TESTS, **changes: object) -> OracleJob:
        site = str(Path(str(importlib.util.find_spec("pytest").origin)).parents[1])  # type: ignore[union-attr]
        plain = OracleJob(
            task_id="t", submission=Submission.of_reference("canonical", files), held_out={"tests/test_add.py": tests},
            convention="suite", expected=IDS[self.runner], support={"tests/__init__.py": b""}, image="sha256:" + "0" * 64,
            params={
                "root": str(self.root), "python": sys.executable, "runner": self.runner, "files": ["tests/test_add.py"],
                "env": {"PYTHONPATH": os.pathsep.join([str(self.root), site]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            },
            timeout_s=20.0,
        )  # fmt: skip
        return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "root", "unittest")


@pytest.fixture(params=["unittest", "pytest"])
def each_room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    return Room(tmp_path / "root", request.param)


def test_right_work_passes_and_wrong_work_fails_by_the_name_of_its_test(oracle: FreshOracle, each_room: Room) -> None:
    good = oracle.grade(each_room.job({"calc.py": GOOD}))
    assert (good.verdict, good.tests_passed, good.tests_total) == (PASS, 2, 2), (good.detail, good.stdout)
    bad = oracle.grade(each_room.job({"calc.py": WRONG}))
    assert (bad.verdict, bad.failed) == (FAIL, (IDS[each_room.runner][0],)), bad.stdout


def test_a_skipped_or_missing_test_is_no_pass_and_an_expected_failure_is_one(
    oracle: FreshOracle, each_room: Room
) -> None:
    name = IDS[each_room.runner][0].replace("test_sum", "{}")
    assert (
        oracle.grade(each_room.job({"calc.py": GOOD}, expected=(name.format("test_expected_to_fail"),))).verdict is PASS
    )
    for missing in ("test_skipped", "test_of_another_day"):
        grade = oracle.grade(each_room.job({"calc.py": GOOD}, expected=(name.format(missing),)))
        assert (grade.verdict, grade.tests_passed) == (FAIL, 0)


FORGED = (
    WRONG
    + b"""
import json, os, struct
body = json.dumps({"event": "end", "id": "test_sum (tests.test_add.Add)", "also": [], "outcome": "passed", "message": ""})
data = json.dumps([body, "0" * 32]).encode()
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack(">I", len(data)) + data)
    except OSError:
        pass
"""
)
HOSTILE: dict[str, tuple[bytes, set[OracleVerdict]]] = {
    "exits": (b"import sys\nsys.exit(0)\n", {FAIL}),
    "exits at once": (b"import os\nos._exit(0)\n", {FAIL}),
    "does not parse": (b"def add(a, b:\n", {FAIL}),
    "prints results": (WRONG + b"print('test_sum (tests.test_add.Add) ... ok\\n1 passed')\n", {FAIL}),
    "unittest asserts nothing": (
        WRONG + b"import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n", {TAMPERED},
    ),
    "every test succeeds": (
        WRONG + b"import unittest\nunittest.TestCase.run = lambda self, r=None: (r.startTest(self), r.addSuccess(self),"
        b" r.stopTest(self))\n", {TAMPERED},
    ),
    "writes records to every descriptor": (FORGED, {TAMPERED}),
    "floods every descriptor": (
        WRONG + b"import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'\\xff' * 40000)\n"
        b"    except OSError:\n        pass\n", {TAMPERED, FAIL},
    ),
    "closes every descriptor": (GOOD + b"import os\nos.closerange(3, 64)\n", {FAIL}),
    "fork that goes on": (WRONG + b"import os\nif os.fork() == 0:\n    add = lambda a, b: a + b\n", {FAIL, TAMPERED}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_submission_passes(oracle: FreshOracle, room: Room, name: str) -> None:
    files, verdicts = HOSTILE[name]
    grade = oracle.grade(room.job({"calc.py": files}))
    assert grade.verdict in verdicts, (grade.verdict, grade.detail, grade.stdout)


def test_a_module_that_makes_pytest_lie_is_tampering(oracle: FreshOracle, tmp_path: Path) -> None:
    lie = b"""
from _pytest.reports import TestReport
make = TestReport.from_item_and_call
def lie(item, call):
    report = make(item, call)
    report.outcome = "passed"
    return report
TestReport.from_item_and_call = staticmethod(lie)
"""
    grade = oracle.grade(Room(tmp_path / "root", "pytest").job({"calc.py": WRONG + lie}))
    assert grade.verdict is TAMPERED and "must fail" in grade.detail


def test_a_conftest_that_turns_failures_into_passes_is_tampering(oracle: FreshOracle, tmp_path: Path) -> None:
    hook = b"""
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    out = yield
    out.get_result().outcome = "passed"
"""
    grade = oracle.grade(Room(tmp_path / "root", "pytest").job({"calc.py": WRONG, "conftest.py": hook}))
    assert grade.verdict is TAMPERED and "must fail" in grade.detail


def test_deselecting_the_tests_that_must_fail_is_tampering(oracle: FreshOracle, tmp_path: Path) -> None:
    hook = b"def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'test_add' in i.nodeid]\n"
    grade = oracle.grade(Room(tmp_path / "root", "pytest").job({"calc.py": GOOD, "conftest.py": hook}))
    assert grade.verdict is TAMPERED and "not all" in grade.detail


def test_work_that_breaks_the_whole_suite_fails_and_is_not_called_tampering(
    oracle: FreshOracle, tmp_path: Path
) -> None:
    job = Room(tmp_path / "root", "pytest").job({"calc.py": b"raise RuntimeError('broken')\n"})
    support = {**job.support, "tests/conftest.py": b"import calc\n"}
    grade = oracle.grade(replace(job, support=support))
    assert grade.verdict is FAIL and "no test was run" in grade.detail


def test_a_run_without_end_is_tried_again_alone_and_then_fails(oracle: FreshOracle, room: Room) -> None:
    grade = oracle.grade(room.job({"calc.py": b"while True:\n    pass\n"}, timeout_s=0.5))
    assert (grade.verdict, grade.retried) == (FAIL, True) and "timed out twice" in grade.detail


def test_what_a_submission_deleted_or_made_unreadable_is_absent(oracle: FreshOracle, room: Room) -> None:
    room.root.mkdir()
    (room.root / "calc.py").write_bytes(GOOD)
    (room.root / "tests").mkdir()
    unchanged = room.job({"other.py": b""})
    assert oracle.grade(unchanged).verdict is PASS
    gone = Submission(Reference("test"), (CapturedFile("calc.py", CaptureStatus.MISSING),))
    assert oracle.grade(replace(unchanged, submission=gone)).verdict is FAIL


def test_a_link_in_the_way_is_replaced_and_never_followed(oracle: FreshOracle, room: Room, tmp_path: Path) -> None:
    room.root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (room.root / "tests").symlink_to(tmp_path / "elsewhere")
    assert oracle.grade(room.job({"calc.py": GOOD})).verdict is PASS
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_tests_that_cannot_be_started_are_the_oracles_fault(oracle: FreshOracle, room: Room) -> None:
    job = room.job({"calc.py": GOOD})
    grade = oracle.grade(replace(job, params={**job.params, "python": "/no/such/python"}))
    assert (grade.verdict, grade.reason) == (UNSCORED, UnscoredReason.ORACLE_ERROR)


def test_what_a_run_leaves_running_is_ended(oracle: FreshOracle, room: Room, tmp_path: Path) -> None:
    late = f"import subprocess\nsubprocess.Popen(['sh', '-c', 'echo $$ > {tmp_path}/pid; sleep 60 & wait'])\n"
    late += f"import os, time\nwhile not os.path.exists('{tmp_path}/pid'):\n    time.sleep(0.01)\n"
    assert oracle.grade(room.job({"calc.py": GOOD + late.encode()})).verdict is PASS
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text()


# -- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "name", "also", "meant"),
    [
        ("a.py::test_x", "a.py::test_x", [], True),
        ("a.py::test_x", "a.py::test_xy", [], False),
        ("a.py::test_x[a", "a.py::test_x[a b]", [], True),
        ("a.py::test_x[a]", "a.py::test_x[a]b]", [], False),
        ("a.py::test_x[a", "a.py::test_x[b a]", [], False),
        ("test_x", "d/a.py::test_x", [], True),
        ("test_x", "d/a.py::test_x[1]", [], True),
        ("test_x", "d/a.py::test_xy", [], False),
        ("Sums two numbers.", "test_sum (t.Add)", ["Sums two numbers."], True),
        ("a.py::test_x", "b.py::test_x", [], False),
    ],
)
def test_which_reported_test_an_id_means(expected: str, name: str, also: list[str], meant: bool) -> None:
    assert suite.answers(expected, {"id": name, "also": also}) is meant


def test_every_test_that_a_cut_id_means_must_pass(oracle: FreshOracle, tmp_path: Path) -> None:
    tests = b"import pytest\n@pytest.mark.parametrize('x', ['a b', 'a c'])\ndef test_p(x):\n    assert x != %s\n"
    room = Room(tmp_path / "root", "pytest")
    for excluded, verdict in ((b"'a c'", FAIL), (b"'z'", PASS)):
        job = room.job({"calc.py": GOOD}, tests % excluded, expected=("tests/test_add.py::test_p[a",))
        assert oracle.grade(job).verdict is verdict


# -- jobs that no container could grade ------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"convention": "check"}, "not graded in a fresh container"),
        ({"image": None}, "names no image"),
        ({"params": {"root": "/r", "runner": "pytest"}}, "needs params files"),
        ({"params": {"root": "/r", "runner": "nose", "files": ["a.py"]}}, "known: pytest, unittest"),
    ],
)
def test_a_job_that_cannot_be_graded_says_why(
    oracle: FreshOracle, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    grade = oracle.grade(Room(tmp_path, "pytest").job({"calc.py": GOOD}, **changes))
    assert grade.reason is UnscoredReason.ORACLE_ERROR and words in grade.detail
