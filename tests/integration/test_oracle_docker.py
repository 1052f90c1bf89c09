"""Real gradings in a warm container, and what is refused before one is used."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import psutil
import pytest
from dockerd import python_min  # noqa: F401 - a fixture

from recurve_eval.domain import OracleJob, OracleVerdict, Submission, UnscoredReason
from recurve_eval.errors import ConfigError, Drift, Refused
from recurve_eval.oracle import container
from recurve_eval.oracle.container import Contained, ContainerLine
from recurve_eval.oracle.daemon import labels, reap_orphans
from recurve_eval.oracle.docker import CAPABILITIES, WORK, DockerOracle
from recurve_eval.oracle.line import ServerLost
from recurve_eval.ports import OracleBackend

pytestmark = pytest.mark.docker
CHECK = b"def check(candidate):\n    assert candidate(1) == 2\n"
GOOD = "def f(x):\n    return x + 1\n"


def job(solution: str, check: bytes = CHECK, timeout_s: float = 10.0, **params: str) -> OracleJob:
    return OracleJob(
        task_id="t", submission=Submission.of_reference("x", {"solution.py": solution.encode()}),
        held_out={"c.py": check}, convention="check", params={"module": "solution", "entry_point": "f", **params},
        expected=("check",), timeout_s=timeout_s,
    )  # fmt: skip


def says(expression: str, setup: str = "") -> str:
    return f"import os\n{setup}\nprint({expression})\ndef f(x):\n    return x + 1\n"


@pytest.fixture(scope="module")
def oracle(python_min: str) -> Iterator[DockerOracle]:  # noqa: F811
    backend = DockerOracle(recipe="python-min")
    assert isinstance(backend, OracleBackend)
    assert backend.check() is None
    backend.start(2)
    yield backend
    backend.close()


@pytest.fixture
def client(python_min: str) -> Iterator[docker.DockerClient]:  # noqa: F811
    found = docker.from_env()
    yield found
    found.close()


def of_run(client: docker.DockerClient, oracle: DockerOracle) -> list[docker.models.containers.Container]:
    return list(
        client.containers.list(all=True, ignore_removed=True, filters={"label": f"recurve.run={oracle._run_label}"})
    )


@pytest.mark.parametrize("candidate", ["apart", "shared"])
def test_good_passes_and_bad_fails(oracle: DockerOracle, candidate: str) -> None:
    assert oracle.grade(job(GOOD, candidate=candidate)).verdict is OracleVerdict.PASS
    assert oracle.grade(job("def f(x):\n    return x\n", candidate=candidate)).verdict is OracleVerdict.FAIL


# -- the line ------------------------------------------------------------------------------------


def line_of(oracle: DockerOracle) -> ContainerLine:
    with oracle._pool.lease(()) as server:
        assert isinstance(server.line, ContainerLine)
        return server.line


@pytest.fixture
def attached(python_min: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerOracle]:  # noqa: F811
    """One whose container is of another machine, as far as it can see."""
    monkeypatch.setattr(container, "_reached", lambda pid, path: None)
    backend = DockerOracle(recipe="python-min", concurrency=1, restarts=1)
    backend.start(1)
    yield backend
    backend.close()


def test_gradings_pass_nobody_on_their_way_where_the_container_can_be_reached(oracle: DockerOracle) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root looks into a container")
    assert oracle.grade(job(GOOD)).verdict is OracleVerdict.PASS
    assert line_of(oracle)._direct is not None
    assert oracle.grade(job(says("sorted(os.listdir('/'))"))).stdout
    held = says("[os.readlink('/proc/self/fd/%s' % n) for n in '3456789' if os.path.exists('/proc/self/fd/' + n)]")
    assert oracle.grade(job(held)).stdout.count("socket:") <= 1  # its own line, and none of the host's


def test_gradings_go_by_the_attached_stream_where_it_cannot(attached: DockerOracle) -> None:
    for candidate in ("apart", "shared", "apart"):
        assert attached.grade(job(GOOD, candidate=candidate)).verdict is OracleVerdict.PASS
    assert line_of(attached)._direct is None
    os.kill(line_of(attached).pid, signal.SIGKILL)
    assert attached.grade(job(GOOD)).verdict is OracleVerdict.PASS
    assert ["killed by signal 9" in str(event["cause"]) for event in attached.events] == [True]


def test_a_line_is_taken_from_the_container_alone(tmp_path: Path) -> None:
    """A socket at the same place of another process is nobody's, and so is none at all."""
    place = tmp_path / "line"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(place))
        door.listen(2)
        reached = container._reached(os.getpid(), str(place))
        assert reached is not None
        reached.close()
        with subprocess.Popen(["sleep", "60"]) as other:
            assert container._reached(other.pid, str(place)) is None
            other.kill()
    assert container._reached(os.getpid(), str(tmp_path / "no line")) is None


