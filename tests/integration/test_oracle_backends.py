"""Real gradings through the process and bubblewrap backends."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from recurve_eval.domain import OracleJob, OracleVerdict, Submission, UnscoredReason
from recurve_eval.errors import OracleError
from recurve_eval.oracle import attack
from recurve_eval.oracle.bubblewrap import BubblewrapOracle
from recurve_eval.oracle.owner import Owner
from recurve_eval.oracle.process import ProcessOracle
from recurve_eval.oracle.warm import WarmOracle
from recurve_eval.ports import OracleBackend

GOOD = "def f(x):\n    return x + 1\n"
CHECK = b"def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(-1) == 0\n"
SECRET = "kq81" + "zvt5"


def job(solution: str | bytes, check: bytes = CHECK, timeout_s: float = 10.0, **params: str) -> OracleJob:
    content = solution.encode() if isinstance(solution, str) else solution
    return OracleJob(
        task_id="t", submission=Submission.of_reference("x", {"solution.py": content}), held_out={"c.py": check},
        convention="check", params={"module": "solution", "entry_point": "f", **params}, expected=("check",),
        timeout_s=timeout_s,
    )  # fmt: skip


@pytest.fixture(params=[ProcessOracle, BubblewrapOracle], scope="module", ids=["process", "bubblewrap"])
def oracle(request: pytest.FixtureRequest) -> Iterator[WarmOracle]:
    if request.param is BubblewrapOracle and shutil.which("bwrap") is None:
        if os.environ.get("RECURVE_REQUIRE_BWRAP") == "1":
            pytest.fail("bwrap is required and absent")
        pytest.skip("bwrap is not installed")
    backend = request.param()
    assert isinstance(backend, OracleBackend)
    assert backend.check() is None
    backend.start(2)
    yield backend
    backend.close()


@pytest.mark.parametrize("candidate", ["apart", "shared"])
def test_good_passes_and_bad_fails(oracle: WarmOracle, candidate: str) -> None:
    good = oracle.grade(job(GOOD, candidate=candidate))
    bad = oracle.grade(job("def f(x):\n    return x\n", candidate=candidate))
    assert (good.verdict, good.tests_passed, good.tests_total, good.detail) == (OracleVerdict.PASS, 1, 1, "")
    assert (bad.verdict, bad.failed) == (OracleVerdict.FAIL, ("check",))
    assert good.wall_s > 0


@pytest.mark.parametrize(
    "solution", ["", "def g(x):\n    return x + 1\n", "def f(x:\n", "raise ValueError('no')\n", b"\xff\xfe"]
)
@pytest.mark.parametrize("candidate", ["apart", "shared"])
def test_what_cannot_be_loaded_fails(oracle: WarmOracle, solution: str | bytes, candidate: str) -> None:
    grade = oracle.grade(job(solution, candidate=candidate))
    assert grade.verdict is OracleVerdict.FAIL
    assert grade.detail


def test_an_endless_submission_fails_after_a_second_try(oracle: WarmOracle) -> None:
    grade = oracle.grade(job("def f(x):\n    while True: pass\n", timeout_s=1.0))
    assert (grade.verdict, grade.retried) == (OracleVerdict.FAIL, True)
    assert "timed out twice (limit 1 s), control grading healthy" in grade.detail


@pytest.mark.parametrize("candidate", ["apart", "shared"])
def test_a_submission_that_stops_for_its_tracer_has_not_ended(oracle: WarmOracle, candidate: str) -> None:
    """A process may make its parent its tracer, and is then waited for when it stops as when it ends."""
    stops = "import ctypes, os, signal\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nos.kill(os.getpid(), signal.SIGUSR1)\n"
    grade = oracle.grade(job(stops + GOOD, timeout_s=0.5, candidate=candidate))
    assert (grade.verdict, grade.retried) == (OracleVerdict.FAIL, True)
    assert grade.detail.startswith("timed out twice")


def test_a_slow_grader_gives_no_verdict(oracle: WarmOracle) -> None:
    slow = replace(oracle, health_s=0.0)
    try:
        grade = slow.grade(job("import time\ntime.sleep(60)\n", timeout_s=0.5))
    finally:
        slow.close()
    assert (grade.verdict, grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.ORACLE_TIMEOUT)


@pytest.mark.parametrize("check", [b"def check(:\n", b"x = 1\n", b"def check(candidate):\n    candidate(1)\n"])
@pytest.mark.parametrize("candidate", ["apart", "shared"])
def test_a_fault_of_the_tests_is_no_verdict(oracle: WarmOracle, check: bytes, candidate: str) -> None:
    grade = oracle.grade(job(GOOD, check, candidate=candidate))
    assert (grade.verdict, grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.ORACLE_ERROR)


def test_output_is_kept_bounded_and_valid(oracle: WarmOracle) -> None:
    noisy = (
        "import os, sys\nprint('hello')\nos.write(1, b'\\xff' + b'A' * 200000)\nprint('words', file=sys.stderr)\n"
        + GOOD
    )
    grade = oracle.grade(job(noisy))
    assert grade.verdict is OracleVerdict.PASS
    assert grade.stdout.startswith("hello\n\ufffdA")
    assert len(grade.stdout) <= 64 * 1024
    assert "words" in grade.stderr


def test_arguments_changed_in_place_and_exceptions_are_seen_apart(oracle: WarmOracle) -> None:
    check = (
        b"def check(candidate):\n    a = [3, 1]\n    assert candidate(a) is None\n    assert a == [1, 3]\n"
        b"    try:\n        candidate(None)\n    except AttributeError:\n        return\n    assert False\n"
    )
    assert oracle.grade(job("def f(x):\n    x.sort()\n", check)).verdict is OracleVerdict.PASS
    assert oracle.grade(job("def f(x):\n    return sorted(x)\n", check)).verdict is OracleVerdict.FAIL


@pytest.mark.parametrize("name", [".tmp", "..name", "long/" * 1000 + "name", "a" * 300])
def test_a_file_that_cannot_be_laid_is_left_out(oracle: WarmOracle, name: str) -> None:
    """What an agent calls its files must not turn a failure into no verdict."""
    files = {"solution.py": b"def f(x):\n    return x\n", name: b"1"}
    bad = replace(job(GOOD), submission=Submission.of_reference("x", files))
    good = replace(job(GOOD), submission=Submission.of_reference("x", {**files, "solution.py": GOOD.encode()}))
    assert (oracle.grade(bad).verdict, oracle.grade(good).verdict) == (OracleVerdict.FAIL, OracleVerdict.PASS)
    assert oracle.events == []


def test_a_file_of_the_task_wins_over_one_in_its_way(oracle: WarmOracle) -> None:
    reads = "def f(x):\n    return x + int(open('data/one').read())\n"
    with_file = Submission.of_reference("x", {"solution.py": reads.encode(), "data": b"in the way"})
    grade = oracle.grade(replace(job(reads), submission=with_file, support={"data/one": b"1"}))
    assert (grade.verdict, grade.detail) == (OracleVerdict.PASS, "")


def test_a_submission_may_have_a_file_of_any_name_beside_tests_in_its_namespace(oracle: WarmOracle) -> None:
    cases = b"import os\nimport unittest\n\n\nclass T(unittest.TestCase):\n"
    cases += b"    def test_f(self):\n        self.assertEqual((f(1), os.listdir()), (2, []))\n"
    held = replace(job(GOOD, case="T"), convention="namespace", held_out={"t.py": cases}, expected=("T.test_f",))
    files = {"solution.py": GOOD.encode(), "run": b"1", "run_/x": b"2"}
    grade = oracle.grade(replace(held, submission=Submission.of_reference("x", files)))
    assert (grade.verdict, grade.detail) == (OracleVerdict.PASS, "")


def test_a_function_in_place_of_a_value_is_the_submissions_failure(oracle: WarmOracle) -> None:
    """Tests may hand over what the submission defines; what that is is its own doing."""
    tests = (
        b"import unittest\nfrom solution import VALUE, f\n\n\nclass T(unittest.TestCase):\n"
        b"    def test_value(self):\n        self.assertEqual(f(VALUE), 2)\n"
    )
    held = replace(job(GOOD, candidate="apart"), convention="unittest", held_out={"t.py": tests})
    held = replace(held, expected=("T.test_value",))
    for value, verdict in (("1", OracleVerdict.PASS), ("len", OracleVerdict.FAIL)):
        given = Submission.of_reference("x", {"solution.py": f"{GOOD}VALUE = {value}\n".encode()})
        assert oracle.grade(replace(held, submission=given)).verdict is verdict


def test_an_exception_without_words_is_no_answer(oracle: WarmOracle) -> None:
    (exploit,) = (each for each in attack.load_exploits() if each.name == "silent_exception")
    graded = {result.task: result.grade.verdict for result in attack.run_battery(oracle, [exploit])}
    assert graded["reference/apart"] is OracleVerdict.FAIL


_SPAWNS = """
import multiprocessing
import __main__

