"""A gate of one's own is one YAML: any command, with something to set up first where it needs that."""

from __future__ import annotations

from pathlib import Path

import recurve_eval
from tests.conftest import QUICK, Cli

ARM = """# @package _global_
# Ours.
defaults:
  - override /gate/checks: ci
  - override /controller: external_ci
arm: {{name: mine, description: ours, stream: 0}}
gate:
  checks:
    prepare_command: [sh, -c, "{prepare}"]
    command: [sh, -c, "test -f hook && ! grep -q NotImplemented solution.py"]
"""


def run(cli: Cli, tmp_path: Path, prepare: str) -> list[dict[str, object]]:
    (tmp_path / "conf/arm").mkdir(parents=True)
    (tmp_path / "conf/arm/mine.yaml").write_text(ARM.format(prepare=prepare))
    cli("run", "--config-dir", str(tmp_path / "conf"), *QUICK, "task.select={n: 1}", "arm=A0,mine", "model.skill=1",
        "run.analyze=false")  # fmt: skip
    rows = recurve_eval.load(next(tmp_path.glob("outputs/*/*/plan.yaml")).parent).rows
    return [dict(r) for r in rows if r["identity"]["arm"] == "mine"]


def test_a_command_and_its_preparation_are_a_gate(cli: Cli, tmp_path: Path) -> None:
    (row,) = run(cli, tmp_path, "echo on > hook")
    assert row["declaration"]["stop_reason"] == "gate_green"  # type: ignore[index]


def test_a_preparation_that_fails_is_no_failure_of_the_agent(cli: Cli, tmp_path: Path) -> None:
    (row,) = run(cli, tmp_path, "echo broken hook; exit 3")
    assert row["verdict"]["reason"] == "infra"  # type: ignore[index]
    assert "prepare_command of 'ci' exited 3: broken hook" in row["verdict"]["detail"]  # type: ignore[index]
