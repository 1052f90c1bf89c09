"""Budgets where they bind: during a turn, across turns, over a whole run; and what is refused before it starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recurve_eval
from recurve_eval.__main__ import main
from recurve_eval.errors import ConfigError, Refused, SpendRefused
from tests.conftest import QUICK, Cli

QUIET = (*QUICK, "run.progress=none", "run.analyze=false")
COMMAND = (*QUIET, "agent=command", "model=unnamed", "agent.paid=false")
ONE = "task.select={n: 1, seed: 0}"
CALL = 'sleep 0.05; echo \'{"u": {"i": 900, "o": 100}, "usd": 0.25, "m": "m-1"}\''
SAYS = "agent.usage={tokens_in: u.i, tokens_out: u.o, cost_usd: usd, model: m, add: sum}"
PAID = ("agent.paid=true", "agent.reports=cost", "spend.allow_unprotected=true")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs a script as the agent of one cell; the cell's row."""

    def call(script: str, *words: str) -> dict[str, Any]:
        (tmp_path / "agent.sh").write_text(script)
        agent = f"agent.argv=[/bin/sh,{tmp_path / 'agent.sh'}]"
        report = recurve_eval.run([*COMMAND, ONE, agent, f"run.outputs={tmp_path / 'outputs'}", *words])
        (row,) = recurve_eval.load(report.run_dir).rows
        return dict(row)

    return call


@pytest.fixture
def proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle has been calibrated for the one task."""
    monkeypatch.chdir(tmp_path)
    words = [
        *QUICK,
        ONE,
        f"run.outputs={tmp_path / 'outputs'}",
        "calibrate.runs=1",
        "calibrate.mutants=0",
        "run.progress=none",
    ]
    assert main(["calibrate", *words]) == 0


def test_the_budget_probe_holds_and_can_fail(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    probe = ["experiment=budget_probe", *QUIET, ONE, "arm=A0", f"run.outputs={tmp_path}"]
    recurve_eval.run(probe)
    assert "at most 4000 tokens beyond it, 8000 allowed" in capfd.readouterr().err
    with pytest.raises(Refused, match="used 64000 tokens under a budget of 60000: beyond it by more than 3999"):
        recurve_eval.run([*probe, "spend.probe_tokens=3999"])
    with pytest.raises(Refused, match="did not end on its budget") as idle:
        recurve_eval.run([*probe, "agent.appetite_tokens=8000"])
    assert idle.value.exit_code == 3, "a budget that was never met has shown nothing"


LOOP = f"echo 'x = 1' > solution.py; trap '' TERM; while :; do {CALL}; done"


@pytest.mark.parametrize(
    ("bound", "reason", "calls"),
    [("budget.tokens=3000", "budget_tokens", 3), ("budget.wall_s=1.0", "budget_wall", None)],
)
def test_a_turn_ends_at_whichever_bound_comes_first(
    run: Callable[..., dict[str, Any]], bound: str, reason: str, calls: int | None
) -> None:
    row = run(LOOP, SAYS, bound)
    assert row["declaration"] == {"declared_done": False, "declaration_source": "none", "stop_reason": reason}
    assert row["provenance"]["model_served"] == "m-1"
    if calls is not None:
        assert row["usage"]["tokens_in"] + row["usage"]["tokens_out"] == calls * 1000


@pytest.mark.usefixtures("proven")
def test_dollars_bind_during_a_turn_and_status_shows_them(
    run: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("calibrate.runs=1", "calibrate.mutants=0", "budget.usd=0.9", "budget.call_usd=0.25")
    with pytest.raises(SpendRefused, match=r"may cost up to \$1\.15"):
        run(LOOP, SAYS, *PAID, *own, "spend.max_usd=1.1")
    row = run(LOOP, SAYS, *PAID, *own, "spend.max_usd=2")
    assert row["declaration"]["stop_reason"] == "budget_usd"
    assert (row["usage"]["cost_usd"], row["usage"]["cost_source"]) == (1.0, "reported")
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["spent"], said["reserved"], said["left"]) == ("$1.00", "$0.00", "$1.00")


def test_a_record_that_is_rewritten_as_it_goes_is_watched_too(run: Callable[..., dict[str, Any]]) -> None:
    record = '{"tokens": {"input": %s000, "output": 0}}'
    loop = f"n=0; while :; do n=$((n+1)); printf '{record}' $n > r; mv r $RECURVE_RESULT_FILE; sleep 0.3; done"
    row = run(loop, "budget.tokens=3000")
    assert row["declaration"]["stop_reason"] == "budget_tokens"
    assert 3000 <= row["usage"]["tokens_in"] <= 6000


def test_turns_share_one_budget(run: Callable[..., dict[str, Any]]) -> None:
    row = run(CALL, SAYS, "arm=A1", "budget.max_cycles=9", "budget.tokens=2500")
    assert (row["usage"]["cycles"], row["declaration"]["stop_reason"]) == (3, "budget_tokens")


def test_an_unknown_use_of_a_bounded_unit_gets_no_second_turn(run: Callable[..., dict[str, Any]]) -> None:
    row = run("true", "arm=A1", "budget.max_cycles=9", "budget.tokens=2500")
    assert (row["usage"]["cycles"], row["declaration"]["stop_reason"]) == (1, "budget_tokens")
    assert row["usage"]["tokens_in"] is None


def test_another_model_than_the_required_one_leaves_the_cell_unscored(run: Callable[..., dict[str, Any]]) -> None:
    words = (SAYS, "arm.require_model=true", "run.stop_after_infra=0")
    assert run(CALL, *words, "model.id=m-1")["verdict"]["reason"] is None
    row = run(CALL, *words, "model.id=m-2")
    assert row["verdict"]["reason"] == "infra"
    assert "model 'm-2' was asked for and m-1 served" in row["verdict"]["detail"]


def test_matched_by_dollars_tokens_do_not_bind(run: Callable[..., dict[str, Any]]) -> None:
    words = (SAYS, "budget.tokens=900", "budget.usd=5")
    assert run(CALL, *words)["declaration"]["stop_reason"] == "budget_tokens"
    assert run(CALL, *words, "budget.match=usd")["declaration"]["stop_reason"] == "declared"


def test_match_needs_dollars() -> None:
    with pytest.raises(ConfigError, match=r"budget\.match=usd needs budget\.usd"):
        recurve_eval.submit([*QUICK, "budget.match=usd"])


REVIEWER = """# Agrees, for 25 cents.
_target_: recurve_eval.gates.adversary.Adversary
name: adversary
model: second
reviewer:
  _target_: recurve_eval.agents.command.CommandAgent
  argv: [/bin/sh, {script}]
  paid: true
  reports: {reports}
