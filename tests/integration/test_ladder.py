"""The ladder of arms on scripted agents: what is measured is what the scripts imply, computed here by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import recurve_eval
from recurve_eval.agents.scripted import ScriptedAgent
from recurve_eval.benchmarks.demo import DemoBenchmark
from recurve_eval.domain import Budget, ModelSpec, Solutions, Task
from recurve_eval.events import read_events
from recurve_eval.ports import TurnRequest
from tests.conftest import QUICK, Cli

ARMS = ("A0", "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10")
TASK = "rate_limiter"
SKILL, REPAIR, QUALITY, CYCLES = 0.4, 0.5, 0.5, 2
SEEDS = (0, 3)  # one that no turn mends, one that the second turn mends
TIERS = {
    "A2": "self_probe", "A3": "trap_hardened", "A4": "fuzz_measured", "A5": "trap_hardened", "A6": "trap_hardened",
    "A7": "adversary_cross_model", "A8": "trap_hardened", "A9": "trap_hardened", "A10": "adversary_cross_model",
}  # fmt: skip


def one_run(tmp_path: Path) -> Path:
    return next(tmp_path.glob("outputs/*/*/plan.yaml")).parent


def gates(tmp_path: Path) -> dict[str, Mapping[str, Any]]:
    return {row["identity"]["arm"]: row for row in recurve_eval.load(one_run(tmp_path)).rows}


class Script:
    """What a scripted agent will do in one task and seed, from its stated skill and nothing that was measured."""

    def __init__(self, seed: int) -> None:
        demo = DemoBenchmark()
        self.task: Task = demo.task(TASK)
        self.answers: Solutions = demo.solutions(TASK)
        self.agent = ScriptedAgent(repair=REPAIR, check_quality=QUALITY)
        model = ModelSpec("simulated_weak", "simulated-weak", True, SKILL)
        self.request = TurnRequest("", self.task, model, seed, 1, Budget("b", 60.0), self.answers)

    def draw(self, purpose: str, cycle: int) -> float:
        return self.agent._draw(self.request, purpose, cycle)

    def right(self, cycle: int) -> bool:
        return self.draw("solve", 1) < SKILL or any(self.draw("repair", n) < REPAIR for n in range(2, cycle + 1))

    def wrong_kind(self, cycle: int) -> str:
        return self.answers.known_bad[int(self.draw("wrong", cycle) * len(self.answers.known_bad))].kind

    def caught(self, cycle: int) -> bool:
        return self.draw(f"catch {self.wrong_kind(cycle)}", 1) < QUALITY

    def visible_accepts(self, cycle: int, place: Path) -> bool:
        bad = {b.kind: b.files for b in self.answers.known_bad}
        files = self.answers.canonical if self.right(cycle) else bad[self.wrong_kind(cycle)]
        place.mkdir(parents=True)
        for path, content in {**self.task.public, **files}.items():
            (place / path).write_bytes(content)
        words = [sys.executable if word == "{python}" else word for word in self.task.visible_check or ()]
        return subprocess.run(words, cwd=place, capture_output=True, check=False).returncode == 0

    def accepts(self, arm: str, cycle: int, place: Path) -> bool:
        """Whether an arm's gate lets the work of a cycle go."""
        if arm == "A1":
            return self.visible_accepts(cycle, place / f"{arm}-{cycle}")
        if arm in ("A7", "A9", "A10"):
            return self.right(cycle)
        return self.right(cycle) or not self.caught(cycle)

    def implied(self, arm: str, place: Path) -> tuple[bool, bool, int, str | None]:
        """Declared, good, rejections, tier."""
        if arm == "A0":
            return True, self.right(1), 0, None
        if arm == "A6":
            green = self.accepts("A3", 1, place)
            return True, self.right(1), int(not green), TIERS[arm] if green else None
        for cycle in range(1, CYCLES + 1):
            if self.accepts(arm, cycle, place):
                return True, self.right(cycle), cycle - 1, TIERS.get(arm)
        return False, self.right(CYCLES), CYCLES, None