def double(x):
    return 2 * x

def f(x):
    assert __main__.__name__ == "__main__"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(double, [x])[0] - x + 1
"""
_ENCODES = """
import io
import sys
sys.stdout.reconfigure(encoding="utf-8")
sys.stderr = io.TextIOWrapper(sys.stderr.buffer, encoding="utf-8", line_buffering=True)

def f(x):
    print("\\u00e9")
    print("\\u00e8", file=sys.stderr)
    return x + 1
"""
_TELLS_MORE = """
import unittest
unittest.TestCase.maxDiff = None
unittest.util._MAX_LENGTH = 2000

def f(x):
    return x + 1
"""


@pytest.mark.parametrize("solution", [_SPAWNS, _ENCODES, _TELLS_MORE], ids=["spawns", "encodes", "tells_more"])
@pytest.mark.parametrize("convention", ["check", "unittest"])
@pytest.mark.parametrize("candidate", ["apart", "shared"])
def test_what_programs_commonly_do_is_no_failure(
    oracle: WarmOracle, solution: str, convention: str, candidate: str
) -> None:
    held = job(solution, candidate=candidate)
    if convention == "unittest":
        cases = b"import unittest\nfrom solution import f\n\n\nclass T(unittest.TestCase):\n"
        cases += b"    def test_f(self):\n        self.assertEqual(f(1), 2)\n"
        held = replace(held, convention="unittest", held_out={"t.py": cases}, expected=("T.test_f",))
    grade = oracle.grade(held)
    assert (grade.verdict, grade.detail) == (OracleVerdict.PASS, "")
    if solution is _ENCODES:
        assert ("\u00e9" in grade.stdout, "\u00e8" in grade.stderr) == (True, True)


def test_the_control_is_graded_beside_what_the_task_preloads() -> None:
    """A server that has to be started for it would be taken for a slow one, and the time-out for no verdict."""
    backend = ProcessOracle()
    backend.start(1)
    try:
        endless = replace(job("def f(x):\n    while True: pass\n", timeout_s=0.5), preload=("json",))
        assert backend.grade(endless).verdict is OracleVerdict.FAIL
        assert backend._pool.starts == 1
    finally:
        backend.close()


def test_the_environment_is_fixed_and_its_own(oracle: WarmOracle) -> None:
    os.environ["RECURVE_CANARY"] = "1"
    check = b"""
