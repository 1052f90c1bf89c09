"""The grading server killed in the middle of gradings: every grade stays right and every restart is counted."""

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from recurve_eval.domain import OracleJob, OracleVerdict, Submission, UnscoredReason
from recurve_eval.oracle.bubblewrap import BubblewrapOracle
from recurve_eval.oracle.line import ServerLost
from recurve_eval.oracle.owner import Owner
from recurve_eval.oracle.process import ProcessOracle
from recurve_eval.oracle.protocol import request_of
from recurve_eval.oracle.warm import WarmOracle

KILLS = 10


def submission(solution: str) -> Submission:
    return Submission.of_reference("x", {"solution.py": solution.encode()})


def job(body: str) -> OracleJob:
    return OracleJob(
        task_id="t", submission=submission(f"import time\ntime.sleep(0.3)\ndef f(x):\n    return {body}\n"),
        held_out={"c.py": b"def check(candidate):\n    assert candidate(1) == 2\n"}, convention="check",
        params={"module": "solution", "entry_point": "f"}, expected=("check",),
    )  # fmt: skip


@pytest.fixture(params=[ProcessOracle, BubblewrapOracle], ids=["process", "bubblewrap"])
def oracle(request: pytest.FixtureRequest) -> Iterator[WarmOracle]:
    if request.param is BubblewrapOracle and shutil.which("bwrap") is None:
        if os.environ.get("RECURVE_REQUIRE_BWRAP") == "1":
            pytest.fail("bwrap is required and absent")
        pytest.skip("bwrap is not installed")
    backend = request.param(restarts=2)
    backend.start(1)
    yield backend
    backend.close()


def kill_servers(oracle: WarmOracle) -> None:
    for pool in oracle._pools:
        for pid in pool.pids():
            psutil.Process(pid).kill()


def test_killed_servers_change_no_grade(oracle: WarmOracle) -> None:
    oracle.grade(job("x"))
    heard: list[object] = []
    oracle.listeners.append(heard.append)
    with ThreadPoolExecutor(1) as thread:
        for number in range(KILLS):
            good = number % 2 == 0
            future = thread.submit(oracle.grade, job("x + 1" if good else "x"))
            time.sleep(0.15)
            assert not future.done()
            kill_servers(oracle)
            assert future.result().verdict is (OracleVerdict.PASS if good else OracleVerdict.FAIL)
    assert len(oracle.events) == KILLS
    assert heard == oracle.events
    assert all("killed by signal 9" in str(event["cause"]) and event["at"] for event in oracle.events)


@pytest.fixture
def contained() -> Iterator[ProcessOracle]:
    backend = ProcessOracle(restarts=2)
    backend.start(1)
    assert backend.grade(job("x")).verdict is OracleVerdict.FAIL
    yield backend
    backend.close()


def nursery(oracle: ProcessOracle, of: str) -> psutil.Process:
    """The one that forks ``of``; a server starts them in this order."""
    (pid,) = oracle._pools[0].pids()
    return psutil.Process(pid).children()[["candidates", "shared", "verifiers"].index(of)]


@pytest.mark.parametrize("of", ["candidates", "verifiers"])
def test_a_killed_nursery_is_a_killed_server(contained: ProcessOracle, of: str) -> None:
    """In the middle of a grading and between two."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(contained.grade, job("x + 1"))
        time.sleep(0.15)
        assert not future.done()
        nursery(contained, of).kill()
        assert future.result().verdict is OracleVerdict.PASS
    nursery(contained, of).kill()
    assert contained.grade(job("x + 1")).verdict is OracleVerdict.PASS
    assert ["killed by signal 9" in str(event["cause"]) for event in contained.events] == [True, True]


def test_a_server_that_can_make_no_verifier_ends_by_itself() -> None:
    """Though the child that was to run the submission waits for its job by then."""
    backend = ProcessOracle()
    held = backend.start_server(0, ())
    try:
        server = psutil.Process(held.pid)
        deadline = time.monotonic() + 10
        while len(nurseries := server.children()) < 3:  # it greets before it has made all of them
            assert time.monotonic() < deadline
            time.sleep(0.01)
        resource.prlimit(nurseries[2].pid, resource.RLIMIT_NOFILE, (4, 4))
        with pytest.raises(ServerLost, match="gave up: Leftover: OSError"):
            held.grade(request_of(job("x + 1"), 10), 10)
        assert server.wait(10) == 0
    finally:
        held.close()


def test_children_that_died_while_they_waited_are_replaced(contained: ProcessOracle) -> None:
    if not any(contained.env().facts["containment"].values()):
        pytest.skip("no children wait where nothing keeps gradings apart")
    for number in range(4):
        waiting = child_of(contained, ["candidates", "verifiers"][number % 2])
        waiting.kill()
        waiting.wait(10)
        assert contained.grade(job("x + 1")).verdict is OracleVerdict.PASS
    assert contained.events == []


def child_of(oracle: ProcessOracle, of: str) -> psutil.Process:
    """The one that waits, or serves, in a nursery."""
    deadline = time.monotonic() + 10
    while not (children := nursery(oracle, of).children()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return children[0]


def test_a_submission_whose_process_is_killed_before_it_has_its_job_has_not_failed(contained: ProcessOracle) -> None:
    """That it never ran is seen from the job, which was left unread."""
    if not any(contained.env().facts["containment"].values()):
        pytest.skip("no children wait where nothing keeps gradings apart")
    waiting = child_of(contained, "candidates")
    waiting.suspend()
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(contained.grade, job("x + 1"))
        time.sleep(0.3)
        assert not future.done()
        waiting.kill()
        assert future.result().verdict is OracleVerdict.PASS
    (event,) = contained.events
    assert "left unread what it was sent" in str(event["cause"])


@pytest.mark.parametrize("kills", [1, 2])
def test_a_verifier_that_is_killed_is_no_failure_of_the_submission(contained: ProcessOracle, kills: int) -> None:
    """Until it happens again: then the submission may have done it, and a failure must not buy tries."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(contained.grade, job("x + 1"))
        killed = set()
        while len(killed) < kills:
            time.sleep(0.15)
            assert not future.done()
            verifier = child_of(contained, "verifiers")
            if verifier.pid not in killed:
                verifier.kill()
                killed.add(verifier.pid)
        grade = future.result()
    assert grade.retried
    assert grade.verdict is (OracleVerdict.PASS if kills == 1 else OracleVerdict.FAIL)
    assert [(event["kind"], event["cause"]) for event in contained.events] == [("oracle_verifier_lost", "signal 9")]