def test_fdr_rejections_and_tiers_are_what_the_scripts_imply(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "run", *QUICK, f"task.select=[{TASK}]", f"arm={','.join(ARMS)}", "seed=0,3", "model=simulated_weak",
        f"agent.repair={REPAIR}", f"agent.check_quality={QUALITY}", f"budget.max_cycles={CYCLES}",
        "budget.wall_s=900", "run.workers=2", "run.analyze=false", timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = recurve_eval.load(one_run(tmp_path)).rows
    assert len(rows) == len(SEEDS) * len(ARMS)
    implied = {(arm, s): Script(s).implied(arm, tmp_path / f"visible-{s}") for arm in ARMS for s in SEEDS}
    measured = {
        (r["identity"]["arm"], r["identity"]["seed"]): (
            r["declaration"]["declared_done"], r["verdict"]["oracle_verdict"] == "pass",
            r["gate"]["rejections"], r["gate"]["tier"],
        )
        for r in rows
    }  # fmt: skip
    assert measured == implied
    # The scripts are such that the ladder shows something: the control ships bad work that reviewed arms withhold.
    bad = {arm: sum(d and not good for (a, _), (d, good, _, _) in implied.items() if a == arm) for arm in ARMS}
    assert bad["A0"] > bad["A7"] == 0


INCIDENT = (
    *QUICK, f"task.select=[{TASK}]", "model=simulated_weak", "model.skill=0", "agent.repair=0", "agent.checks=misread",
    "agent.check_quality=0", "budget.max_cycles=1", "budget.wall_s=900", "run.analyze=false", "run.workers=2",
)  # fmt: skip


def test_the_founding_incident(cli: Cli, tmp_path: Path) -> None:
    """One model wrote the solution, the claim and the probe from one misreading; the gate went green."""
    done = cli("run", *INCIDENT, "arm=A3,A7,A8,A9,A10", timeout=600)
    assert done.returncode == 0, done.stderr
    row = gates(tmp_path)
    assert row["A3"]["derived"]["outcome"] == "shipped_bad"
    (event,) = row["A3"]["gate"]["challenge_events"]
    assert (event["phase"], event["by"], event["tier_held"]) == ("post_publication", "oracle", "trap_hardened")
    assert row["A8"]["derived"]["outcome"] == "shipped_bad", "a mechanical look repeats the misreading"
    assert row["A7"]["gate"]["adversary"]["contested"][0]["status"] == "open"
    assert row["A7"]["derived"]["outcome"] == "withheld_bad"
    veto = row["A9"]["gate"]["governor"]["review"]["vetoes"][0]
    assert veto["reason"] == "the task asks for something else"
    assert row["A9"]["derived"]["outcome"] == row["A10"]["derived"]["outcome"] == "withheld_bad"
    told = [e["challenge"] for e in read_events(one_run(tmp_path)) if e["kind"] == "challenge_event"]
    assert {(e["by"], e["kind"]) for e in told} == {
        ("oracle", "falsified"), ("adversary", "contested"), ("governor", "veto"),
    }  # fmt: skip


def test_a_contest_that_is_talked_away_meets_the_governors_veto(cli: Cli, tmp_path: Path) -> None:
    words = [w for w in INCIDENT if not w.startswith("budget.max")]
    done = cli("run", *words, "budget.max_cycles=2", "agent.answers_contests=true", "arm=A7,A10", timeout=600)
    assert done.returncode == 0, done.stderr
    row = gates(tmp_path)
    assert {arm: r["gate"]["adversary"]["contested"][0]["status"] for arm, r in row.items()} == {
        "A7": "answered", "A10": "answered",
    }  # fmt: skip
    assert row["A7"]["derived"]["outcome"] == "shipped_bad", "an answer is enough for the adversary"
    assert row["A10"]["derived"]["outcome"] == "withheld_bad"
    assert row["A10"]["gate"]["governor"]["review"]["vetoes"][0]["reason"] == "the task asks for something else"
    assert [e["kind"] for e in row["A10"]["gate"]["challenge_events"]] == ["contested", "veto"]


MODES = ("hardening=none", "hardening=audit", "hardening=enforce")


def test_an_audit_finds_what_enforcement_refuses_and_changes_nothing(cli: Cli, tmp_path: Path) -> None:
    lenient = [w for w in INCIDENT if not w.startswith("agent.checks")]
    done = cli("run", *lenient, "agent.checks=always_green", "arm=A2", "gate/hardening=none,audit,enforce", timeout=600)
    assert done.returncode == 0, done.stderr
    rows = recurve_eval.load(one_run(tmp_path)).rows
    without, audited, enforced = (next(r for r in rows if mode in r["identity"]["arm"]) for mode in MODES)
    for group in ("declaration", "derived"):
        assert audited[group] == without[group] != enforced[group]
    assert audited["gate"]["outcome"] == without["gate"]["outcome"] == "GREEN"
    assert audited["gate"]["hardening"] == {**enforced["gate"]["hardening"], "mode": "audit"}
    assert not audited["gate"]["hardening"]["passed"]


@pytest.mark.parametrize("arm", ["A7", "A10"])
def test_a_correct_solution_under_a_hostile_reviewer_is_not_blocked_for_ever(
    cli: Cli, tmp_path: Path, arm: str
) -> None:
    hostile = ["gate.adversary.reviewer.mood=objects", "agent.answers_contests=true", "model.skill=1"]
    words = [w for w in INCIDENT if not w.startswith(("agent.", "model.skill", "budget.max"))]
    done = cli("run", *words, *hostile, f"arm={arm}", "budget.max_cycles=2", timeout=600)
    assert done.returncode == 0, done.stderr
    (row,) = gates(tmp_path).values()
    assert row["derived"]["outcome"] == "shipped_good"
    assert row["gate"]["rejections"] == 1
    assert row["gate"]["adversary"]["contested"][0]["status"] == "answered"
    assert row["gate"]["challenge_events"][0]["kind"] == "contested"


def test_a_reviewer_without_a_second_identity_is_trouble_of_the_machinery(cli: Cli, tmp_path: Path) -> None:
    refused = cli("run", *INCIDENT, "arm=A7", "gate.adversary.reviewer.served=simulated-weak")
    assert refused.returncode == 2
    assert "a second identity is needed" in refused.stderr
    masked = ["gate.adversary.reviewer.served=simulated-weak", "gate.adversary.model=another-name"]
    done = cli("run", *INCIDENT, "arm=A7", *masked)
    assert done.returncode == 4, done.stderr
    (row,) = gates(tmp_path).values()
    assert row["verdict"]["reason"] == "infra"
    assert "no second identity" in row["verdict"]["detail"]


def test_claims_that_never_were_are_a_failed_process_and_no_rejection(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", *INCIDENT, "arm=A3", "agent.checks=malformed,always_green,no_traps", timeout=300)
    assert done.returncode == 0, done.stderr
    rows = recurve_eval.load(one_run(tmp_path)).rows
    assert {r["declaration"]["stop_reason"] for r in rows} == {"process_failed"}
    assert {r["gate"]["rejections"] for r in rows} == {0}
    assert {r["gate"]["tier"] for r in rows} == {None}
    assert all(not r["gate"]["admission"]["admitted"] for r in rows)
