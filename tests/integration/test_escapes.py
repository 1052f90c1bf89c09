"""Ways out of a sandbox, each tried from inside, with what comes of it in each sandbox.

``held`` is a failed attempt. The process sandbox has no walls, and its row says so: what it does not hold is listed as
such, so that a change in either direction is seen.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxes import CONF, Cell, cell, living, sandbox

from recurve_eval.capture import capture
from recurve_eval.domain import AgentRun, CaptureSpec, CaptureStatus

NAMES = sorted(p.stem for p in (CONF / "sandbox").glob("*.yaml"))
SECRET = "held-out-secret"
# The attempt prints what it could get; it has escaped where the secret, or the word ESCAPED, is in its output.
ATTEMPTS = {
    "parent": "cat ../secret ../../secret ../../../secret /workspace/../secret",
    "data directory": "cat {outside}/secret",
    "the ledger": "cat {outside}/results.jsonl; echo x >> {outside}/results.jsonl && echo ESCAPED",
    "the host's home": "cat {home}/secret ~root/secret",
    "through a link": "ln -s {outside}/secret link; cat link",
    "through /proc/1/root": "cat /proc/1/root{outside}/secret /proc/self/root{outside}/secret",
    "through an open cwd": "for p in /proc/[0-9]*; do cat $p/cwd/secret $p/root{outside}/secret; done",
    "environment of others": "cat /proc/{harness}/environ | tr '\\0' '\\n' | grep SECRET_OF_HARNESS",
    "signal to the harness": "kill -0 {harness} && echo ESCAPED",
    "another cell": "cat {other}/workspace/secret; ls {other}/workspace && echo ESCAPED",
    "Docker's socket": "ls /var/run/docker.sock /run/docker.sock {docker} && echo ESCAPED",
    "name service": "getent hosts localhost.localdomain.example pypi.org && echo ESCAPED",
    "the host's loopback": "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('ESCAPED')\"",
    "an abstract socket": "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}'); print('ESCAPED')\"",
    # An attempt that succeeds must leave the machine as it was: the process sandbox of root holds nothing.
    "mount": "mkdir -p m && mount -t tmpfs none m && echo ESCAPED && umount m",
    "new namespaces": "unshare -r -m sh -c 'mount --make-rprivate /; mount --bind / /tmp && cat /tmp{outside}/secret'",
    "write to the system": "touch /usr/bin/{name} && echo ESCAPED && rm -f /usr/bin/{name}",
    "kernel log and memory": "dmesg | head -1 | grep -q . && echo ESCAPED; head -c 1 /dev/mem && echo ESCAPED",
    "block devices": "ls /dev/sd* /dev/vd* /dev/nvme* && echo ESCAPED",
}
# What depends on the machine in a sandbox without walls is not stated.
OPEN = {
    "process": {
        "data directory",
        "the ledger",
        "through a link",
        "another cell",
        "the host's loopback",
        "an abstract socket",
    }
}


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "outputs"
    place.mkdir()
    for file in (place / "secret", place / "results.jsonl", tmp_path / "secret"):
        file.write_text(SECRET)
    monkeypatch.setenv("SECRET_OF_HARNESS", SECRET)
    return place


@pytest.fixture(params=NAMES)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cell]:
    made = cell(sandbox(request.param), tmp_path / "cells/one", f"escape-{uuid.uuid4().hex}")
    yield made
    made.gone()


def tried(room: Cell, outside: Path) -> dict[str, str]:
    """Each attempt's outcome: ``held`` or ``escaped``."""
    name = f"recurve-{uuid.uuid4().hex}"
    other = outside.parent / "cells" / "other"
    (other / "workspace").mkdir(parents=True)
    (other / "workspace/secret").write_text(SECRET)
    docker = os.environ.get("DOCKER_HOST", "").removeprefix("unix://") or "/run/docker.sock"
    outcomes = {}
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        facts = {
            "outside": outside, "home": Path.home(), "harness": os.getpid(), "other": other, "docker": docker,
            "port": tcp.getsockname()[1], "name": name,
        }  # fmt: skip
        for attempt, script in ATTEMPTS.items():
            said = room.sh(f"( {script.format(**facts)} ) 2>/dev/null").stdout
            outcomes[attempt] = "escaped" if SECRET.encode() in said or b"ESCAPED" in said else "held"
    return outcomes


def test_each_attempt_ends_as_the_sandbox_says(room: Cell, outside: Path) -> None:
    outcomes = tried(room, outside)
    kind = str(room.session.close().sandbox)
    escaped = {attempt for attempt, outcome in outcomes.items() if outcome == "escaped"}
    if kind == "process":
        assert OPEN["process"] <= escaped, "what has no walls is not to be called held"
    else:
        assert escaped == set(), f"{kind}: {sorted(escaped)}"
        assert (outside / "results.jsonl").read_text() == SECRET


