"""What bubblewrap keeps from an agent, tried from inside; and what one command costs in each sandbox."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxes import Cell, cell, living, make, sandbox

from recurve_eval.errors import ConfigError, SandboxError, UnknownName
from recurve_eval.ports import Command
from recurve_eval.sandbox.bubblewrap import BubblewrapSandbox


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Cell]:
    made = cell(sandbox("bubblewrap"), tmp_path / "cell", f"walls-{uuid.uuid4().hex}")
    yield made
    made.gone()


def python(room: Cell, code: str) -> tuple[int | None, bytes]:
    done = room.session.run(Command(("{python}", "-I", "-c", code)))
    return done.exit_code, done.stdout + done.stderr


def test_nothing_of_the_host_but_its_programs_is_visible(room: Cell, tmp_path: Path) -> None:
    secret = tmp_path / "held_out.py"
    secret.write_text("the answer")
    other = tmp_path / "other" / "workspace"
    other.mkdir(parents=True)
    (room.workspace / "link").symlink_to(secret)
    places = [secret, other, Path.home() / ".bashrc", Path(__file__), Path(os.environ.get("RECURVE_DATA", "/nowhere"))]
    for place in [*places, "link", "../held_out.py", f"/proc/1/root{secret}", f"/proc/self/cwd/../..{secret}"]:
        assert room.sh(f"cat -- '{place}' || ls -- '{place}/'").exit_code != 0, place
    top = set(room.sh("ls -A /").stdout.decode().split())
    interpreter = Path(BubblewrapSandbox().interpreter).parts[1]
    assert top <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", "scratch",
                   "workspace", interpreter}  # fmt: skip
    assert room.sh("cat /etc/passwd").stdout.count(b"\n") == 3
    assert room.sh("cat /etc/shadow /etc/hosts").exit_code != 0


def test_only_workspace_scratch_and_tmp_can_be_written(room: Cell) -> None:
    for place in ("/", "/usr", "/etc", "/dev", "/proc", "/home", str(Path(BubblewrapSandbox().interpreter).parent)):
        assert room.sh(f"touch {place}/x").exit_code != 0, place
    assert room.sh("touch /workspace/x /scratch/x /tmp/x /dev/shm/x").exit_code == 0
    assert room.sh("ls /tmp/x").exit_code != 0, "/tmp is a fresh one for every command"
    assert (room.workspace / "x").exists() and (room.scratch / "x").exists()


def test_the_agent_is_nobody_and_stays_so(room: Cell) -> None:
    status = dict(line.split(":\t") for line in room.sh("cat /proc/self/status").stdout.decode().splitlines())
    assert {status[f"Cap{kind}"] for kind in ("Prm", "Eff", "Inh", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert "0" not in status["Uid"].split()
    for attempt in ("mount -t tmpfs none /tmp", "mount -o remount,rw /", "chroot / true", "umount /proc", "su -c true"):
        assert room.sh(attempt).exit_code != 0, attempt
    assert room.sh("id -un").stdout == b"agent\n"


def test_no_process_of_the_host_is_seen_or_reached(room: Cell) -> None:
    seen = [int(word) for word in room.sh("ls /proc").stdout.split() if word.isdigit()]
    assert 0 < len(seen) < 10
    harness = os.getpid()
    assert room.sh(f"kill -0 {harness} || cat /proc/{harness}/environ").exit_code != 0
    assert room.sh("kill -KILL 1; sleep 0.1; echo alive").stdout == b"alive\n"


def test_other_sessions_processes_are_out_of_reach(room: Cell, tmp_path: Path) -> None:
    neighbour = cell(sandbox("bubblewrap"), tmp_path / "neighbour", f"neighbour-{uuid.uuid4().hex}")
    thread = threading.Thread(target=neighbour.sh, args=("sleep 1.0; echo unharmed > out",))
    thread.start()
    time.sleep(0.3)
    room.sh("kill -KILL -1")
    thread.join()
    assert (neighbour.workspace / "out").read_text() == "unharmed\n"
    neighbour.gone()


REACH = """
import socket
for family, address in [(socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, "\\0{name}")]:
    with socket.socket(family) as s:
        s.settimeout(2)
        try: s.connect(address); print("reached")
        except OSError: print("refused")