def test_the_environment_is_stated(oracle: DockerOracle, python_min: str) -> None:  # noqa: F811
    env = oracle.env()
    assert env.image_digest == python_min
    assert env.facts["python"].startswith("3.11.")
    assert env.facts["platform"] == "linux/amd64"
    assert env.facts["emulated"] is False
    assert env.facts["concurrency"] == 2
    assert {"runner", "limits", "timeout_policy", "container"} <= set(env.facts)
    assert env.hash == oracle.env().hash == replace(oracle, name="docker").env().hash
    assert replace(oracle, container_mb=5000).env().hash != env.hash


def test_the_walls_are_up(oracle: DockerOracle, client: docker.DockerClient) -> None:
    oracle.grade(job(GOOD))
    (container,) = of_run(client, oracle)[:1]
    host = container.attrs["HostConfig"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert sorted(host["CapAdd"]) == sorted(CAPABILITIES)
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["Memory"] == host["MemorySwap"] == 4096 << 20
    assert host["PidsLimit"] == 256
    assert host["NanoCpus"] == 2_000_000_000
    assert host["AutoRemove"]
    assert not host["Binds"]


@pytest.mark.parametrize(
    ("expression", "setup", "wanted"),
    [
        ("os.getuid() >= 60000, os.getgroups(), os.getcwd()", "", f"True [] {WORK}/task"),
        ("status()", "def status():\n    lines = open('/proc/thread-self/status').read().split('\\n')\n"
         "    return [w for l in lines if l[:4] == 'CapE' or l[:8] == 'NoNewPri' or l[:8] == 'Seccomp:' for w in l.split()[1:]]",
         "['0000000000000000', '1', '2']"),
        ("os.environ['TZ'], os.environ['PYTHONHASHSEED'], os.environ['HOME'], oct(os.umask(0))", "",
         f"UTC 0 {WORK}/task 0o77"),
        ("sorted(os.listdir('/sys/class/net'))", "", "['lo']"),
    ],
)  # fmt: skip
def test_what_a_submission_finds(oracle: DockerOracle, expression: str, setup: str, wanted: str) -> None:
    assert oracle.grade(job(says(expression, setup))).stdout.strip() == wanted


@pytest.mark.parametrize(
    "path", ["/x", "/usr/x", "/etc/x", "/dev/x", "/dev/mqueue/x", "/proc/1/mem", f"{WORK}/x", "/run/x"]
)
def test_nothing_else_can_be_written(oracle: DockerOracle, path: str) -> None:
    grade = oracle.grade(job(f"open({path!r}, 'w')\n" + GOOD))
    assert grade.verdict is OracleVerdict.FAIL
    assert "Error" in grade.detail


@pytest.mark.parametrize("call", ["shmget(0, 4096, 0o1666)", "semget(0, 1, 0o1666)", "msgget(0, 0o1666)",
                                  "mq_open(b'/left', 0o102, 0o666, None)"])  # fmt: skip
def test_no_ipc_object_can_be_made(oracle: DockerOracle, call: str) -> None:
    grade = oracle.grade(job(says(f"libc.{call}", "import ctypes\nlibc = ctypes.CDLL(None)")))
    assert grade.stdout.strip() == "-1"


def test_nothing_outlives_a_grading(oracle: DockerOracle) -> None:
    leaving = "import os, time\nfor d in ('/tmp', '/dev/shm', '.'):\n    open(d + '/left', 'w').write('x')\n"
    leaving += "for _ in range(5):\n    if not os.fork():\n        os.setsid()\n"
    leaving += "        if not os.fork():\n            time.sleep(60)\n        os._exit(0)\n"
    assert oracle.grade(job(leaving + GOOD)).verdict is OracleVerdict.PASS
    others = "[p for p in os.listdir('/proc') if p.isdigit() and os.stat('/proc/' + p).st_uid >= 60000]"
    looking = says(
        f"os.listdir('/tmp'), os.listdir('/dev/shm'), len({others}) < 4"
    )  # itself, its verifier, one that waits
    for _ in range(3):
        assert oracle.grade(job(looking)).stdout.strip() == "[] [] True"


def test_what_goes_on_in_a_copy_is_graded_as_long_as_the_grading_lasts(oracle: DockerOracle) -> None:
    """Without a PID namespace a copy outlives its original, and no race with its end decides."""
    goes_on = "import os, time\nif os.fork():\n    os._exit(0)\ntime.sleep(0.1)\n"
    grade = oracle.grade(job(goes_on + GOOD))
    assert (grade.verdict, grade.detail) == (OracleVerdict.PASS, "")


def test_memory_beyond_the_container_is_a_failure(python_min: str) -> None:  # noqa: F811
    backend = DockerOracle(recipe="python-min", container_mb=160, memory_mb=1024, restarts=1)
    try:
        greedy = "held = []\nfor _ in range(600):\n    held.append(bytearray(1 << 20))\n"
        assert backend.grade(job(greedy + GOOD)).verdict is OracleVerdict.FAIL
        assert backend.grade(job(GOOD)).verdict is OracleVerdict.PASS
    finally:
        backend.close()


def test_a_tag_alone_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="mutable tag"):
        DockerOracle(image="python:3.11").env()
    with pytest.raises(ConfigError, match="not both"):
        DockerOracle(recipe="python-min", image="sha256:" + "0" * 64).env()
    assert "mutable tag" in str(DockerOracle(image="recurve-eval/python-min:latest").check())