def test_a_link_planted_for_the_capture_brings_nothing_out(room: Cell, outside: Path) -> None:
    room.sh(f"ln -s {outside}/secret a.py; ln -s {outside} d; mkfifo f.py; ln -s /proc/self/environ e.py; mkdir g.py")
    departure = room.session.close()
    paths = ("a.py", "d/secret", "f.py", "e.py", "g.py", "../../../secret")
    spec = CaptureSpec(paths[:-1])
    files = {f.path: f for f in capture(AgentRun((), departure), room.workspace, spec).files}
    assert all(f.content is None and f.status is not CaptureStatus.OK for f in files.values()), files


@pytest.mark.parametrize("name", [n for n in NAMES if n != "process"])
def test_a_guarded_part_can_neither_be_written_nor_replaced(name: str, tmp_path: Path) -> None:
    made = cell(sandbox(name), tmp_path / "cell", f"guard-{uuid.uuid4().hex}")
    (made.workspace / "fixed/in").mkdir(parents=True)
    (made.workspace / "fixed/in/file").write_text("1")
    os.link(made.workspace / "fixed/in/file", made.workspace / "twin")
    assert made.sh("echo 2 > fixed/in/file").exit_code == 0
    made.session.guard(["fixed"])  # type: ignore[attr-defined]
    for attempt in (
        "echo 3 > fixed/in/file",
        "rm -rf fixed",
        "mv fixed other",
        "touch fixed/new",
        "chmod 777 fixed/in/file",
    ):
        made.sh(attempt)
    made.sh("echo 4 > twin")
    assert (made.workspace / "fixed/in/file").read_text() == "2\n"
    assert sorted(p.name for p in (made.workspace / "fixed").rglob("*")) == ["file", "in"]
    assert made.sh("touch beside").exit_code == 0
    made.session.guard([""], ["fixed"])  # type: ignore[attr-defined]
    assert made.sh("touch beside2").exit_code != 0 and made.sh("touch fixed/new").exit_code == 0
    made.session.guard([])  # type: ignore[attr-defined]
    assert made.sh("rm -r fixed").exit_code == 0
    made.gone()


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_ends_the_command(name: str, tmp_path: Path) -> None:
    made = cell(sandbox(name, disk_mb=8), tmp_path / "cell", f"disk-{uuid.uuid4().hex}")
    done = made.sh("for n in 1 2 3 4 5 6 7 8 9; do head -c 3000000 /dev/zero > f$n; sleep 0.3; done; sleep 30")
    assert (done.exit_code, done.stopped) == (None, "disk")
    assert done.wall_s < 20 and living(made.label) == []
    made.gone()


@pytest.mark.parametrize("name", [n for n in NAMES if n != "process"])
def test_only_named_hosts_are_reached_and_the_rest_is_on_record(name: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        port = server.getsockname()[1]
        made = cell(
            sandbox(name, network="allowlist", allow=[f"127.0.0.2:{port}"]),
            tmp_path / "cell",
            f"net-{uuid.uuid4().hex}",
        )
        fetch = 'python3 -c "import urllib.request as u, sys; print(u.urlopen(sys.argv[1], timeout=5).read())" '
        assert made.sh(f"{fetch} http://127.0.0.2:{port}/page").stdout == b"b'reached'\n"
        for refused in (
            f"http://127.0.0.2:{port + 1}/",
            "http://pypi.org/",
            "https://pypi.org/",
            "http://127.0.0.1:22/",
        ):
            made.sh(f"NO_PROXY= no_proxy= {fetch} {refused}")
        assert made.session.refused() == {  # type: ignore[attr-defined]
            f"127.0.0.2:{port + 1}": 1, "pypi.org:80": 1, "pypi.org:443": 1, "127.0.0.1:22": 1
        }  # fmt: skip
        direct = f"import socket; socket.create_connection(('127.0.0.2', {port}), 2)"
        assert made.sh(f'env -u HTTP_PROXY python3 -c "{direct}"').exit_code != 0
        made.gone()
    assert not list(tmp_path.glob("cell/.way*"))


@pytest.mark.parametrize("name", [n for n in NAMES if n != "process"])
def test_the_network_without_content_answers_everything_with_404(name: str, tmp_path: Path) -> None:
    made = cell(sandbox(name, network="offline_404"), tmp_path / "cell", f"net-{uuid.uuid4().hex}")
    script = (
        "import urllib.request as u\ntry: u.urlopen('http://pypi.org/simple/')\nexcept u.HTTPError as e: print(e.code)"
    )
    assert made.sh(f'python3 -c "{script}"').stdout == b"404\n"
    made.gone()


def serve(server: socket.socket) -> None:
    while True:
        try:
            near, _ = server.accept()
        except OSError:
            return
        with near:
            near.recv(65536)
            near.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached")
