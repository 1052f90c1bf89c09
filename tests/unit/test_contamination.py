"""A contrast between two arms is the gate's only if they differ in nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recurve_eval import app
from recurve_eval.contamination import refuse_contamination, undeclared
from recurve_eval.errors import ConfigError, Refused
from tests.conftest import QUICK, Cli

SMALL = [*QUICK, "task.select={n: 1}"]


@pytest.mark.usefixtures("composing")
def test_the_shipped_arms_differ_in_their_gate_alone() -> None:
    study = app.build_study([*SMALL, "arm=A0,A0b,A1,A2,A3,A4,A5,A6,A7,A8,A9,A10"])
    conditions = study.plan.conditions
    assert all(not list(undeclared(conditions[0], other)) for other in conditions)
    refuse_contamination(conditions, study.points)


@pytest.mark.usefixtures("composing")
def test_what_an_adapter_resolved_may_not_differ_either() -> None:
    study = app.build_study([*SMALL, "arm=A0,A3"])
    a0, a3 = study.plan.conditions
    newer = replace(a3, pins={**a3.pins, "agent": {**a3.pins["agent"], "version": "2"}})  # type: ignore[dict-item]
    with pytest.raises(Refused, match=r"differ in pins\.agent\.version"):
        refuse_contamination([a0, newer], study.points)


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
        ("budget:\n  name: mine\n", "budget.name ('small' against 'mine')"),
        ("seed: 5\n", "seed (0 against 5)"),
        ("task:\n  select: {n: 2}\n", "task.select"),
    ],
)
def test_an_arm_that_brings_more_than_a_gate_is_refused(cli: Cli, tmp_path: Path, smuggled: str, named: str) -> None:
    (tmp_path / "conf/arm").mkdir(parents=True)
    head = "# @package _global_\ndefaults:\n  - override /gate/checks: none\n  - override /controller: self_report\n"
    (tmp_path / "conf/arm/mine.yaml").write_text(f"{head}arm:\n  name: mine\n{smuggled}")
    given = QUICK if smuggled.startswith("task:") else SMALL
    done = cli("plan", "--config-dir", str(tmp_path / "conf"), *given, "arm=A0,mine")
    assert done.returncode == 3, done.stderr
    assert f"arms A0 and mine differ in {named}" in done.stderr


@pytest.mark.usefixtures("composing")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["arm=A3", "gate/boundary=none"], "claims need a write boundary"),
        (["arm=A3", "gate/checks=none"], "gate/traps judges claims, and nothing asks for any"),
        (["arm=A1", "gate/governor=mechanical"], "gate/governor judges claims"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        app.build_study([*SMALL, *words])


def test_an_open_boundary_and_a_changed_composition_are_said_aloud(cli: Cli) -> None:
    said = cli("plan", *SMALL, "arm=A3,A5").stdout
    assert "boundary     OPEN in A5" in said
    assert "composition" not in said
    changed = cli("plan", *SMALL, "arm=A3", "gate/adversary=cross_model").stdout
    assert "composition  A3: as composed here it is A7" in changed


def test_arms_are_listed_and_shown(cli: Cli) -> None:
    listed = cli("arm", "list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[::2]] == [
        "A0", "A0b", "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10",
    ]  # fmt: skip
    shown = cli("arm", "show", "A8").stdout
    assert "difference from A3:" in shown
    assert "gate.governor._target_: none -> recurve_eval.gates.governor.MechanicalGovernor" in shown
    unknown = cli("arm", "show", "A77")
    assert (unknown.returncode, "Did you mean 'A7'" in unknown.stderr) == (2, True)