def check(candidate):
    seen = candidate(0)
    assert "RECURVE_CANARY" not in seen
    assert (seen["TZ"], seen["LC_ALL"], seen["PYTHONHASHSEED"], seen["MPLBACKEND"]) == ("UTC", "C.UTF-8", "0", "Agg")
    assert seen["HOME"] == seen["cwd"] and seen["umask"] == 0o77 and seen["listing"] == [".tmp", "solution.py"]
"""
    solution = """
import os, sys
def f(x):
    assert not any("site-packages" in path for path in sys.path)
    return dict(os.environ, cwd=os.getcwd(), umask=os.umask(0), listing=sorted(os.listdir(".")))
"""
    try:
        grade = oracle.grade(job(solution, check))
    finally:
        del os.environ["RECURVE_CANARY"]
    assert (grade.verdict, grade.detail) == (OracleVerdict.PASS, "")


def test_a_submission_in_a_process_of_its_own_has_one_processor(oracle: WarmOracle) -> None:
    before = os.sched_getaffinity(0)
    solution = "import os\ndef f(x):\n    assert len(os.sched_getaffinity(0)) == 1\n    return x + 1\n"
    assert oracle.grade(job(solution)).verdict is OracleVerdict.PASS
    assert oracle.env().facts["processors"] == {"apart": 1}
    assert os.sched_getaffinity(0) == before, "nothing is taken from this process"


def test_every_grading_draws_its_own_random_numbers(oracle: WarmOracle) -> None:
    solution = "import random\nprint(random.random())\n" + GOOD
    printed = [oracle.grade(job(solution)).stdout for _ in range(4)]
    assert len(set(printed)) == 4
    assert all(0 < float(text) < 1 for text in printed)


def test_numpy_too_draws_other_numbers_each_time() -> None:
    numpy = pytest.importorskip("numpy")
    backend = ProcessOracle(paths=[str(Path(numpy.__file__).parents[1])], concurrency=1)
    solution = "import numpy\nprint(numpy.random.random())\n" + GOOD
    try:
        grades = [backend.grade(replace(job(solution), preload=("numpy.random",))) for _ in range(3)]
    finally:
        backend.close()
    assert [grade.verdict for grade in grades] == [OracleVerdict.PASS] * 3, grades[0].detail
    assert len({grade.stdout for grade in grades}) == 3


# As matplotlib and others do.
HOMELY = """
import pathlib, tempfile
kept = pathlib.Path.home() / ".config" / "homely"
kept.mkdir(parents=True)
(kept / "cache").write_text("x")
tempfile.mkstemp()
"""


@pytest.mark.parametrize("kind", [ProcessOracle, BubblewrapOracle], ids=["process", "bubblewrap"])
def test_a_library_that_makes_files_when_it_is_imported_can_be_preloaded(
    kind: type[WarmOracle], request: pytest.FixtureRequest
) -> None:
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    request.addfinalizer(lambda: shutil.rmtree(place))
    place.chmod(0o755)
    (place / "homely.py").write_text(HOMELY)
    backend = kind(paths=[str(place)], concurrency=1)
    if kind is BubblewrapOracle and shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    solution = "import os, homely\nassert sorted(os.listdir(os.environ['HOME'])) == ['.tmp', 'solution.py']\n"
    solution += "assert not os.listdir(os.environ['TMPDIR']) and not homely.kept.exists()\n" + GOOD
    try:
        jobs = [job(solution, candidate=candidate) for candidate in ("apart", "shared", "apart", "shared")]
        grades = [backend.grade(replace(each, preload=("homely",))) for each in jobs]
    finally:
        backend.close()
    assert [(grade.verdict, grade.detail) for grade in grades] == [(OracleVerdict.PASS, "")] * 4


def test_bubblewrap_says_which_directory_it_would_hide() -> None:
    lack = BubblewrapOracle(bwrap="true", paths=["/usr/lib", "/tmp/libraries"]).check()
    assert lack == "oracle.paths: /tmp/libraries lies below /tmp, which each grading has for itself; put it elsewhere"


# Looks for a word by its first half followed by its second half spelt backwards, so that the search
# itself never puts the whole word into memory.
MEMORY = """
import ctypes
OWN = "".join(["mine", "1234"])
def occurs(text, head, backwards):
    at = text.find(head)
    while at >= 0:
        if text[at + 4:at + 8][::-1] == backwards:
            return True
        at = text.find(head, at + 1)
    return False
