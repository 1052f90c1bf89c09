"""Every agent under conf/ keeps the port's promises; the free ones are run. A new option is tested by being there."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import pickle
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import CONF, Cell, cell, living, make, option, sandbox
from stub_models import Stub, stub

from recurve_eval.domain import Budget, CaptureSpec, CostSource, ModelSpec, Solutions, Task, Turn, TurnStatus
from recurve_eval.ports import Agent, Metered, TurnRequest

NAMES = sorted(p.stem for p in (CONF / "agent").glob("*.yaml"))
TASK = Task("pkg/1", "Write f.", {}, CaptureSpec(("solution.py",)))
SOLUTION = "def f():\n    return '\u00e9' * 2  # 'quoted' $HOME `id` \\n\n"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Cell]:
    made = cell(sandbox("process"), tmp_path / "cell", f"agents-{uuid.uuid4().hex}")
    yield made
    made.gone()


def settings(name: str, tmp_path: Path) -> dict[str, Any]:
    """The least that makes an option runnable here."""
    recorded = tmp_path / "recorded.jsonl.gz"
    row = {"task_id": TASK.id, "attempt": 0, "model": "m", "solution": SOLUTION}
    recorded.write_bytes(gzip.compress(json.dumps(row).encode()))
    return {
        "command": {"argv": ["cat"], "paid": False},
        "replay": {"submissions": str(recorded)},
    }.get(name, {})


@pytest.mark.parametrize("name", NAMES)
def test_option_names_every_field_and_makes_a_plain_adapter(name: str) -> None:
    made, fields = make("agent", name), option("agent", name)
    assert set(fields) - {"_target_"} == {f.name for f in dataclasses.fields(made)}
    assert fields["name"] == name == made.name
    assert isinstance(made, Agent)
    assert isinstance(made.paid, bool) and isinstance(made.simulated, bool)
    assert not (made.paid and made.simulated), "a simulation cannot cost money"
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize("name", NAMES)
def test_pins_are_json_and_repeat(name: str, tmp_path: Path) -> None:
    given = settings(name, tmp_path)
    assert json.dumps(dict(make("agent", name, **given).pins())) == json.dumps(
        dict(make("agent", name, **given).pins())
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_free_agent_runs_a_turn_that_costs_nothing(name: str, tmp_path: Path, room: Cell) -> None:
    agent = make("agent", name, **settings(name, tmp_path))
    if agent.paid:
        pytest.skip("a paid agent is not run in a test")
    problem = agent.check()
    if problem:
        pytest.skip(problem)
    answers = Solutions({"solution.py": SOLUTION.encode()})
    model = ModelSpec("m", simulated=agent.simulated, skill=1.0 if agent.simulated else None)
    request = TurnRequest("Write f.", TASK, model, 0, 1, Budget("b", wall_s=20.0), answers if agent.simulated else None)
    turn = agent.run(request, room.session)
    assert isinstance(turn, Turn)
    assert turn.status is TurnStatus.COMPLETED, turn
    assert (turn.usage.cost_usd, turn.usage.cost_source) == (0.0, CostSource.FREE)
    assert turn.detail.startswith("simulated") is agent.simulated
    if name == "command":
        assert turn.stdout == b"Write f." and turn.record == "missing"
    else:
        assert (room.workspace / "solution.py").read_text() == SOLUTION


@pytest.mark.parametrize("name", NAMES)
def test_a_cancelled_session_gives_a_cancelled_turn(name: str, tmp_path: Path, room: Cell) -> None:
    agent = make("agent", name, **settings(name, tmp_path))
    if agent.paid or agent.check():
        pytest.skip("not runnable here")
    room.session.cancel()
    model = ModelSpec("m", simulated=agent.simulated, skill=1.0)
    request = TurnRequest("p", TASK, model, 0, 1, Budget("b", wall_s=5.0), Solutions({"solution.py": b""}))
    turn = agent.run(request, room.session)
    assert turn.status is TurnStatus.CANCELLED and turn.exit_code is None


def connected(name: str, server: Stub) -> Agent:
    """A paid agent led to a model server of the tests, or a skip that says what this machine lacks."""
    own: dict[str, Any] = {"backoff_s": 0.1, "max_backoff_s": 0.1}
    if name == "command":
        script = 'cat >/dev/null; echo x > solution.py; echo \'{"i": 5, "o": 1, "m": "stub-model-1"}\'; [ "$HANG" = 1 ] && sleep 30; true'
        usage = {"tokens_in": "i", "tokens_out": "o", "model": "m"}
        own = {"command": script, "reports": "tokens", "usage": usage, "env": {"HANG": "1" if server.faults else "0"}}
    elif name == "openai_compatible":
        own |= {"base_url": f"{server.url}/v1", "credential": ""}
    else:
        clis = os.environ.get("RECURVE_CLIS")
        if not clis:
            pytest.skip("RECURVE_CLIS names no directory with the command-line agents")
        program = {"claude_code": "claude", "codex": "codex"}[name]
        own["program_path"] = f"{clis}/node_modules/.bin/{program}"
        os.environ["STUB_KEY"] = "k"
        own |= {"base_url": server.url, "credentials": [], "env": {"ANTHROPIC_API_KEY": "k"}} if name == "claude_code" else {
            "base_url": f"{server.url}/v1", "credential": "STUB_KEY"
        }  # fmt: skip
    made: Agent = make("agent", name, **own)
    problem = made.check()
    if problem:
        pytest.skip(problem)
    return made


PAID = [name for name in NAMES if make("agent", name).paid]


def asked(wall_s: float = 60.0) -> TurnRequest:
    return TurnRequest("Write f.", TASK, ModelSpec("m", id="stub-model-1"), 0, 1, Budget("b", wall_s=wall_s))


@pytest.mark.parametrize("name", PAID)
def test_a_paid_agent_tells_usage_model_and_exit(name: str, room: Cell) -> None:
    with stub() as server:
        made = connected(name, server)
        assert isinstance(made, Metered) and made.meters() in ("cost", "tokens")
        turn = made.run(asked(), room.session)
    assert turn.status is TurnStatus.COMPLETED and turn.exit_code == 0, turn
    assert turn.usage.tokens and turn.model_served == "stub-model-1"
    assert (turn.usage.cost_usd is not None) is (made.meters() == "cost")
    assert (room.workspace / "solution.py").exists()
    assert living(room.label) == []


@pytest.mark.parametrize("name", PAID)
def test_a_paid_agent_is_cancelled_as_a_tree_and_its_use_is_then_unknown(name: str, room: Cell) -> None:
    with stub("hang") as server:
        made = connected(name, server)
        began = threading.Timer(3.0, room.session.cancel)
        began.start()
        turn = made.run(asked(15.0), room.session)
        began.join()
    assert turn.status is TurnStatus.CANCELLED, turn
    assert turn.usage.cost_usd is None, "what was under way may have cost something"
    assert living(room.label) == []
