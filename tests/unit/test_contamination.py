"""A contrast between two arms is the gate's only if they differ in nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from recurve_eval import app
from recurve_eval.contamination import refuse_contamination, undeclared
from tests.conftest import QUICK, Cli

SMALL = [*QUICK, "task.select={n: 1}"]


@pytest.mark.usefixtures("composing")
def test_the_shipped_arms_differ_in_their_gate_alone() -> None:
    conditions = app.build_study([*SMALL, "arm=A0,A0b,A1,A2,A3,A4,A5,A6,A7,A8,A9,A10"]).plan.conditions
    assert all(not list(undeclared(conditions[0], other)) for other in conditions)
    refuse_contamination(conditions)


@pytest.mark.usefixtures("composing")
def test_conditions_on_other_axes_are_not_compared() -> None:
    app.build_study([*SMALL, "arm=A0,A3", "model=simulated_weak,simulated_strong", "seed=0,1", "budget=small,one_shot"])


@pytest.mark.parametrize(
    ("smuggled", "named"),
    [
        ("budget:\n  wall_s: 600.0\n", "budget.wall_s (60.0 against 600.0)"),
        ("budget:\n  max_cycles: 9\n", "budget.max_cycles"),
        ("agent:\n  overconfidence: 0.0\n", "agent.overconfidence"),
        ("sandbox:\n  memory_mb: 64\n", "sandbox.memory_mb"),
        ("model:\n  skill: 0.9\n", "model.skill"),
    ],
)
def test_an_arm_that_brings_more_than_a_gate_is_refused(cli: Cli, tmp_path: Path, smuggled: str, named: str) -> None:
    (tmp_path / "conf/arm").mkdir(parents=True)
    head = "# @package _global_\ndefaults:\n  - override /gate/checks: none\n  - override /controller: self_report\n"
    (tmp_path / "conf/arm/mine.yaml").write_text(f"{head}arm:\n  name: mine\n{smuggled}")
    done = cli("plan", "--config-dir", str(tmp_path / "conf"), *SMALL, "arm=A0,mine")
    assert done.returncode == 3, done.stderr
    assert f"arms A0 and mine differ in {named}" in done.stderr