def f(x):
    found = [False, False]
    with open("/proc/self/maps") as maps:
        regions = [line.split() for line in maps]
    for region in regions:
        start, end = (int(word, 16) for word in region[0].split("-"))
        if region[1].startswith("rw") and "[v" not in region[-1]:
            text = ctypes.string_at(start, end - start)
            found[0] |= occurs(text, b"mine", b"4321")
            found[1] |= occurs(text, b"kq81", b"5tvz")
    print("own", found[0], "held out", found[1])
    return x + 1
"""


def test_a_candidate_apart_holds_no_held_out_byte_in_its_memory(oracle: WarmOracle) -> None:
    secret = CHECK + f"MARK = '{SECRET}'\n".encode()
    for candidate in ("apart", "shared", "apart"):  # the last has gradings of the same tests behind it
        grade = oracle.grade(job(MEMORY, secret, candidate=candidate))
        if candidate == "apart":
            assert grade.verdict is OracleVerdict.PASS, grade.detail + grade.stderr
            assert set(grade.stdout.splitlines()) == {"own True held out False"}


def test_the_memory_search_finds_what_is_there(oracle: WarmOracle) -> None:
    telling = b"def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(-1) == 0\n" + (
        b"    try:\n        candidate('" + SECRET.encode() + b"')\n    except TypeError:\n        pass\n"
    )
    assert "held out True" in oracle.grade(job(MEMORY, telling)).stdout


# -- how long a verifier serves ------------------------------------------------------------------

LEAKS = {
    "a constant": "import math\n    math.pi = 3.0",
    "a builtin": "import builtins\n    builtins.sum = max",
    "a function of a module": "import random\n    random.random = lambda: 0.5",
    "the recursion limit": "import sys\n    sys.setrecursionlimit(150)",
    "a variable of the environment": "import os\n    os.environ['LEFT_BEHIND'] = '1'",
    "a thread": "import threading, time\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "a finder": "import sys\n    sys.meta_path.insert(0, type('F', (), {'find_spec': None})())",
    "a module": "import sys\n    sys.modules['heapq'] = sys",
}
UNTOUCHED = b"""
def check(candidate):
    import builtins, heapq, math, os, random, sys, threading
    assert candidate(1) == 2 and candidate(-1) == 0
    assert math.pi > 3.14 and builtins.sum([1, 2]) == 3 and len({random.random() for _ in range(9)}) == 9
    assert sys.getrecursionlimit() > 500 and 'LEFT_BEHIND' not in os.environ and threading.active_count() == 1
    assert heapq.heappush and all(finder.find_spec for finder in sys.meta_path)
