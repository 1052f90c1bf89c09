"""What each agent makes of its options and its draws."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.agents._script import write_files
from recurve_eval.agents.command import CommandAgent
from recurve_eval.agents.replay import ReplayAgent
from recurve_eval.agents.scripted import ScriptedAgent
from recurve_eval.domain import Budget, CaptureSpec, CostSource, KnownBad, ModelSpec, Solutions, Task, Turn, TurnStatus
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.ports import Session, TurnRequest
from recurve_eval.sandbox.process import ProcessSandbox

BAD = tuple(KnownBad(kind, {"solution.py": kind.encode()}) for kind in ("one", "two", "three"))
ANSWERS = Solutions({"solution.py": b"good"}, BAD)
TASK = Task("t/1", "Write f.", {}, CaptureSpec(("solution.py",)))


def request(task: str = "t/1", seed: int = 0, cycle: int = 1, skill: float | None = 0.5, **more: Any) -> TurnRequest:
    model = ModelSpec("weak", "weak-1", simulated=True, skill=skill)
    return TurnRequest("prompt", replace(TASK, id=task), model, seed, cycle, Budget("b", 10.0), ANSWERS, **more)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def play(agent: Any, place: Path, *requests: TurnRequest) -> list[tuple[Turn, bytes]]:
    session: Session = ProcessSandbox().open(place / "w", place / "s", "unit")
    try:
        return [(agent.run(r, session), (place / "w/solution.py").read_bytes()) for r in requests]
    finally:
        session.close()


# -- scripted ------------------------------------------------------------------------------------


def rights(agent: ScriptedAgent, n: int = 2000, **more: Any) -> list[bool]:
    return [agent._is_right(request(f"t/{i}", **more), more.get("cycle", 1)) for i in range(n)]


def test_skill_and_repair_are_the_probabilities_they_say() -> None:
    agent = ScriptedAgent(repair=0.5)
    for skill in (0.0, 0.3, 1.0):
        assert abs(sum(rights(agent, skill=skill)) / 2000 - skill) < 0.04
    assert abs(sum(rights(agent, skill=0.2, cycle=3)) / 2000 - (1 - 0.8 * 0.25)) < 0.04
    assert rights(ScriptedAgent(repair=0.0), cycle=5) == rights(agent)
    wise = [a <= b for a, b in zip(rights(agent), rights(agent, cycle=2), strict=True)]
    assert all(wise), "right work stays right"


def test_every_coordinate_but_none_else_moves_a_draw() -> None:
    agent = ScriptedAgent()
    base = rights(agent, 200)
    assert base == rights(ScriptedAgent(), 200), "equal coordinates, equal draws"
    for other in (rights(agent, 200, seed=1), rights(agent, 200, stream=1), rights(ScriptedAgent(seed=1), 200)):
        assert 60 < sum(a != b for a, b in zip(base, other, strict=True)) < 140, "independent, not shifted"


def test_draws_repeat_in_another_process() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_agents_options import rights, ScriptedAgent; print(rights(ScriptedAgent(), 50))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "123"}
    words = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(rights(ScriptedAgent(), 50))


def test_it_works_through_the_sandbox_and_says_what_it_is(place: Path) -> None:
    weak, strong = ScriptedAgent(overconfidence=0.0), ScriptedAgent()
    (right, good), (again, same) = play(strong, place, request(skill=1.0), request(skill=1.0))
    (wrong, bad), (declared, _) = play(weak, place, request(skill=0.0))[0], play(strong, place, request(skill=0.0))[0]
    assert good == same == b"good" and bad in (b"one", b"two", b"three")
    assert replace(right, wall_s=0) == replace(again, wall_s=0)
    assert right.declared_done is True and wrong.declared_done is False and declared.declared_done is True
    assert right.status is TurnStatus.COMPLETED and right.record == "ok" and right.model_served == "weak-1"
    assert right.usage.cost_source is CostSource.FREE and (right.usage.tokens or 0) > 100
    assert "simulated" in right.detail and "simulated" in right.summary


@pytest.mark.parametrize(
    ("options", "named"), [({"repair": 1.5}, "agent.repair"), ({"overconfidence": -0.1}, "agent.overconfidence")]
)
def test_a_probability_out_of_range_is_refused(options: Mapping[str, float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ScriptedAgent(**options).pins()  # type: ignore[arg-type]


def test_an_unknown_behaviour_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'flood'.*symlink_passwd"):
        ScriptedAgent(behaviour="floods").pins()


def test_it_needs_answers_and_a_skill(place: Path) -> None:
    for bad, named in [(replace(request(), answers=None), "solutions"), (request(skill=None), "skill"),
                       (request(skill=2.0), "model.skill")]:  # fmt: skip
        with pytest.raises(ConfigError, match=named):
            play(ScriptedAgent(), place, bad)


def test_without_known_bad_solutions_wrong_work_is_unfinished(place: Path) -> None:
    bare = replace(request(skill=0.0), answers=Solutions({"solution.py": b"good"}))
    assert play(ScriptedAgent(), place, bare)[0][1] == b"raise NotImplementedError\n"


def test_any_bytes_reach_a_file_and_links_are_replaced(place: Path) -> None:
    files = {
        "a b/it's": bytes(range(256)),
        "-n": b"%s \\n 'x' $HOME",
        "dir": b"",
        "link": b"new",
        "\u00fc": b"\xff" * 300_000,
    }
    (place / "dir").mkdir()
    (place / "kept").write_text("kept")
    (place / "link").symlink_to(place / "kept")
    subprocess.run(["/bin/sh", "-s"], input=write_files(files), cwd=place, check=True)
    assert {path: (place / path).read_bytes() for path in files} == files
    assert (place / "kept").read_text() == "kept" and not (place / "link").is_symlink()


# -- command -------------------------------------------------------------------------------------


def test_a_command_is_told_where_it_stands_and_reports_in_its_record(place: Path) -> None:
    script = (
        'cat > solution.py; env | grep -E "^(RECURVE_(MODEL|SEED|CYCLE|TASK_ID)|MORE)=" | sort; '
        'printf \'{"model": "served", "tokens": {"input": 1, "output": 2}, "cost_usd": 0.5}\' > "$RECURVE_RESULT_FILE"'
    )
    agent = CommandAgent(command=script, env={"MORE": "x"})
    ((turn, content),) = play(agent, place, request(seed=3, cycle=2))
    assert content == b"prompt"
    told = ["MORE=x", "RECURVE_CYCLE=2", "RECURVE_MODEL=weak-1", "RECURVE_SEED=3", "RECURVE_TASK_ID=t/1"]
    assert turn.stdout.decode().split() == told
    assert (turn.usage.tokens, turn.usage.cost_usd, turn.usage.cost_source) == (3, 0.5, CostSource.REPORTED)
    assert turn.model_served == "served" and turn.declared_done is None


@pytest.mark.parametrize("act", ["ln -s /etc/passwd", "mkfifo", "mkdir"])
def test_a_record_that_is_no_file_is_malformed_not_missing(place: Path, act: str) -> None:
    command = f'touch solution.py; {act} "$RECURVE_RESULT_FILE"'
    ((turn, _),) = play(CommandAgent(command=command), place, request())
    assert turn.record.startswith("malformed: ") and turn.usage.tokens is None
    assert turn.status is TurnStatus.COMPLETED


def test_a_failed_command_still_reports_its_usage(place: Path) -> None:
    command = 'touch solution.py; echo \'{"cost_usd": 2}\' > "$RECURVE_RESULT_FILE"; exit 4'
    ((turn, _),) = play(CommandAgent(command=command), place, request())
    assert (turn.status, turn.exit_code, turn.usage.cost_usd) == (TurnStatus.FAILED, 4, 2.0)


def test_what_is_wrong_with_a_command_is_said_before_it_runs() -> None:
    assert "no-such-agent" in (CommandAgent(argv=["no-such-agent"]).check() or "")
    assert "either" in (CommandAgent().check() or "")
    assert "either" in (CommandAgent(argv=["cat"], command="cat").check() or "")
    with pytest.raises(ConfigError, match="either"):
        CommandAgent().pins()
    for fine in (CommandAgent(argv=["{python}"]), CommandAgent(argv=["./agent.sh"]), CommandAgent(command="x")):
        assert fine.check() is None


# -- replay --------------------------------------------------------------------------------------


def recorded(place: Path, *rows: Any, name: str = "r.jsonl") -> str:
    (place / name).write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return str(place / name)


def row(task: str = "t/1", attempt: int = 0, model: str = "m", solution: str = "x\u2028y") -> dict[str, Any]:
    return {"task_id": task, "attempt": attempt, "model": model, "solution": solution, "more": 1}


def test_seed_n_plays_attempt_n_and_cannot_differ(place: Path) -> None:
    agent = ReplayAgent(submissions=recorded(place, row(), row(attempt=1, solution="second"), ""))
    assert agent.check() is None
    (first, a), (_, b) = play(agent, place, request(), request(seed=1))
    assert (a.decode(), b) == ("x\u2028y", b"second")
    assert first.model_served == "m" and first.declared_done is True and not first.repairable
    assert first.usage.tokens is None and (first.usage.cost_usd, first.usage.cost_source) == (0.0, CostSource.FREE)
    assert agent.covers(["t/1", "t/2"], [0, 1]) == ["t/2 attempt 0", "t/2 attempt 1"]
    with pytest.raises(ConfigError, match=r"r\.jsonl.*t/1, attempt 2"):
        play(agent, place, request(seed=2))


def test_pins_name_the_bytes_and_the_model_filters(place: Path) -> None:
    path = recorded(place, row(), row(model="other"))
    pins = ReplayAgent(submissions=path, model="m").pins()
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert pins == {"submissions_sha256": digest, "submissions": 1, "model": "m"}
    assert "'none'" in (ReplayAgent(submissions=path, model="none").check() or "")
    assert "r.jsonl:2" in (ReplayAgent(submissions=path).check() or "")


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "3", json.dumps(row() | {"attempt": "0"}), json.dumps(row() | {"attempt": True}),
     json.dumps(row() | {"solution": None}), json.dumps({"task_id": "t"}),
     json.dumps(row("\ud800")), json.dumps(row(model="\ud800"))],
)  # fmt: skip
def test_a_bad_line_is_named(place: Path, line: str) -> None:
    agent = ReplayAgent(submissions=recorded(place, row("t/0"), line))
    assert "r.jsonl:2: " in (agent.check() or "")
    with pytest.raises(ConfigError, match=r"r\.jsonl:2"):
        agent.covers(["t/1"], [0])


def test_a_file_that_cannot_be_read_is_named(place: Path) -> None:
    damaged = bytearray(gzip.compress(b"{}\n" * 50))
    damaged[10] ^= 0xFF
    cut = gzip.compress(b"x" * 999)[:-9]
    for path, content in [("gone", None), ("half.gz", cut), ("damaged.gz", bytes(damaged)), ("latin", b"\xe9\n")]:
        if content is not None:
            (place / path).write_bytes(content)
        assert path in (ReplayAgent(submissions=str(place / path)).check() or "")


def test_real_recordings_load() -> None:
    data = Path(os.environ.get("RECURVE_DATA", Path(__file__).parents[2].parent / "shared/data")) / "submissions"
    files = sorted(data.glob("humaneval_*.jsonl.gz"))
    if not files:
        pytest.skip("no recorded submissions here: set RECURVE_DATA")
    for file in files:
        agent = ReplayAgent(submissions=str(file))
        assert agent.check() is None, file
        assert agent.pins()["submissions"] > 100