"""
AGREES = """echo '{"verdict": "agree", "proposals": []}'
echo '{"model": "second", "tokens": {"input": 70000, "output": 1}, "cost_usd": 0.25}' > "$RECURVE_RESULT_FILE"
"""


def reviewing(place: Path, reports: str, then: str = "") -> list[str]:
    """A free agent under a paid reviewer, who uses far more than the agent."""
    (place / "reviewer.sh").write_text(AGREES + then)
    (place / "conf/gate/adversary").mkdir(parents=True)
    part = REVIEWER.format(script=place / "reviewer.sh", reports=reports)
    (place / "conf/gate/adversary/mine.yaml").write_text(part)
    own = ["--config-dir", str(place / "conf"), *QUIET, ONE, "arm=A3", "gate/adversary=mine", "model.skill=1"]
    limits = ["budget.usd=1", "budget.call_usd=0.25", "spend.max_usd=3", "spend.allow_unprotected=true"]
    return [*own, *limits, "calibrate.runs=1", "calibrate.mutants=0"]


@pytest.mark.usefixtures("proven")
@pytest.mark.parametrize(
    ("bound", "then", "reason"),
    [
        ("budget.tokens=null", "", "gate_green"),
        ("budget.tokens=60000", "sleep 60", "budget_tokens"),
        ("budget.usd=0.2", "", "budget_usd"),
    ],
    ids=["within", "stopped_by_it", "beyond_it"],
)
def test_what_a_reviewer_uses_is_used_by_the_cell(cli: Cli, tmp_path: Path, bound: str, then: str, reason: str) -> None:
    given = reviewing(tmp_path, "cost", then)
    words = [w for w in given if w.partition("=")[0] != bound.partition("=")[0]]
    done = cli("run", *words, bound)
    assert done.returncode == 0, done.stderr
    (row,) = recurve_eval.load(next(tmp_path.glob("outputs/*/*/plan.yaml")).parent).rows
    assert row["gate"]["adversary"]["usage"] == {"tokens_in": 70000, "tokens_out": 1, "cost_usd": 0.25}
    assert (row["usage"]["cost_usd"], row["usage"]["tokens_in"] > 70000) == (0.25, True)
    assert row["declaration"]["stop_reason"] == reason
    assert json.loads(cli("status", "--json").stdout)["spent"] == "$0.25"


@pytest.mark.usefixtures("proven")
@pytest.mark.parametrize(
    ("reports", "said"), [("nothing", "does not say what it used"), ("tokens", "no line for model")]
)
def test_a_paid_reviewer_whose_cost_nobody_will_know_is_refused(
    cli: Cli, tmp_path: Path, reports: str, said: str
) -> None:
    done = cli("run", *reviewing(tmp_path, reports))
    assert done.returncode == 3
    assert "reviewer 'command'" in done.stderr
    assert said in done.stderr