"""


@pytest.fixture
def alone(oracle: WarmOracle) -> Iterator[WarmOracle]:
    backend = replace(oracle, concurrency=1)
    backend.start(1)
    yield backend
    backend.close()


def verifiers(oracle: WarmOracle) -> list[int]:
    """Process ids of what the last of a server's nurseries has forked."""
    (server,) = (psutil.Process(pid) for pid in oracle._pools[0].pids())
    while len(server.children()) == 1:  # in a sandbox, below its init
        (server,) = server.children()
    return [child.pid for child in server.children()[2].children()]


def test_a_verifier_serves_on_while_its_tests_leave_nothing(alone: WarmOracle) -> None:
    served = []
    for solution in (GOOD, "def f(x):\n    return x\n", "raise ValueError\n", "def f(x):\n    return object()\n", GOOD):
        grade = alone.grade(job(solution))
        assert (grade.verdict is OracleVerdict.PASS) == (solution == GOOD)
        served.append(verifiers(alone))
    assert len({tuple(pids) for pids in served}) == 1 and len(served[0]) == 1
    alone.grade(job(GOOD, CHECK + b"import sys\n"))
    alone.grade(job(GOOD))
    assert verifiers(alone) != served[0]


@pytest.mark.parametrize("left", LEAKS)
def test_what_tests_leave_behind_reaches_no_other_grading(alone: WarmOracle, left: str) -> None:
    leaking = f"def check(candidate):\n    assert candidate(1) == 2\n    {LEAKS[left]}\n".encode()
    assert alone.grade(job(GOOD, leaking)).verdict is OracleVerdict.PASS
    grade = alone.grade(job(GOOD, UNTOUCHED))
    assert grade.verdict is OracleVerdict.PASS, grade.detail


def test_a_verifier_that_serves_on_draws_other_numbers(alone: WarmOracle) -> None:
    drawing = CHECK + b"    import random\n    print(random.random())\n"
    drawn = [alone.grade(job(GOOD, drawing)).stdout for _ in range(4)]
    assert len(set(drawn)) == 4 and all(0 <= float(number) < 1 for number in drawn)


