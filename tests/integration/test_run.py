"""From one command line to sealed rows, a tracker and a summary; with the real parts."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import recurve_eval
from recurve_eval.errors import ConfigError, Interrupted
from recurve_eval.rows import validate
from tests.conftest import QUICK, Cli

SMALL = (*QUICK, "task.select={n: 3, seed: 1}", "run.workers=2", "analysis.figures=false")


def only_run(tmp_path: Path) -> Path:
    runs = list(tmp_path.glob("outputs/*/*/plan.yaml"))
    assert len(runs) == 1, runs
    return runs[0].parent


def test_a_study_ends_with_valid_rows_and_a_summary(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", *SMALL, "arm=A0,A0b,A1", "seed=0,1")
    assert done.returncode == 0, done.stderr
    run_dir = only_run(tmp_path)
    results = recurve_eval.load(run_dir)
    assert len(results.rows) == 18
    for row in results.rows:
        validate(row)
    assert f"summary: {run_dir.relative_to(tmp_path)}/analysis/summary.md" in done.stdout
    assert "| A1 |" in done.stdout
    assert json.loads((run_dir / "analysis/summary.json").read_text())
    assert (
        list(results.frame()["identity.order"]) == sorted(results.frame()["identity.order"]) or len(results.rows) == 18
    )


def test_the_same_command_resumes_and_runs_nothing_again(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", *SMALL).returncode == 0
    before = (only_run(tmp_path) / "results.jsonl").read_bytes()
    again = cli("run", *SMALL)
    assert again.returncode == 0
    assert "3 sealed before" in again.stderr
    assert (only_run(tmp_path) / "results.jsonl").read_bytes() == before


def test_arms_of_one_seed_start_from_the_same_draft_and_the_noise_floor_does_not(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", *QUICK, "arm=A0,A0b", "seed=0,1", "model=simulated_weak").returncode == 0
    by_arm: dict[str, list[str]] = {"A0": [], "A0b": []}
    for row in sorted(recurve_eval.load(only_run(tmp_path)).rows, key=lambda r: str(r["identity"])):
        by_arm[row["identity"]["arm"]].append(row["verdict"]["oracle_verdict"])
    assert sorted(by_arm["A0"]) != by_arm["A0"] or by_arm["A0"] != by_arm["A0b"]


def test_a_perfect_and_a_hopeless_agent_get_what_they_deserve(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", *SMALL, "model.skill=1.0", "study.name=good").returncode == 0
    assert cli("run", *SMALL, "model.skill=0.0", "study.name=bad").returncode == 0
    outcomes = {
        name: {r["derived"]["outcome"] for r in recurve_eval.load(next(tmp_path.glob(f"outputs/{name}/*"))).rows}
        for name in ("good", "bad")
    }
    assert outcomes == {"good": {"shipped_good"}, "bad": {"shipped_bad"}}


def test_plan_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    done = cli("plan", *SMALL, "arm=A0,A1")
    assert done.returncode == 0
    assert "cells        6 = 2 conditions x 3 tasks" in done.stdout
    assert "$0.00" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_design_that_cannot_reach_its_alpha_is_refused(cli: Cli) -> None:
    done = cli("plan", *SMALL, "arm=A0,A1", "study.primary={baseline: A0, treatment: A1}")
    assert done.returncode == 3
    assert "3 tasks cannot reach alpha 0.05" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "agent=scriptd"), 2, "Did you mean 'agent=scripted'"),
        (("plan", "+extra=1"), 2, "unknown key 'extra'"),
        (("rum",), 2, "Did you mean 'run'"),
        (("status",), 2, "there is no run"),
        (("analyze", "nowhere"), 2, "is not a run directory"),
        (("run", *SMALL, "agent=command", 'agent.argv=["true"]', "budget.usd=1"), 3, "spend.max_usd"),
        (("run", *SMALL, "agent=command", 'agent.argv=["true"]'), 3, "ceiling of this plan is unknown"),
        (("run", *SMALL, "agent=command", "agent.argv=[no-such-program]", "agent.paid=false"), 2, "no-such-program"),
        (("run", *SMALL, "agent=replay", "agent.submissions=missing.jsonl"), 2, "missing.jsonl"),
    ],
)
def test_each_refusal_has_its_code_and_says_why(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = cli(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("outputs/*/*/results.jsonl"))


@pytest.mark.parametrize("verb", ["run", "plan", "status", "analyze", "mirror", "doctor"])
def test_every_verb_explains_itself(cli: Cli, verb: str) -> None:
    done = cli(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 100


def test_status_tells_what_is_sealed(cli: Cli) -> None:
    assert cli("run", *SMALL).returncode == 0
    facts = json.loads(cli("status", "--json").stdout)
    assert facts["sealed"] == "3 of 3"
    assert facts["running"] == "no"
    by_overrides = cli("status", "--json", *SMALL)
    assert json.loads(by_overrides.stdout) == facts


def test_a_run_reaches_mlflow_and_analyze_reads_it_back(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", *SMALL, "tracking=mlflow", "arm=A0,A1")
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(tmp_path / "outputs/mlflow.db") as database:
        (children,) = database.execute("select count(*) from tags where key = 'mlflow.parentRunId'").fetchone()
    assert children == 6
    said = cli("analyze")
    assert "6 rows from the tracker; the ledger agrees" in said.stderr
    assert said.returncode == 0


def test_analyze_says_so_when_the_tracker_disagrees_and_mirror_repairs(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", *SMALL, "tracking=mlflow").returncode == 0
    database = sqlite3.connect(tmp_path / "outputs/mlflow.db")
    (child,) = database.execute("select run_uuid from tags where key = 'mlflow.parentRunId'").fetchone()
    database.execute("update runs set lifecycle_stage = 'deleted' where run_uuid = ?", (child,))
    database.commit()
    database.close()
    said = cli("analyze")
    assert "disagrees with the ledger: 1 cells are missing" in said.stderr
    repaired = cli("mirror")
    assert "1 rows sent" in repaired.stdout
    assert "the ledger agrees" in cli("analyze").stderr


def test_hydras_stock_launchers_give_the_same_rows(cli: Cli, tmp_path: Path) -> None:
    small = (*QUICK, "task.select={n: 2, seed: 1}", "arm=A0,A1")
    assert cli("run", *small, "study.name=local").returncode == 0
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary)}
    for launcher in ("basic", "joblib"):
        words = (f"study.name={launcher}", f"hydra/launcher={launcher}")
        done = cli("run", *small, *words, timeout=300, env=env)
        assert done.returncode == 0, done.stderr + done.stdout
        assert list(temporary.glob("recurve-*")) == [], "no process of any launcher left a workspace"

    def verdicts(name: str) -> dict[str, tuple[str, str]]:
        rows = recurve_eval.load(next(tmp_path.glob(f"outputs/{name}/*"))).rows
        return {r["identity"]["cell_id"]: (r["derived"]["outcome"], r["attestation"]["submission_hash"]) for r in rows}

    assert verdicts("basic") == verdicts("local")
    assert verdicts("joblib") == verdicts("local")


def test_the_python_api_does_not_block(tmp_path: Path) -> None:
    handle = recurve_eval.submit([*SMALL, f"run.outputs={tmp_path}"])
    report = handle.result(timeout=120)
    assert handle.done()
    assert handle.progress().sealed == 3
    assert report.sealed == report.total == 3
    assert len(recurve_eval.load(report.run_dir).frame()) == 3


def test_the_python_api_cancels_and_resumes(tmp_path: Path) -> None:
    slow = [*SMALL, f"run.outputs={tmp_path}", "agent.behaviour=hang", "budget.wall_s=60"]
    handle = recurve_eval.submit(slow)
    while not handle.progress().running:
        assert not handle.done()
    handle.cancel()
    with pytest.raises(Interrupted, match="the same command resumes"):
        handle.result(timeout=60)
    assert recurve_eval.load(handle.run_dir).rows == []


def test_the_python_api_refuses_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        recurve_eval.load(tmp_path)


def test_a_users_own_options_come_from_a_config_dir(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine/arm").mkdir(parents=True)
    (tmp_path / "mine/arm/lint.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /gate/checks: ci\n  - override /controller: external_ci\n"
        "arm: {name: lint}\ngate:\n  checks:\n    command: ['{python}', -m, py_compile, solution.py]\n",
        encoding="utf-8",
    )
    done = cli("run", "--config-dir", "mine", *SMALL, "arm=A0,lint")
    assert done.returncode == 0, done.stderr
    arms = {r["identity"]["arm"] for r in recurve_eval.load(only_run(tmp_path)).rows}
    assert arms == {"A0", "lint"}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("recurve-eval pl", "plan"),
        ("recurve-eval run arm=A1", "arm=A1"),
        ("recurve-eval plan oracle=pro", "oracle=process"),
    ],
)
def test_tab_completes_verbs_and_overrides(cli: Cli, line: str, offered: str) -> None:
    done = cli("-sc", "query=bash", env={"COMP_LINE": line, "COMP_POINT": str(len(line))})
    assert offered in done.stdout.split()


def test_progress_counts_what_was_sealed_before(cli: Cli) -> None:
    assert cli("run", *SMALL).returncode == 0
    again = cli("run", *SMALL, "run.progress=plain")
    assert "sealed 3/3  running 0  declared 3" in again.stderr
