"""The grading server killed in the middle of gradings: every grade stays right and every restart is counted."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from recurve_eval.domain import OracleJob, OracleVerdict, Submission, UnscoredReason
from recurve_eval.oracle.bubblewrap import BubblewrapOracle
from recurve_eval.oracle.process import ProcessOracle
from recurve_eval.oracle.warm import WarmOracle

KILLS = 10


def job(body: str) -> OracleJob:
    solution = f"import time\ntime.sleep(0.3)\ndef f(x):\n    return {body}\n"
    return OracleJob(
        task_id="t", submission=Submission.of_reference("x", {"solution.py": solution.encode()}),
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
    oracle.env()
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


def test_a_server_that_is_always_killed_is_infrastructure(oracle: WarmOracle) -> None:
    oracle.env()
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
    backend.env()
    (pid,) = backend._pools[0].pids()
    server = psutil.Process(pid)
    _, held = backend._pools[0]._servers[0]
    assert held._process.stdin is not None
    held._process.stdin.close()
    assert server.wait(5) == 0
    backend.close()
