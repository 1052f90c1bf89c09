"""The container killed in the middle of gradings: every grade stays right and every restart is counted."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import docker
import pytest
from dockerd import SCRIPT, lack, python_min, start  # noqa: F401 - a fixture

from recurve_eval.domain import OracleJob, OracleVerdict, Submission, UnscoredReason
from recurve_eval.oracle.docker import DockerOracle

pytestmark = [pytest.mark.docker, pytest.mark.slow]
GRADINGS, KILLS = 500, 20


def job(number: int, sleep_s: float = 0.0) -> OracleJob:
    """Odd ones are wrong."""
    solution = f"import time\ntime.sleep({sleep_s})\ndef f(x):\n    return x + {1 if number % 2 == 0 else 0}\n"
    return OracleJob(
        task_id=f"t{number}", submission=Submission.of_reference("x", {"solution.py": solution.encode()}),
        held_out={"c.py": b"def check(candidate):\n    assert candidate(1) == 2\n"}, convention="check",
        params={"module": "solution", "entry_point": "f"}, expected=("check",),
    )  # fmt: skip


@pytest.fixture
def client(python_min: str) -> Iterator[docker.DockerClient]:  # noqa: F811
    found = docker.from_env()
    yield found
    found.close()


@pytest.mark.timeout(600)
def test_twenty_kills_in_five_hundred_gradings(client: docker.DockerClient, python_min: str) -> None:  # noqa: F811
    """Each kill strikes while a grading runs: the one it strikes sleeps, so that it is still there."""
    oracle = DockerOracle(recipe="python-min")
    struck = {number * GRADINGS // KILLS + 5 for number in range(KILLS)}
    wrong = []
    try:
        oracle.start(1)
        with ThreadPoolExecutor(1) as thread:
            for number in range(GRADINGS):
                future = thread.submit(oracle.grade, job(number, 1.0 if number in struck else 0.0))
                if number in struck:
                    time.sleep(0.4)
                    assert not future.done()
                    (held,) = oracle._pools[0]._servers.values()
                    client.api.kill(held[1].line.identity, "SIGKILL")
                wanted = OracleVerdict.PASS if number % 2 == 0 else OracleVerdict.FAIL
                if future.result().verdict is not wanted:
                    wrong.append((number, future.result()))
    finally:
        oracle.close()
    assert wrong == []
    assert len(oracle.events) == KILLS
    assert {event["task_id"] for event in oracle.events} == {f"t{number}" for number in struck}
    assert all("killed by signal 9" in str(event["cause"]) for event in oracle.events)
    label = {"label": f"recurve.run={oracle._run_label}"}
    assert client.containers.list(all=True, ignore_removed=True, filters=label) == []


def test_a_death_is_noticed_at_once(client: docker.DockerClient, python_min: str) -> None:  # noqa: F811
    oracle = DockerOracle(recipe="python-min", restarts=0)
    try:
        oracle.grade(job(0))
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(oracle.grade, job(0, 30.0))
            time.sleep(0.3)
            (held,) = oracle._pools[0]._servers.values()
            client.api.kill(held[1].line.identity, "SIGKILL")
            killed = time.monotonic()
            grade = future.result()
            took = time.monotonic() - killed
        assert (grade.verdict, grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.INFRA)
        assert took < 5
    finally:
        oracle.close()


@pytest.fixture
def private(python_min: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:  # noqa: F811
    """A daemon of this test's own that holds the image, so that it can be stopped."""
    place = tmp_path_factory.mktemp("d")
    with closing(docker.from_env(timeout=300)) as theirs:
        archive = b"".join(theirs.images.get(python_min).save())
    address = start(place)
    try:
        with closing(docker.DockerClient(base_url=address, timeout=300)) as mine:
            mine.images.load(archive)
        yield place, address
    finally:
        subprocess.run([SCRIPT, "remove", place], check=True)


def test_a_daemon_restarted_in_the_middle_costs_no_grade(private: tuple[Path, str]) -> None:
    place, address = private
    oracle = DockerOracle(recipe="python-min", docker_host=address, wait_s=60.0)
    try:
        assert oracle.grade(job(0)).verdict is OracleVerdict.PASS
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(oracle.grade, job(0, 2.0))
            time.sleep(0.5)
            subprocess.run([SCRIPT, "stop", place], check=True, capture_output=True)
            assert not future.done()
            start(place)
            assert future.result().verdict is OracleVerdict.PASS
    finally:
        oracle.close()
    assert oracle.events


def test_a_daemon_that_stays_away_is_infrastructure(private: tuple[Path, str]) -> None:
    place, address = private
    oracle = DockerOracle(recipe="python-min", docker_host=address, wait_s=1.0)
    try:
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(oracle.grade, job(1, 3.0))
            time.sleep(1.5)
            subprocess.run([SCRIPT, "stop", place], check=True, capture_output=True)
            grade = future.result()
        assert (grade.verdict, grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.INFRA)
    finally:
        oracle.close()
