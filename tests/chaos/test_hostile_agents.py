"""Agents at their worst, in every sandbox: the turn says what happened, the capture is bounded, nothing is left."""

from __future__ import annotations

import resource
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import Cell, cell, living, sandbox

from recurve_eval.agents.command import CommandAgent
from recurve_eval.agents.scripted import ScriptedAgent
from recurve_eval.capture import capture
from recurve_eval.domain import (
    AgentRun,
    Budget,
    CaptureSpec,
    CaptureStatus,
    KnownBad,
    ModelSpec,
    Solutions,
    Submission,
    Task,
    Turn,
    TurnStatus,
)  # fmt: skip
from recurve_eval.errors import SandboxError
from recurve_eval.ports import TurnRequest
from recurve_eval.workspace import materialize, remove

GOOD = b"def f():\n    return 'it''s' + \"\xc3\xa9\"\n"
TASK = Task("t/1", "Write f.", {"solution.py": b"", "README": b"read me\n"}, CaptureSpec(("solution.py",)))
ANSWERS = Solutions({"solution.py": GOOD}, (KnownBad("empty", {"solution.py": b"pass\n"}),))


@pytest.fixture(params=["process", "bubblewrap", "docker"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cell]:
    made = cell(sandbox(request.param, grace_s=0.2), tmp_path / "cell", f"hostile-{uuid.uuid4().hex}")
    materialize(TASK, made.workspace)
    yield made
    assert living(made.label) == []


def ask(room: Cell, agent: Any, wall_s: float = 30.0, cycle: int = 1) -> Turn:
    model = ModelSpec("simulated", simulated=True, skill=1.0)
    request = TurnRequest("Write f.", TASK, model, 0, cycle, Budget("b", wall_s=wall_s), ANSWERS)
    turn = agent.run(request, room.session)
    assert isinstance(turn, Turn)
    return turn


def finish(room: Cell, turn: Turn) -> Submission:
    room.gone()
    departure = room.session.close()
    return capture(AgentRun((turn,), departure), room.workspace, TASK.capture)


@pytest.mark.parametrize(
    ("behaviour", "status", "captured"),
    [
        ("honest", TurnStatus.COMPLETED, CaptureStatus.OK),
        ("crash", TurnStatus.FAILED, CaptureStatus.OK),
        ("bad_utf8", TurnStatus.COMPLETED, CaptureStatus.OK),
        ("delete_workspace", TurnStatus.COMPLETED, CaptureStatus.MISSING),
        ("symlink_passwd", TurnStatus.COMPLETED, CaptureStatus.NOT_FILE),
        ("fifo", TurnStatus.COMPLETED, CaptureStatus.NOT_FILE),
        ("directory", TurnStatus.COMPLETED, CaptureStatus.NOT_FILE),
        ("huge_file", TurnStatus.COMPLETED, CaptureStatus.TOO_LARGE),
    ],
)
def test_each_misdeed_is_told_apart(room: Cell, behaviour: str, status: TurnStatus, captured: CaptureStatus) -> None:
    turn = ask(room, ScriptedAgent(behaviour=behaviour))
    assert turn.status is status, turn
    assert turn.record == "ok"
    again = ask(room, ScriptedAgent(), cycle=2)
    assert again.status is TurnStatus.COMPLETED, "the place is usable after what was done to it"
    assert (room.workspace / "solution.py").read_bytes() == GOOD
    turn = ask(room, ScriptedAgent(behaviour=behaviour))
    (file,) = finish(room, turn).files
    assert file.status is captured
    if behaviour in ("honest", "crash"):
        assert file.content == GOOD
    if behaviour == "bad_utf8":
        assert file.content == b"\xff\xfe = 1\n" and turn.stdout == b"x\xff\xfey" and turn.stderr == b"\x80\x81"
    if behaviour == "huge_file":
        assert file.size == 40 * 1024 * 1024 and file.content is None


def test_a_hanging_agent_is_timed_out_and_gone(room: Cell) -> None:
    turn = ask(room, ScriptedAgent(behaviour="hang"), wall_s=0.5)
    assert turn.status is TurnStatus.TIMED_OUT and turn.exit_code is None
    assert turn.usage.tokens is not None, "what it reported before it hung still counts"
    assert living(room.label) == []
    finish(room, turn)


def test_a_daemon_cannot_write_after_its_turn(room: Cell) -> None:
    turn = ask(room, ScriptedAgent(behaviour="daemon"))
    assert turn.status is TurnStatus.COMPLETED
    assert living(room.label) == []
    time.sleep(1.5)
    assert not (room.workspace / "late.txt").exists()
    assert finish(room, turn).contents == {"solution.py": GOOD}


def test_a_flood_of_output_neither_fills_memory_nor_blocks(room: Cell) -> None:
    ask(room, ScriptedAgent())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    turn = ask(room, ScriptedAgent(behaviour="flood"))
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert turn.status is TurnStatus.COMPLETED
    assert len(turn.stdout) == 256 * 1024
    assert turn.detail.endswith(f"{200 * 1024 * 1024 - 256 * 1024} bytes of output were dropped")
    assert grown_kb < 8 * 1024
    finish(room, turn)


@pytest.mark.parametrize(
    ("command", "code"), [("no-such-agent-anywhere", 127), ("exit 7", 7), ("kill -KILL $$", 137), ("/workspace", 126)]
)
def test_a_failing_command_is_the_agents_failure(room: Cell, command: str, code: int) -> None:
    (room.workspace / "dir").mkdir()
    turn = ask(room, CommandAgent(command=command.replace("/workspace", "./dir")))
    assert (turn.status, turn.exit_code) == (TurnStatus.FAILED, code)
    assert turn.usage.cost_usd is None and turn.usage.tokens is None
    finish(room, turn)


RABBIT = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        os.environ.clear()
        while os.fork(): os._exit(0)
        os.execve("/bin/sh", ["sh", "-c", "sh -c 'sleep 0.01; exec sleep 77.125' & exit 0"], {})
"""
HOPPING = """
import os, time
if os.fork() == 0:
    os.setsid()
    end = time.time() + 20
    while time.time() < end:
        if os.fork(): os._exit(0)
"""


@pytest.mark.parametrize("script", [RABBIT, HOPPING])
def test_no_chain_of_forks_without_a_trace_outlives_its_turn(room: Cell, script: str) -> None:
    (room.workspace / "rabbit.py").write_text(script)
    turn = ask(room, CommandAgent(argv=["{python}", "-I", "-S", "rabbit.py"]))
    assert turn.status is TurnStatus.COMPLETED
    assert commanded("sleep\x0077.125") == [] and commanded("rabbit.py") == []
    finish(room, turn)


def test_a_fork_bomb_is_held_and_ended(tmp_path: Path) -> None:
    room = cell(sandbox("bubblewrap", max_processes=60, grace_s=0.1), tmp_path / "cell", f"bomb-{uuid.uuid4().hex}")
    materialize(TASK, room.workspace)
    turn = ask(room, CommandAgent(command="b() { b | b & }; b; sleep 30"), wall_s=1.0)
    assert turn.status is TurnStatus.TIMED_OUT or turn.exit_code not in (0, None)
    assert b"ork" in turn.stderr, "the limit was met"
    assert living(room.label) == []
    finish(room, turn)


def test_an_agent_that_kills_its_supervisor_is_an_infrastructure_fault(tmp_path: Path) -> None:
    room = cell(sandbox("process"), tmp_path / "cell", f"mutiny-{uuid.uuid4().hex}")
    materialize(TASK, room.workspace)
    with pytest.raises(SandboxError, match="supervisor"):
        ask(room, CommandAgent(command="setsid sleep 60 & kill -KILL $PPID; sleep 60"))
    with pytest.raises(SandboxError, match="supervisor"):
        room.session.close()
    assert living(room.label) == []


def test_a_workspace_without_permissions_can_still_be_removed(room: Cell) -> None:
    turn = ask(room, CommandAgent(command="mkdir -p a/b; touch a/b/c; chmod 000 a/b a solution.py"))
    (file,) = finish(room, turn).files
    assert file.status is CaptureStatus.UNREADABLE
    remove(room.workspace)
    assert not room.workspace.exists()


def commanded(words: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if words in line:
            found.append(line)
    return found
