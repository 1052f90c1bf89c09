"""Every sandbox under conf/ keeps the port's promises. A new option is tested by being there."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sandboxes import CONF, Cell, cell, living, make, option, sandbox

from recurve_eval.errors import ConfigError, SandboxError
from recurve_eval.ports import Command

NAMES = sorted(p.stem for p in (CONF / "sandbox").glob("*.yaml"))


@pytest.fixture(params=NAMES)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cell]:
    made = cell(sandbox(request.param, grace_s=0.2), tmp_path / "cell", f"conformance-{uuid.uuid4().hex}")
    try:
        yield made
    finally:
        made.gone()


@pytest.mark.parametrize("name", NAMES)
def test_option_names_every_field_and_makes_a_plain_adapter(name: str) -> None:
    made, fields = make("sandbox", name), option("sandbox", name)
    assert set(fields) - {"_target_"} == {f.name for f in dataclasses.fields(made)}
    assert fields["name"] == name == made.name
    assert pickle.loads(pickle.dumps(made)) == made
    json.dumps(made.pins())
    assert set(made.attestation()) == {"agent_sandbox", "network", "boundary"}


@pytest.mark.parametrize("name", NAMES)
def test_a_negative_limit_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="negative"):
        make("sandbox", name, memory_mb=-1).pins()


def test_runs_in_its_workspace_with_stdin_and_both_outputs(room: Cell) -> None:
    done = room.sh("cat > got; cat got; echo bad >&2; exit 3", stdin=b"a prompt")
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"a prompt", b"bad\n")
    assert not done.timed_out and not done.cancelled and done.dropped_bytes == 0
    assert (room.workspace / "got").read_bytes() == b"a prompt"


def test_python_stands_for_an_interpreter(room: Cell) -> None:
    done = room.session.run(Command(("{python}", "-c", "import json, ssl, ctypes; print('ready')")))
    assert done.stdout == b"ready\n", done.stderr


def test_environment_is_scrubbed(room: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    names = {line.split("=")[0] for line in room.sh("env").stdout.decode().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD", "HOSTNAME"} == {
        "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "RECURVE_RESULT_FILE", "RECURVE_SESSION",
    }  # fmt: skip
    assert room.sh("touch $HOME/a $TMPDIR/b && date +%Z", env={"MORE": "1"}).stdout == b"UTC\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_whitelisted_credential_is_passed_or_asked_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "k")
    made = cell(sandbox(name, pass_env=["API_KEY"]), tmp_path / "cell", f"key-{uuid.uuid4().hex}")
    assert made.sh("echo $API_KEY").stdout == b"k\n"
    made.gone()
    monkeypatch.delenv("API_KEY")
    assert "API_KEY" in (make("sandbox", name, pass_env=["API_KEY"]).check() or "")


def test_an_unknown_command_is_the_commands_failure(room: Cell) -> None:
    done = room.session.run(Command(("no-such-agent",)))
    assert done.exit_code == 127
    assert b"no-such-agent" in done.stderr
    (room.workspace / "data").write_text("not a program")
    assert room.session.run(Command(("./data",))).exit_code == 126


def test_a_command_inherits_three_descriptors_and_no_more(room: Cell) -> None:
    listed = room.session.run(Command(("ls", "/proc/self/fd")))
    assert listed.stdout.split() == [b"0", b"1", b"2", b"3"], "the last is ls's own"
    assert room.sh("ls -l /proc/self/fd/3").stdout.count(b"socket") == 0


def test_death_by_signal_is_128_plus_its_number(room: Cell) -> None:
    assert room.sh("kill -SEGV $$").exit_code == 128 + 11


def test_stdin_may_be_closed_unread(room: Cell) -> None:
    assert room.sh("exec <&-; sleep 0.1; exit 0", stdin=b"x" * 3_000_000).exit_code == 0
    assert room.session.run(Command(("true",), stdin=b"x" * 3_000_000)).exit_code == 0


def test_large_stdin_and_output_cross_without_deadlock(room: Cell) -> None:
    data = bytes(range(256)) * 8192
    done = room.session.run(Command(("cat",), stdin=data, max_output_bytes=len(data)))
    assert done.stdout == data
    assert done.dropped_bytes == 0


def test_output_beyond_the_bound_is_counted_and_dropped(room: Cell) -> None:
    done = room.sh("head -c 3000000 /dev/zero; head -c 5000 /dev/zero >&2", max_output_bytes=1000)
    assert (len(done.stdout), len(done.stderr), done.dropped_bytes) == (1000, 1000, 2999000 + 4000)
    assert done.exit_code == 0


def test_timeout_asks_first_then_kills(room: Cell) -> None:
    polite = room.sh('trap "echo bye; exit 0" TERM; while :; do sleep 0.02; done', timeout_s=0.3)
    assert polite.timed_out and polite.exit_code is None and polite.stdout == b"bye\n"
    deaf = room.sh('trap "" TERM; echo here; while :; do sleep 0.05; done', timeout_s=0.3)
    assert deaf.timed_out and deaf.stdout == b"here\n"
    assert 0.3 <= deaf.wall_s < 3
    assert living(room.label) == []


def test_what_a_command_leaves_is_killed_before_it_returns(room: Cell) -> None:
    done = room.sh("setsid sh -c 'sleep 1; touch late' & setsid sleep 60 >/dev/null 2>&1 & exit 0")
    assert done.exit_code == 0
    assert living(room.label) == []
    time.sleep(1.2)
    assert not (room.workspace / "late").exists()


def test_cancel_from_another_thread_ends_this_and_later_runs(room: Cell) -> None:
    threading.Timer(0.2, room.session.cancel).start()
    started = time.monotonic()
    done = room.sh("sleep 30")
    assert done.cancelled and not done.timed_out and done.exit_code is None
    assert time.monotonic() - started < 5
    again = room.sh("touch never")
    assert again.cancelled and not (room.workspace / "never").exists()


def test_the_record_is_the_latest_commands_alone(room: Cell) -> None:
    assert room.session.read_result(10) is None
    room.sh('printf 12345 > "$RECURVE_RESULT_FILE"')
    assert room.session.read_result(10) == b"12345"
    assert room.session.read_result(3) == b"1234"
    room.sh("true")
    assert room.session.read_result(10) is None


@pytest.mark.parametrize("act", ["ln -s /etc/passwd", "mkfifo", "mkdir", "ln -s /dev/zero"])
def test_a_record_that_is_no_file_is_never_opened(room: Cell, act: str) -> None:
    assert room.sh(f'{act} "$RECURVE_RESULT_FILE"').exit_code == 0
    with pytest.raises(ValueError, match="record"):
        room.session.read_result(100)
    assert room.sh('echo fine > "$RECURVE_RESULT_FILE"').exit_code == 0
    assert room.session.read_result(100) == b"fine\n"


def test_a_closed_session_refuses_and_closing_twice_is_harmless(room: Cell) -> None:
    room.sh("true")
    assert room.session.close() == room.session.close()
    room.session.cancel()
    with pytest.raises(SandboxError, match="closed"):
        room.sh("true")


@pytest.mark.parametrize("name", NAMES)
def test_memory_and_file_size_are_bounded(name: str, tmp_path: Path) -> None:
    made = cell(sandbox(name, memory_mb=200, file_size_mb=1), tmp_path / "cell", f"limits-{uuid.uuid4().hex}")
    hog = made.session.run(Command(("{python}", "-c", "x = bytearray(400 << 20)")))
    assert hog.exit_code == 1 and b"MemoryError" in hog.stderr
    made.sh("head -c 5000000 /dev/zero > big")
    assert (made.workspace / "big").stat().st_size == 1 << 20
    made.gone()


@pytest.mark.parametrize("name", NAMES)
def test_sessions_side_by_side_do_not_disturb_each_other(name: str, tmp_path: Path) -> None:
    made = sandbox(name, max_processes=60)
    cells = [cell(made, tmp_path / str(n), f"beside-{n}-{uuid.uuid4().hex}") for n in range(4)]
    results: list[bytes] = []

    def work(one: Cell) -> None:
        script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.05 & done; wait; pwd; exit 0"
        results.extend(one.sh(script).stderr for _ in range(5))

    threads = [threading.Thread(target=work, args=(one,)) for one in cells]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b""] * 20
    for one in cells:
        one.gone()


@pytest.mark.parametrize("name", NAMES)
def test_reap_ends_what_a_label_left_and_nothing_else(name: str) -> None:
    made, labels = sandbox(name), [f"{n}-{uuid.uuid4().hex}" for n in ("one", "other")]
    left = [subprocess.Popen(["sleep", "30"], env={"RECURVE_SESSION": f"{label}.cell:0"}) for label in labels]
    try:
        assert made.reap(labels[0]) == 1
        assert left[0].wait(5) == -9
        assert left[1].poll() is None
    finally:
        for process in left:
            process.kill()
            process.wait()


HARNESS = """
import sys, threading; from pathlib import Path
from sandboxes import cell, sandbox
made = cell(sandbox(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
script = "setsid sh -c 'sleep 60' & (setsid setsid sleep 61 &) ; echo up > up; sleep 62"
made.sh(script, timeout_s=60.0)
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_harness_takes_its_agents_along(name: str, tmp_path: Path) -> None:
    sandbox(name)
    label = f"orphan-{uuid.uuid4().hex}"
    words = [sys.executable, "-c", HARNESS, name, str(tmp_path / "cell"), label]
    paths = os.pathsep.join([str(CONF.parent), str(CONF.parent / "tests"), *sys.path])
    harness = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": paths})
    until(lambda: (tmp_path / "cell/workspace/up").exists())
    assert living(label)
    harness.kill()
    harness.wait()
    until(lambda: not living(label))


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
