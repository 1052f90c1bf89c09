"""The real Claude Code and Codex against a model server of the tests: usage, served model, cost, retries, private HOME.

Needs RECURVE_CLIS, a directory with node_modules of @anthropic-ai/claude-code and @openai/codex.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import Cell, cell, living, make, sandbox
from stub_models import CACHED, INPUT, OUTPUT, SOLUTION, Stub, stub

from recurve_eval.domain import Budget, CaptureSpec, CostSource, ModelSpec, Rates, Task, Turn, TurnStatus
from recurve_eval.ports import TurnRequest
from recurve_eval.workspace import materialize

TASK = Task("t/1", "Write solution.py.", {"README": b"read me\n"}, CaptureSpec(("solution.py",)))
SERVED = "claude-haiku-4-5-20251001"
NAMES = ("claude_code", "codex")
WALL = 60.0


@pytest.fixture
def clis() -> Path:
    place = os.environ.get("RECURVE_CLIS", "")
    if not place or not (Path(place) / "node_modules/.bin").is_dir():
        pytest.skip("RECURVE_CLIS names no directory with the command-line agents (npm i --prefix DIR ...)")
    return Path(place) / "node_modules"


@pytest.fixture
def room(clis: Path, tmp_path: Path) -> Iterator[Cell]:
    held = sandbox("bubblewrap", network="full", read_only=[str(clis)], grace_s=0.5)
    made = cell(held, tmp_path / "cell", f"cli-{uuid.uuid4().hex}")
    materialize(TASK, made.workspace)
    yield made
    made.gone()


def agent(name: str, clis: Path, server: Stub, **more: Any) -> Any:
    os.environ["STUB_KEY"] = "k-" + "1" * 20
    program = str(clis / ".bin" / {"claude_code": "claude", "codex": "codex"}[name])
    own = {"credential": "STUB_KEY", "base_url": f"{server.url}/v1"} if name == "codex" else {
        "credentials": [], "base_url": server.url, "env": {"ANTHROPIC_API_KEY": "k"}
    }  # fmt: skip
    return make("agent", name, program_path=program, backoff_s=0.2, max_backoff_s=0.4, **(own | more))


def ask(room: Cell, made: Any, **allowed: Any) -> Turn:
    model = ModelSpec("m", id="claude-haiku-4-5")
    budget = Budget("b", **({"wall_s": WALL} | allowed))
    turn = made.run(
        TurnRequest("Write solution.py.", TASK, model, 0, 1, budget, rates=Rates(1.0, 5.0, 0.1)), room.session
    )
    assert isinstance(turn, Turn)
    return turn


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_edits_a_file_and_tells_usage_model_and_cost(name: str, clis: Path, room: Cell) -> None:
    with stub(served=SERVED) as server:
        made = agent(name, clis, server)
        assert made.check() is None and made.pins()["version"]
        turn = ask(room, made)
    assert turn.status is TurnStatus.COMPLETED, (turn.stdout, turn.stderr)
    assert (room.workspace / "solution.py").read_text().startswith(SOLUTION)
    used = turn.usage
    assert (used.tokens_in, used.tokens_out, used.tokens_cached) == (2 * (INPUT + CACHED), 2 * OUTPUT, 2 * CACHED)
    assert (used.steps, turn.model_served, turn.summary, turn.attempts) == (2, SERVED, "Done.", 1)
    if name == "claude_code":
        assert (used.cost_usd, used.cost_source) == (pytest.approx(0.000408), CostSource.REPORTED)
    else:
        priced = Rates(1.0, 5.0, 0.1).priced(used)
        assert (priced.cost_usd, priced.cost_source) == (pytest.approx(0.000408), CostSource.PRICED)
    assert b"SSE event" not in turn.stdout and b"stream_event" not in turn.stdout and turn.stdout


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("faults", [("429", "529"), ("drop",), ("truncate",)])
def test_a_busy_endpoint_is_tried_again_and_counted(name: str, faults: tuple[str, ...], clis: Path, room: Cell) -> None:
    with stub(*faults, served=SERVED) as server:
        turn = ask(room, agent(name, clis, server))
        assert not server.faults
    assert turn.status is TurnStatus.COMPLETED and not turn.trouble, (turn.stdout, turn.stderr)
    assert (room.workspace / "solution.py").exists()
    if name == "codex" or faults[0].isdigit():
        assert turn.attempts == 1 + len(faults)
        assert 0.2 * len(faults) <= turn.waited_s < turn.waited_s + turn.wall_s < WALL
    if faults[0].isdigit():
        assert turn.usage.tokens_in == 2 * (INPUT + CACHED), "what was refused used nothing"
    elif name == "codex":
        assert turn.usage.tokens_in is None, "nobody knows what the broken call used"


@pytest.mark.parametrize("name", NAMES)
def test_an_endpoint_down_at_the_end_costs_a_second_attempt_and_all_of_it_counts(
    name: str, clis: Path, room: Cell
) -> None:
    with stub("", "529", served=SERVED) as server:
        turn = ask(room, agent(name, clis, server))
    assert turn.status is TurnStatus.COMPLETED and not turn.trouble, (turn.stdout, turn.stderr)
    assert (turn.attempts, turn.usage.steps) == (2, 3)
    assert turn.usage.tokens_in == 3 * (INPUT + CACHED)


@pytest.mark.parametrize("name", NAMES)
def test_an_endpoint_that_stays_away_is_not_the_agents_failure(name: str, clis: Path, room: Cell) -> None:
    with stub(*["529"] * 9, served=SERVED) as server:
        turn = ask(room, agent(name, clis, server, attempts=2))
    assert turn.status is TurnStatus.FAILED and turn.attempts == 2
    assert turn.trouble.startswith("the model's endpoint failed after 2 attempts")
    with stub(served=SERVED) as closed:
        made = agent(name, clis, closed, attempts=1)
    gone = ask(room, made)
    assert gone.status is TurnStatus.FAILED and gone.trouble, gone.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_ends_a_turn_between_calls(name: str, clis: Path, room: Cell) -> None:
    call = INPUT + CACHED + OUTPUT
    with stub(served=SERVED, turns=40) as server:
        turn = ask(room, agent(name, clis, server), tokens=3 * call)
        made = len(server.calls)
    assert (turn.status, turn.stopped_by) == (TurnStatus.STOPPED, "tokens"), turn.stdout
    assert turn.usage.tokens is None or turn.usage.tokens <= 4 * call
    assert made <= 4, "at most the call that was under way"
    assert living(room.label) == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_user_leaks_in_and_no_other_credential(
    name: str, clis: Path, room: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for place in (".claude/CLAUDE.md", ".codex/AGENTS.md", ".claude/settings.json"):
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_text('{"env": {"LEAK": "tell-tale"}}' if place.endswith("json") else "tell-tale")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GITHUB_TOKEN", "tell-tale")
    with stub(served=SERVED) as server:
        turn = ask(room, agent(name, clis, server))
        sent = str([call["body"] for call in server.calls]) + str(server.headers_seen)
    assert turn.status is TurnStatus.COMPLETED
    assert "tell-tale" not in sent
    kept = subprocess.run(["grep", "-rl", "tell-tale", room.scratch], capture_output=True, check=False)
    assert kept.stdout == b""
    tools = {t.get("name") or t.get("type") for call in server.calls for t in call["body"].get("tools", [])}
    assert not {"WebSearch", "WebFetch", "web_search", "web_search_preview"} & tools


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_with_no_network_but_its_model(name: str, clis: Path, tmp_path: Path) -> None:
    with stub(served=SERVED, host="127.0.0.2") as server:
        where = f"127.0.0.2:{server.server_address[1]}"
        held = sandbox("bubblewrap", network="allowlist", allow=[where], read_only=[str(clis)])
        made = cell(held, tmp_path / "cell", f"cli-{uuid.uuid4().hex}")
        materialize(TASK, made.workspace)
        turn = ask(made, agent(name, clis, server))
        refused = made.session.refused()  # type: ignore[attr-defined]
        made.gone()
    assert turn.status is TurnStatus.COMPLETED, (turn.stdout, turn.stderr)
    assert (made.workspace / "solution.py").exists() and turn.usage.steps == 2
    assert all("127.0.0.2" not in host for host in refused), refused