def test_a_missing_image_names_the_command(python_min: str) -> None:  # noqa: F811
    assert "pull or load it" in str(DockerOracle(image="sha256:" + "0" * 64).check())


def test_no_daemon_is_named() -> None:
    backend = DockerOracle(recipe="python-min", docker_host="unix:///nonexistent/docker.sock")
    assert "scripts/dockerd" in str(backend.check())
    with pytest.raises(Refused, match="does not answer"):
        backend.env()


def test_a_daemon_that_is_gone_is_waited_for_and_never_a_failure(python_min: str) -> None:  # noqa: F811
    backend = DockerOracle(recipe="python-min", wait_s=0.5)
    backend.start(1)
    try:
        backend.docker_host = "unix:///nonexistent/docker.sock"
        started = time.monotonic()
        grade = backend.grade(job("def f(x):\n    return x\n"))
        assert (grade.verdict, grade.reason) == (OracleVerdict.UNSCORED, UnscoredReason.INFRA)
        assert "had no Docker for 0.5 s" in grade.detail
        assert 0.5 <= time.monotonic() - started < 10
    finally:
        backend.close()


def test_a_moved_tag_is_drift(client: docker.DockerClient, python_min: str) -> None:  # noqa: F811
    tag = f"recurve-eval/python-min:{python_min.removeprefix('sha256:')[:12]}"
    other = client.containers.create(python_min, "true")
    try:
        impostor = other.commit()
    finally:
        other.remove()
    backend = DockerOracle(recipe="python-min")
    try:
        impostor.tag(tag)
        with pytest.raises(Drift, match="was moved to"):
            backend.env()
        with pytest.raises(Drift, match="oracle build oracle=python-min"):
            backend.start(1)
    finally:
        client.images.get(python_min).tag(tag)
        client.images.remove(impostor.id, force=True)
        backend.close()
    assert backend.check() is None


