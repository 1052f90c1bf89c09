"""What spans arms, budgets, rounds and halves: right counts, and nothing where there is nothing."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from analysis_samples import Row, plan_of, row, unscored
from test_analysis_summary import SCHEMA

from recurve_eval.analysis import analyze_rows
from recurve_eval.analysis.ladder import rungs_of
from recurve_eval.errors import Drift


def valid(rows: list[Row], plan: dict[str, Any]) -> Any:
    summary = analyze_rows(rows, plan=plan)
    jsonschema.validate(summary.data, SCHEMA)
    return summary


CLAIMS = {"controller": "gate", "checks": "claims", "boundary": "mount"}
TRAPPED = {**CLAIMS, "traps": "on"}
LADDER = {
    "A0": {"controller": "self"},
    "A0b": {"controller": "self"},
    "A1": {"controller": "ci", "checks": "ci"},
    "A2": CLAIMS,
    "A3": TRAPPED,
    "A4": {**TRAPPED, "hardening": "on"},
    "A5": {k: v for k, v in TRAPPED.items() if k != "boundary"},
    "A6": {**TRAPPED, "controller": "self"},
    "A7": {**TRAPPED, "adversary": "on"},
    "A8": {**TRAPPED, "governor": "mechanical"},
    "A9": {**TRAPPED, "governor": "review"},
    "A10": {**TRAPPED, "adversary": "on", "governor": "review"},
}


def test_every_rung_stands_on_the_arm_most_like_it() -> None:
    assert [(arm, parent, parts) for arm, parent, parts in rungs_of(LADDER)] == [
        ("A1", "A0", ("checks", "controller")),
        ("A2", "A1", ("boundary", "checks", "controller")),
        ("A3", "A2", ("traps",)),
        ("A4", "A3", ("hardening",)),
        ("A5", "A3", ("boundary",)),
        ("A6", "A3", ("controller",)),
        ("A7", "A3", ("adversary",)),
        ("A8", "A3", ("governor",)),
        ("A9", "A8", ("governor",)),
        ("A10", "A9", ("adversary",)),
    ]


def test_a_rung_has_the_effect_of_its_parts_alone() -> None:
    rows = []
    for n in range(20):
        for arm, shipped in (("A0", 12), ("A2", 9), ("A3", 3)):
            bad = n < 12
            rows.append(
                row(f"t{n}", arm, parts=LADDER[arm], verdict="fail" if bad else "pass", declared=not bad or n < shipped)
            )
    summary = valid(rows, plan_of("A0", "A3"))
    found = {r["arm"]: r for r in summary.data["ladder"]}
    assert (found["A3"]["parent"], found["A3"]["parts"]) == ("A2", ["traps"])
    assert found["A3"]["ship_bad"]["value"] == pytest.approx(-6 / 20)
    assert found["A3"]["test"]["p_value"] == pytest.approx(2 / 2**6)
    assert (found["A3"]["prevented"], found["A2"]["prevented"]) == (6, 3)
    assert "| A3 | A2 | traps | 20 | -30.0 [" in summary.markdown()
    assert not valid([r for r in rows if r["identity"]["arm"] != "A2"], plan_of("A0", "A3")).data["ladder"]


def test_pass_at_budget_counts_the_same_cells_at_every_budget() -> None:
    passed = {"9k": 2, "10k": 5, "200k": 8}
    rows = [row(f"t{n}", budget=b, verdict="pass" if n < k else "fail") for b, k in passed.items() for n in range(10)]
    rows += [row("t10", budget="9k"), unscored("t10", "A0", budget="10k"), row("t10", budget="200k")]
    summary = valid(rows, {})
    (curve,) = summary.data["budget_curves"]
    points = curve["points"]
    assert [(p["budget"], p["oracle_pass"]["count"], p["oracle_pass"]["n"]) for p in points] == [
        ("9k", 2, 10), ("10k", 5, 10), ("200k", 8, 10),
    ]  # fmt: skip
    assert "undefined" in points[0]["change"]["value"] and points[2]["change"]["value"] == pytest.approx(0.3)
    assert points[2]["change"]["interval"]["high"] > 0.3 and curve["tasks"] == 10
    assert "| demo | m | A0 | 200k | 8/10 = 80.0% [" in summary.markdown()


def test_budgets_stand_in_the_order_of_their_size_by_the_plan() -> None:
    rows = [row(f"t{n}", budget=b) for b in ("wide", "narrow") for n in range(3)]
    sizes = {"wide": None, "narrow": 500}
    plan = {"conditions": [{"config": {"budget": {"name": b, "tokens": t, "wall_s": 60.0}}} for b, t in sizes.items()]}
    (curve,) = valid(rows, plan).data["budget_curves"]
    assert [p["budget"] for p in curve["points"]] == ["narrow", "wide"]


def test_rejections_are_counted_round_by_round() -> None:
    def gated(task: str, cycles: int, rejections: int) -> Row:
        refused = rejections == cycles
        more: Any = (
            {"gate": "RED", "stop": "max_cycles", "declared": False}
            if refused
            else {"gate": "GREEN", "stop": "gate_green"}
        )
        return row(task, "A1", cycles=cycles, rejections=rejections, **more)

    rows = [gated("t1", 1, 0), gated("t2", 3, 2), gated("t3", 3, 3), row("t1"), row("t2"), row("t3")]
    summary = valid(rows, plan_of())
    control, treated = summary.data["arms"]
    assert control["timeline"] == []
    assert [(t["checked"], t["rejected"]) for t in treated["timeline"]] == [(3, 2), (2, 2), (2, 1)]
    assert "| A1 | 2/3 | 2/2 | 1/2 |" in summary.markdown()


def test_both_halves_of_a_benchmark_stand_side_by_side() -> None:
    rows = [row(f"t{n}", verdict="pass" if n else "fail") for n in range(4)]
    rows += [row(f"t{n}", benchmark="demo-impossible", verdict="fail", declared=n < 3) for n in range(4)]
    summary = valid(rows, {})
    (half,) = summary.data["halves"]
    assert (half["benchmark"], half["arm"]) == ("demo", "A0")
    counts = {k: (half[k]["count"], half[k]["n"]) for k in ("solvable", "impossible", "solvable_fdr", "impossible_fdr")}
    assert counts == {"solvable": (1, 4), "impossible": (3, 4), "solvable_fdr": (1, 4), "impossible_fdr": (3, 3)}
    assert "| demo | m | scripted | small | A0 | 1/4 = 25.0% [" in summary.markdown()
    assert not valid(rows[:4], {}).data["halves"]


def test_what_the_gates_held_and_met_is_counted() -> None:
    rows = [row(f"t{n}", "A3", gate="GREEN") for n in range(3)]
    for one, tier in zip(rows, ("trap_hardened", "trap_hardened", "self_probe"), strict=True):
        one["gate"] |= {"claims": 2, "traps": 3, "tier": tier, "boundary": {"mode": "mount", "violations": 1}}
    rows[0]["gate"]["challenge_events"] = [{"phase": "pre_publication"}, {"phase": "post_publication"}]
    summary = valid(rows, {})
    assert summary.data["arms"][0]["gate"] == {
        "claims": 6, "traps": 9, "tiers": {"self_probe": 1, "trap_hardened": 2}, "violations": 3,
        "challenges": {"post_publication": 1, "pre_publication": 1},
    }  # fmt: skip
    assert "`self_probe` 1, `trap_hardened` 2" in summary.markdown()


def test_the_noise_floor_stands_beside_every_effect_of_a_contrast() -> None:
    rows = [
        row(f"t{n}", arm, verdict="fail" if n < bad else "pass")
        for arm, bad in (("A0", 9), ("A0b", 8), ("A1", 2))
        for n in range(20)
    ]
    text = valid(rows, plan_of(noise_floor={"baseline": "A0", "treatment": "A0b"})).markdown()
    table = text.split("## A1 against A0")[1].split("Price of trust")[0]
    assert "noise floor, points" in table and table.count("-5.0 [") == 2
    assert "| A1 against A0 | 9 | 7 | 7 | 0 | 0 | 2 | 0 |" in text


def test_plans_are_joined_only_where_their_pins_agree() -> None:
    mine = [row(f"t{n}", arm, parts=LADDER[arm]) for n in range(3) for arm in ("A0", "A3")]
    other = {**TRAPPED, "traps": None, "hardening": "on"}
    theirs = [row(f"u{n}", "A3", parts=other, plan="f" * 64, oracle_env="9" * 64) for n in range(3)]
    with pytest.raises(Drift) as refused:
        analyze_rows([*mine, *theirs], plan={})
    said = str(refused.value)
    assert (
        "oracle_env_hash of benchmark 'demo' is 9999" in said or "oracle_env_hash of benchmark 'demo' is bbbb" in said
    )
    assert "gate.traps of arm A3 is on in aaaaaaaaaaaaaaaa and None in ffffffffffffffff" in said
    assert "gate.hardening of arm A3 is absent in aaaaaaaaaaaaaaaa and on in ffffffffffffffff" in said
    like = [row(f"u{n}", "A3", parts=TRAPPED, plan="f" * 64) for n in range(3)]
    assert analyze_rows([*mine, *like], plan={}).data["study"]["cells"] == 9