"""


@pytest.mark.parametrize(("network", "told"), [("none", b"refused\nrefused\n"), ("full", b"reached\nreached\n")])
def test_network_is_what_the_option_says(network: str, told: bytes, tmp_path: Path) -> None:
    name = f"recurve-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        made = cell(sandbox("bubblewrap", network=network), tmp_path / "cell", f"net-{name}")
        assert python(made, REACH.format(port=tcp.getsockname()[1], name=name)) == (0, told)
        made.gone()


def test_loopback_works_inside(room: Cell) -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
    assert python(room, code)[0] == 0


def test_an_agents_files_can_be_read_changed_and_removed_from_outside(room: Cell) -> None:
    (room.workspace / "given").write_text("1")
    assert room.sh("echo 2 >> given; mkdir -p d; umask 077; echo 3 > d/secret").exit_code == 0
    assert (room.workspace / "d/secret").read_text() == "3\n"
    (room.workspace / "d/secret").write_text("4")
    (room.workspace / "new").write_text("5")
    assert room.sh("cat d/secret new; echo 6 > new; rm given").stdout == b"45"


def test_read_only_directories_are_seen_and_not_writable(tmp_path: Path) -> None:
    tools = tmp_path / "deep" / "tools"
    tools.mkdir(parents=True)
    (tools / "agent").write_text("#!/bin/sh\necho works\n")
    (tools / "agent").chmod(0o755)
    made = cell(sandbox("bubblewrap", read_only=[str(tools)]), tmp_path / "cell", f"tools-{uuid.uuid4().hex}")
    assert made.session.run(Command((str(tools / "agent"),))).stdout == b"works\n"
    assert made.sh(f"touch {tools}/x").exit_code != 0
    assert made.sh(f"ls {tools.parent}").stdout == b"tools\n"
    made.gone()


def test_wrong_options_are_refused_with_the_right_ones() -> None:
    with pytest.raises(UnknownName, match="none"):
        make("sandbox", "bubblewrap", network="nome").pins()
    with pytest.raises(ConfigError, match="tmp_mb"):
        make("sandbox", "bubblewrap", tmp_mb=0).pins()
    assert "/no/such" in (make("sandbox", "bubblewrap", read_only=["/no/such"]).check() or "")
    with pytest.raises(ConfigError, match="whole machine"):
        make("sandbox", "bubblewrap", read_only=["/"]).program_arguments()


def test_walls_that_cannot_be_built_are_the_sandboxs_fault(tmp_path: Path) -> None:
    sandbox("bubblewrap")
    broken = make("sandbox", "bubblewrap", read_only=["/no/such"])
    made = cell(broken, tmp_path / "cell", f"broken-{uuid.uuid4().hex}")
    with pytest.raises(SandboxError, match="no/such"):
        made.sh("true")
    assert living(made.label) == []
    missing = make("sandbox", "bubblewrap", python="/usr/bin/no-such-python")
    assert "no-such-python" in (missing.check() or "")


@pytest.mark.parametrize(("name", "bound_ms"), [("process", 5.0), ("bubblewrap", 25.0)])
def test_a_trivial_command_costs_little(name: str, bound_ms: float, tmp_path: Path) -> None:
    made = cell(sandbox(name), tmp_path / "cell", f"cost-{uuid.uuid4().hex}")
    made.session.run(Command(("/bin/true",)))
    times = []
    for _ in range(30):
        started = time.perf_counter()
        made.session.run(Command(("/bin/true",)))
        times.append((time.perf_counter() - started) * 1000)
    made.gone()
    started = time.perf_counter()
    for _ in range(10):
        subprocess.run(["/bin/true"], check=True)
    bare_ms = (time.perf_counter() - started) * 100
    # On a busy machine a bare process is slow too: the bound grows with it.
    assert sorted(times)[5] < max(bound_ms, 8 * bound_ms / 5 * bare_ms)