def test_a_container_of_another_image_is_refused(oracle: DockerOracle, python_min: str) -> None:  # noqa: F811
    wanted = oracle.launch(0, ())
    assert isinstance(wanted, Contained)
    tag = f"recurve-eval/python-min:{python_min.removeprefix('sha256:')[:12]}"
    with pytest.raises(ServerLost, match="was refused") as refused:
        ContainerLine(replace(wanted, image=tag))
    assert refused.value.own_fault


def test_used_up_memory_is_told_from_a_kill(oracle: DockerOracle) -> None:
    wanted = oracle.launch(0, ())
    assert isinstance(wanted, Contained)
    small = {**wanted.host, "mem_limit": 32 << 20, "memswap_limit": 32 << 20}
    ends = {
        "import time; time.sleep(0.3); x = bytearray(1 << 28)": (True, "memory of its container used up"),
        "import os, time; time.sleep(0.3); os._exit(137)": (False, "killed by signal 9"),
        "import sys, time; time.sleep(0.3); sys.exit('no more')": (False, "exit code 1): no more"),
    }
    for script, (exhausted, words) in ends.items():
        line = ContainerLine(replace(wanted, argv=("python3", "-c", script), host=small))
        with pytest.raises(ServerLost) as lost:
            line.read(1, time.monotonic() + 20)
        line.close()
        assert (lost.value.exhausted, words in lost.value.cause) == (exhausted, True), lost.value.cause


def test_close_leaves_no_container(client: docker.DockerClient, python_min: str) -> None:  # noqa: F811
    backend = DockerOracle(recipe="python-min")
    backend.start(2)
    assert backend.grade(job(GOOD)).verdict is OracleVerdict.PASS
    assert len(of_run(client, backend)) == 1
    backend.close()
    assert of_run(client, backend) == []


def test_orphans_of_dead_owners_alone_are_reaped(client: docker.DockerClient, python_min: str) -> None:  # noqa: F811
    dead = subprocess.Popen(["true"])
    started = str(psutil.Process(dead.pid).create_time())
    dead.wait()
    mine = labels("reap-test")
    changes = [{"recurve.pid": str(dead.pid)}, {"recurve.started": started[:3]}, {}, {"recurve.space": "1"}]
    made = [client.containers.create(python_min, "true", labels=mine | change) for change in changes]
    try:
        assert reap_orphans(client) == 2
        left = {
            c.id
            for c in client.containers.list(all=True, ignore_removed=True, filters={"label": "recurve.run=reap-test"})
        }
        assert left == {made[2].id, made[3].id}
    finally:
        for container in made:
            try:
                container.remove(force=True)
            except docker.errors.NotFound:
                continue


def test_a_killed_harness_leaves_no_container(client: docker.DockerClient, python_min: str) -> None:  # noqa: F811
    script = (
        "import sys, time\nfrom recurve_eval.oracle.docker import DockerOracle\n"
        "o = DockerOracle(recipe='python-min'); o.start(1)\n"
        "with o._pool.lease(()): print(o._run_label, flush=True); time.sleep(60)\n"
    )
    harness = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None
    with harness.stdout:
        run = harness.stdout.readline().strip()
        label = {"label": f"recurve.run={run}"}
        assert len(client.containers.list(filters=label, ignore_removed=True)) == 1
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    until = time.monotonic() + 10
    while client.containers.list(all=True, ignore_removed=True, filters=label) and time.monotonic() < until:
        time.sleep(0.05)
    assert client.containers.list(all=True, ignore_removed=True, filters=label) == []
