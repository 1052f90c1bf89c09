"""The benchmarks' conventions in a warm container of the pinned image."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dockerd import python_min  # noqa: F401 - a fixture

from recurve_eval.domain import OracleJob, OracleVerdict, Submission
from recurve_eval.oracle import attack
from recurve_eval.oracle.docker import DockerOracle

pytestmark = pytest.mark.docker
SERVER = """
import socket


def task_func(port=12345):
    server = socket.socket()  # not create_server, which would take a port in TIME_WAIT
    server.bind(("localhost", port))
    server.listen()
    client = socket.create_connection(("localhost", port))
    accepted, _ = server.accept()
    accepted.close()
    client.recv(1)
    client.close()
    server.close()
    return port
"""
TEST = b"""
import unittest


class TestCases(unittest.TestCase):
    def test_port(self):
        self.assertEqual(task_func(), 12345)
"""


@pytest.fixture(scope="module")
def oracle(python_min: str) -> Iterator[DockerOracle]:  # noqa: F811
    backend = DockerOracle(recipe="python-min")
    backend.start(1)
    yield backend
    backend.close()


def test_a_port_is_free_again_for_the_next_grading(oracle: DockerOracle) -> None:
    job = OracleJob(
        task_id="port", submission=Submission.of_reference("canonical", {"solution.py": SERVER.encode()}),
        held_out={"test_port.py": TEST}, convention="namespace", params={"module": "solution", "case": "TestCases"},
        expected=("TestCases.test_port",),
    )  # fmt: skip
    grades = [oracle.grade(job) for _ in range(3)]
    assert [(g.verdict, g.detail) for g in grades] == [(OracleVerdict.PASS, "")] * 3


def test_right_and_wrong_by_reference_and_in_one_namespace(oracle: DockerOracle) -> None:
    for name in ("reference/apart", "namespace/shared"):
        job_of = attack.attack_tasks()[name]
        good = oracle.grade(job_of(Submission.of_reference("canonical", attack.CANONICAL)))
        bad = oracle.grade(job_of(Submission.of_reference("known_bad", attack.PLAIN_WRONG)))
        assert (good.verdict, bad.verdict) == (OracleVerdict.PASS, OracleVerdict.FAIL), name
