"""Our own agent against a model server of the tests: both APIs, its tools inside each sandbox, faults, budgets."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import Cell, cell, make, sandbox
from stub_models import CACHED, INPUT, OUTPUT, SOLUTION, Stub, stub

from recurve_eval.agents._tools import Toolbox
from recurve_eval.domain import Budget, CaptureSpec, CostSource, ModelSpec, Rates, Task, Turn, TurnStatus
from recurve_eval.ports import TurnRequest

TASK = Task("t/1", "Write solution.py.", {}, CaptureSpec(("solution.py",)))
APIS = ("openai", "anthropic")
CALL = INPUT + CACHED + OUTPUT
RATES = Rates(1.0, 5.0, 0.1)


@pytest.fixture(params=["process", "bubblewrap"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cell]:
    made = cell(sandbox(request.param, grace_s=0.2), tmp_path / "cell", f"own-{uuid.uuid4().hex}")
    yield made
    made.gone()


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[Cell]:
    made = cell(sandbox("bubblewrap", grace_s=0.2), tmp_path / "cell", f"own-{uuid.uuid4().hex}")
    yield made
    made.gone()


def ask(room: Cell, api: str, server: Stub, changes: dict[str, Any] | None = None, **allowed: Any) -> Turn:
    os.environ["STUB_KEY"] = "k-secret"
    url = f"{server.url}/v1" if api == "openai" else server.url
    own = {"api": api, "base_url": url, "credential": "STUB_KEY", "backoff_s": 0.1, "max_backoff_s": 0.2}
    made = make("agent", "openai_compatible", **(own | (changes or {})))
    problem = made.check()
    if problem:
        pytest.skip(problem)
    budget = Budget("b", **({"wall_s": 30.0} | allowed))
    turn = made.run(TurnRequest("Write it.", TASK, ModelSpec("m", id="m-1"), 0, 1, budget, rates=RATES), room.session)
    assert isinstance(turn, Turn)
    return turn


@pytest.mark.parametrize("api", APIS)
def test_a_turn_writes_a_file_inside_the_sandbox(api: str, room: Cell) -> None:
    with stub(served="m-1-20250101") as server:
        turn = ask(room, api, server)
        sent = [h.get("authorization", "") + h.get("x-api-key", "") for h in server.headers_seen]
    assert turn.status is TurnStatus.COMPLETED, turn
    assert (room.workspace / "solution.py").read_text() == SOLUTION
    assert (turn.usage.tokens_in, turn.usage.tokens_out, turn.usage.tokens_cached) == (
        2 * (INPUT + CACHED),
        2 * OUTPUT,
        2 * CACHED,
    )
    assert (turn.usage.steps, turn.model_served, turn.summary, turn.attempts) == (2, "m-1-20250101", "Done.", 1)
    assert RATES.priced(turn.usage).cost_source is CostSource.PRICED
    assert all("k-secret" in key for key in sent) and len(sent) == 2
    assert b"k-secret" not in room.sh("env; cat /proc/*/environ 2>/dev/null").stdout
    assert b'"tool": "write_file"' in turn.stdout


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("fault", "counted"), [("429", True), ("529", True), ("drop", False), ("truncate", False)])
def test_a_busy_endpoint_is_tried_again(api: str, fault: str, counted: bool, walled: Cell) -> None:
    if api == "anthropic" and fault == "drop":
        pytest.skip("the stub drops streams alone on this API")
    with stub(fault, served="m-1") as server:
        turn = ask(walled, api, server)
    assert turn.status is TurnStatus.COMPLETED and not turn.trouble, turn
    assert (turn.attempts, turn.waited_s >= 0.1) == (2, True)
    assert turn.usage.tokens == (2 * CALL if counted else None), "what a broken call used is unknown, and so is the sum"


@pytest.mark.parametrize("api", APIS)
def test_an_endpoint_that_stays_away_or_refuses_is_not_the_agents_failure(api: str, walled: Cell) -> None:
    with stub("529", "529", "529", served="m-1") as server:
        away = ask(walled, api, server, {"attempts": 3})
    assert (away.status, away.attempts) == (TurnStatus.FAILED, 3)
    assert "failed after 3 attempts" in away.trouble
    with stub("401", served="m-1") as server:
        refused = ask(walled, api, server)
    assert "refused" in refused.trouble and refused.attempts == 1
    assert "failed after 1 attempts" in ask(walled, api, server, {"attempts": 1}).trouble, "nobody listens any more"


def test_no_call_is_begun_beyond_a_budget(walled: Cell) -> None:
    with stub(served="m-1", turns=99) as server:
        turn = ask(walled, "openai", server, tokens=3 * CALL)
        assert len(server.calls) == 3
    assert (turn.status, turn.stopped_by, turn.usage.tokens) == (TurnStatus.STOPPED, "tokens", 3 * CALL)
    with stub(served="m-1", turns=99) as server:
        turn = ask(walled, "openai", server, usd=0.0005)
        assert len(server.calls) == 3
    assert turn.stopped_by == "usd"


def test_the_step_cap_and_the_wall_end_a_turn(walled: Cell) -> None:
    with stub(served="m-1", turns=99) as server:
        turn = ask(walled, "openai", server, {"step_cap": 4})
    assert turn.status is TurnStatus.FAILED and "step_cap" in turn.detail and turn.usage.steps == 4
    with stub("hang", served="m-1") as server:
        late = ask(walled, "openai", server, wall_s=1.0)
    assert late.status is TurnStatus.TIMED_OUT and late.usage.tokens is None


def test_a_free_model_is_known_to_cost_nothing(walled: Cell) -> None:
    with stub(served="m-1") as server:
        turn = ask(walled, "openai", server, {"paid": False, "credential": ""}, usd=0.000001)
    assert (turn.status, turn.usage.cost_usd, turn.usage.cost_source) == (TurnStatus.COMPLETED, 0.0, CostSource.FREE)


def test_the_interpreter_remembers_and_the_tools_tell_their_mistakes(room: Cell) -> None:
    with Toolbox(room.session, 20.0) as tools:
        assert tools.call("python_eval", {"code": "x = 20\nx + 1"}) == "21\n"
        assert tools.call("python_eval", {"code": "print(x * 2)"}) == "40\n"
        assert "ZeroDivisionError" in (tools.call("python_eval", {"code": "x / 0"}) or "")
        assert tools.call("write_file", {"path": "a/b.py", "content": "y = 7\n"}) == "wrote 6 characters to a/b.py"
        assert tools.call("python_eval", {"code": "import importlib, a.b; a.b.y"}) == "7\n"
        assert tools.call("read_file", {"path": "a/b.py"}) == "y = 7\n"
        assert "FileNotFoundError" in (tools.call("read_file", {"path": "none"}) or "")
        assert "TypeError" in (tools.call("shell", {"cmd": "ls"}) or "")
        assert tools.call("shell", {"command": "echo hi; exit 3"}) == "hi\n\n[exit 3]"
        assert (tools.call("shell", {"command": "sleep 9", "timeout_s": 0.3}) or "").endswith("[timed out]")
        assert "characters left out" in (tools.call("shell", {"command": "head -c 99999 /dev/zero | tr '\\0' x"}) or "")
        assert tools.call("python_eval", {"code": "import os; os._exit(3)"}) is None
        assert tools.call("shell", {"command": "true"}) is None
    assert tools.ended is not None and tools.ended.exit_code == 3