def test_a_verifier_that_was_lost_is_replaced(alone: WarmOracle) -> None:
    asks_for_ever = b"def check(candidate):\n    while candidate(1) != 7:\n        pass\n    assert candidate(3)\n"
    alone.grade(job(GOOD))
    (before,) = verifiers(alone)
    assert alone.grade(job(GOOD, asks_for_ever, timeout_s=0.5)).verdict is OracleVerdict.FAIL
    assert alone.grade(job(GOOD)).verdict is OracleVerdict.PASS
    (after,) = verifiers(alone)
    assert after != before
    lost = psutil.Process(after)
    lost.kill()
    while lost.is_running() and lost.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert alone.grade(job(GOOD)).verdict is OracleVerdict.PASS
    assert alone.events == []


def test_nothing_outlives_a_grading(oracle: WarmOracle) -> None:
    left = (
        """
import os, time, tempfile
print(os.getuid())
open("/tmp/left-by-a-grading", "w").close() if os.path.ismount("/tmp") else None
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
"""
        + GOOD
    )
    grade = oracle.grade(job(left))
    assert grade.verdict is OracleVerdict.PASS
    look = b"def check(candidate):\n    assert candidate(0) == []\n"
    assert (
        oracle.grade(
            job("import os\ndef f(x):\n    return os.listdir('/tmp') if os.path.ismount('/tmp') else []\n", look)
        ).verdict
        is OracleVerdict.PASS
    )
    servers = [psutil.Process(pid) for pool in oracle._pools for pid in pool.pids()]
    inner = [child for server in servers for child in server.children(recursive=True)]
    used = int(grade.stdout.splitlines()[0])
    users = [p.uids().real for p in inner if p.is_running() and p.uids().real not in (0, os.getuid())]
    assert used not in users
    # What waits for a grading to come is of a user that has had none: one child of each kind at most.
    assert len(users) == len(set(users)) <= 3 * len(servers)


def test_two_workers_grade_at_once_and_a_time_out_is_tried_alone(oracle: WarmOracle) -> None:
    jobs = [job(GOOD)] * 12 + [job("import time\ntime.sleep(9)\n", timeout_s=0.7)] + [job(GOOD)] * 12
    with ThreadPoolExecutor(4) as threads:
        grades = list(threads.map(oracle.grade, jobs))
    assert [g.verdict for g in grades] == [OracleVerdict.PASS] * 12 + [OracleVerdict.FAIL] + [OracleVerdict.PASS] * 12
    assert oracle._pools[0].starts <= 4


def test_several_runs_take_the_majority(oracle: WarmOracle) -> None:
    several = replace(oracle, runs=5)
    try:
        steady = several.grade(job(GOOD))
        flaky = several.grade(
            job(
                "import os\ndef f(x):\n    return x + (os.urandom(1)[0] % 2)\n",
                b"def check(c):\n    assert c(1) == 2\n",
            )
        )
    finally:
        several.close()
    assert (steady.verdict, steady.runs, steady.flake_rate) == (OracleVerdict.PASS, 5, 0.0)
    assert flaky.runs == 5
    assert flaky.flake_rate in (0.0, pytest.approx(0.2), pytest.approx(0.4))


def test_a_server_that_cannot_start_is_infrastructure() -> None:
    broken = ProcessOracle(python="/bin/false", restarts=1)
    grade = broken.grade(job(GOOD))
    assert (grade.verdict, grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.INFRA)
    with pytest.raises(OracleError, match="exit code 1"):
        broken.env()
    broken.close()


def test_the_env_names_what_can_change_a_verdict(oracle: WarmOracle) -> None:
    env = oracle.env()
    assert {"python", "machine", "runner", "environment", "limits", "runs", "timeout_policy", "concurrency", "canary_version",
            "containment", "preload", "preloaded"} <= set(env.facts)  # fmt: skip
    assert oracle.env(("json",)).hash != env.hash
    other = replace(oracle, memory_mb=1234)
    assert other.env().hash != env.hash
    other.close()


def test_closing_leaves_no_process_and_no_file() -> None:
    before = set(Path("/dev/shm").glob(f"{Owner.me().prefix}*"))
    backend = ProcessOracle()
    assert backend.grade(job(GOOD)).verdict is OracleVerdict.PASS
    (pid,) = backend._pools[0].pids()
    backend.close()
    assert not psutil.pid_exists(pid)
    assert set(Path("/dev/shm").glob(f"{Owner.me().prefix}*")) - before == set()