def test_a_server_that_is_always_killed_is_infrastructure(oracle: WarmOracle) -> None:
    oracle.grade(job("x"))
    stop = threading.Event()

    def killer() -> None:
        while not stop.wait(0.02):
            kill_servers(oracle)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        grade = oracle.grade(job("x + 1"))
    finally:
        stop.set()
        thread.join()
    assert (grade.verdict, grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.INFRA)
    assert "3 tries" in grade.detail
    assert oracle.grade(job("x + 1")).verdict is OracleVerdict.PASS


def test_a_server_whose_host_is_gone_ends_by_itself() -> None:
    backend = ProcessOracle()
    backend.start(1)
    backend.grade(job("x"))
    (pid,) = backend._pools[0].pids()
    server = psutil.Process(pid)
    _, held = backend._pools[0]._servers[0]
    held.line.hang_up()
    assert server.wait(5) == 0
    backend.close()


_UNCONTAINED = """
import sys
sys.path.insert(0, {tests!r})
from test_oracle_kill import ProcessOracle, job
oracle = ProcessOracle(uid_base=0, restarts=2)
print(oracle.env().facts["containment"])
print(oracle.grade(job("x + 1")).verdict)
grade = oracle.grade(job("__import__('os').kill(__import__('os').getppid(), 9) or x + 1"))
print(grade.verdict, grade.detail)
oracle.close()
"""


def test_a_submission_that_ends_every_server_is_tampering() -> None:
    """Where neither a user id nor a namespace keeps it from the server; a user namespace without PID namespaces is such."""
    without = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    forbid = 'echo 0 > /proc/sys/user/max_pid_namespaces && exec "$0" -c "$1"'
    if subprocess.run([*without, forbid, "true", ""], capture_output=True, check=False).returncode:
        pytest.skip("user namespaces cannot be had here")
    script = _UNCONTAINED.format(tests=str(Path(__file__).parent))
    said = subprocess.run([*without, forbid, sys.executable, script], capture_output=True, text=True, check=True).stdout
    containment, honest, verdict = said.splitlines()
    assert "True" not in containment.replace("'ipc_namespace': True", "")
    assert honest == "pass"
    assert verdict.startswith(
        "tampered the grading server died (killed by signal 9); 3 tries; the control grading passed"
    )


def test_a_submission_that_uses_up_every_server_fails(oracle: WarmOracle) -> None:
    """Only where every try ended so; one that ended otherwise leaves a doubt, and that is infrastructure."""
    contained = {"uid_per_grading": True, "pid_namespace": True}
    used_up, killed = ServerLost("used up", exhausted=True), ServerLost("killed")
    grade = oracle._after_losses(job("x"), [used_up, used_up], contained)
    assert (grade.verdict, "the control grading passed" in grade.detail) == (OracleVerdict.FAIL, True)
    grade = oracle._after_losses(job("x"), [killed, used_up], contained)
    assert (grade.verdict, grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.INFRA)


def test_a_submission_that_leaves_more_than_can_be_removed_in_time_fails(
    oracle: WarmOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice is enough to tell, as with a time-out: each try costs a minute."""
    monkeypatch.setattr("recurve_eval.oracle.server.SWEEP_S", 0.0)
    litter = "import os\nfor i in range(40000):\n    os.makedirs(f'{i}/a')\nwhile True: pass\ndef f(x): pass\n"
    grade = oracle.grade(replace(job("x"), timeout_s=3.0, submission=submission(litter)))
    assert (grade.verdict, "2 tries; the control grading passed" in grade.detail) == (OracleVerdict.FAIL, True)
    assert [event["cause"] for event in oracle.events] == ["gave no answer in time"] * 2


def test_the_scratch_of_a_dead_owner_is_reaped(tmp_path: Path) -> None:
    script = (
        "import os\nfrom recurve_eval.oracle.process import ProcessOracle\n"
        f"o = ProcessOracle(scratch={str(tmp_path)!r}); o.start(1)\n"
        "with o._pool.lease(()) as server:\n    os.kill(server.pid, 9)\n    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("recurve-oracle-")
    backend = ProcessOracle(scratch=str(tmp_path))
    mine = tmp_path / f"{Owner.me().prefix}x"
    mine.mkdir()
    backend.start(1)
    backend.close()
    assert list(tmp_path.iterdir()) == [mine]
