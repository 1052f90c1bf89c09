"""The summary: right numbers, honest words, the same bytes."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from analysis_samples import Row, historical, plan_of, row, unscored

from recurve_eval.analysis import analyze_rows
from recurve_eval.analysis.markdown import headline
from recurve_eval.calibration.judge import counts_of
from recurve_eval.errors import ConfigError, Drift
from recurve_eval.resources import schema_path
from recurve_eval.rows import validate
from recurve_eval.stats import ShapeError

SCHEMA = json.loads(schema_path("summary-1").read_text(encoding="utf-8"))
REPO = Path(__file__).resolve().parents[2]
FLOOR = {"baseline": "A0", "treatment": "A0b"}


def study(tasks: int = 30, seeds: int = 1, models: tuple[str, ...] = ("haiku",), unknown: bool = False) -> list[Row]:
    """Simulated rows of three arms; A1 catches about two thirds of the bad work."""
    r, rows = random.Random(5), []
    for n in range(tasks):
        for model in models:
            hard = r.random()
            for arm in ("A0", "A0b", "A1"):
                for seed in range(seeds):
                    good = r.random() > hard
                    caught = arm == "A1" and not good and r.random() < 0.66
                    usd = None if unknown and n == 0 and arm == "A1" else r.randint(1, 9) / 7
                    gate = "none" if arm != "A1" else "RED" if caught else "GREEN"
                    stop = "max_cycles" if caught else "declared"
                    verdict, tokens = "pass" if good else "fail", (r.randint(50, 90), 9)
                    at = {
                        "model": model,
                        "seed": seed,
                        "simulated": True,
                        "rejections": int(caught),
                        "tokens": tokens,
                        "usd": usd,
                    }
                    rows.append(row(f"t{n}", arm, **at, declared=not caught, verdict=verdict, gate=gate, stop=stop))
    return rows


def contrast(data: dict[str, Any], treatment: str, model: str = "haiku") -> dict[str, Any]:
    return next(c for c in data["contrasts"] if c["treatment"] == treatment and c["stratum"]["model"] == model)


def arm(data: dict[str, Any], name: str, model: str = "haiku") -> dict[str, Any]:
    return next(a for a in data["arms"] if a["arm"] == name and a["stratum"]["model"] == model)


@pytest.mark.parametrize(
    ("rows", "plan"),
    [
        (historical(), plan_of("A0", "A3")),
        (study(), plan_of(noise_floor=FLOOR)),
        (study(8, seeds=3, models=("haiku", "sonnet")), plan_of(noise_floor=FLOOR)),
        (study(8, unknown=True), {}),
        ([row(), unscored("t1", "A1")], plan_of()),
        ([row()], plan_of()),
        (study(8), {**plan_of(), "calibration": {"fails_bad": [40, 40], "passes_good": [39, 40]}}),
    ],
)
def test_every_summary_is_valid_against_the_shipped_schema(rows: list[Row], plan: dict[str, Any]) -> None:
    for one in rows:
        validate(one)
    summary = analyze_rows(rows, plan=plan)
    jsonschema.Draft202012Validator(SCHEMA).validate(summary.data)
    assert json.loads(summary.json()) == summary.data
    assert "NaN" not in summary.json()
    assert "nan" not in summary.markdown()


def test_the_schema_refuses_an_undeclared_field() -> None:
    data = analyze_rows([row()], plan=plan_of()).data
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "extra": 1}, SCHEMA)


def test_the_historical_smoke_run() -> None:
    summary = analyze_rows(historical(), plan=plan_of("A0", "A3"))
    data, text = summary.data, summary.markdown()
    assert "One task supports no effect size" in text
    assert "FDR 0/1 = 0.0% -> 1/1 = 100.0%; price: tokens x4.28" in text
    assert "-> 0/0 undefined; price: tokens x47.01" in text
    assert "**No verdict: one task supports no effect size: nothing varies between tasks.**" in text
    pooled = next(a for a in data["arms_all_strata"] if a["arm"] == "A3")
    assert (pooled["fdr"]["count"], pooled["fdr"]["n"]) == (1, 1)
    assert pooled["fdr"]["interval"]["low"] == pytest.approx(0.2065, abs=5e-5)
    for model, ratio in (("haiku", 6757689 / 143735), ("sonnet", 4929738 / 1151762)):
        found = contrast(data, "A3", model)
        assert found["price"]["ratios"]["tokens"]["ratio"]["value"] == pytest.approx(ratio)
        assert "one task" in found["endpoints"]["ship_bad"]["effect"]["value"]["undefined"]
        assert "one task" in found["endpoints"]["ship_bad"]["test"]["undefined"]
        assert "at least 6 tasks" in found["detectable"]["refused"]
        assert "unknown in 1 of 1" in found["price"]["ratios"]["cost_usd"]["ratio"]["value"]["undefined"]
    assert arm(data, "A3")["withheld"]["process_failed"] == 1
    assert arm(data, "A3")["fdr"]["value"] == {"undefined": "no observation is in the denominator"}
    golden = Path(__file__).with_name("golden_smoke_summary.md")
    assert text == golden.read_text(encoding="utf-8")


def test_one_seed_gets_exact_mcnemar_and_newcombe() -> None:
    rows = [row(f"t{n}", "A0", verdict="fail" if n < 9 else "pass") for n in range(20)]
    rows += [row(f"t{n}", "A1", verdict="fail" if n < 9 else "pass", declared=n not in range(1, 9)) for n in range(20)]
    found = contrast(analyze_rows(rows, plan=plan_of()).data | {}, "A1", "m")
    end = found["endpoints"]["ship_bad"]
    assert end["table"] == {"both": 1, "first_only": 8, "second_only": 0, "neither": 11}
    assert (end["test"]["method"], end["test"]["p_value"]) == ("exact McNemar", pytest.approx(2 / 2**8))
    assert end["effect"]["value"] == pytest.approx(-0.4)
    assert end["effect"]["interval"]["method"] == "Newcombe method 10"
    assert end["effect"]["interval"]["high"] < 0
    assert found["after_shipped_bad"] == {
        "baseline_shipped_bad": 9, "repaired": 0, "repaired_but_withheld": 0, "refused": 8, "missed": 1, "unscored": 0,
    }  # fmt: skip
    assert (found["price"]["prevented"], found["price"]["good_lost"]) == (8, 0)


def test_several_seeds_make_the_task_the_unit() -> None:
    cells = [(f"t{n}", seed) for n in range(4) for seed in range(3)]
    rows = [row(t, "A0", seed=s, verdict="fail") for t, s in cells] + [row(t, "A1", seed=s) for t, s in cells]
    end = contrast(analyze_rows(rows, plan=plan_of()).data, "A1", "m")["endpoints"]["ship_bad"]
    assert end["test"]["p_value"] == pytest.approx(2 / 16)
    assert "sign-flip" in end["test"]["method"]
    assert end["table"]["first_only"] == 12
    assert "all tasks agree" in end["effect"]["interval"]["undefined"]


def test_holm_covers_declared_contrasts_of_all_models_and_labels_the_rest() -> None:
    rows = study(30, models=("haiku", "sonnet"))
    data = analyze_rows(rows, plan=plan_of("A0", "A1")).data
    primary = [c for c in data["contrasts"] if c["role"] == "primary"]
    raw = sorted(c["endpoints"]["ship_bad"]["test"]["p_value"] for c in primary)
    assert sorted(c["p_holm"] for c in primary) == pytest.approx([min(1, 2 * raw[0]), max(min(1, 2 * raw[0]), raw[1])])
    rest = [c for c in data["contrasts"] if c["treatment"] == "A0b"]
    assert {c["role"] for c in rest} == {"exploratory"}
    assert all("undefined" in c["p_holm"] for c in rest)
    free = analyze_rows(rows, plan={})
    assert {c["role"] for c in free.data["contrasts"]} == {"exploratory"}
    assert "Every contrast is exploratory: no primary was declared" in free.markdown()
    assert "study.primary={baseline: A0, treatment: A1}" in free.markdown()


def test_the_noise_floor_stands_beside_every_effect() -> None:
    data = analyze_rows(study(), plan=plan_of(noise_floor=FLOOR))
    head = data.markdown().split("## Arms")[0]
    assert "Noise floor A0b against A0" in head
    assert "The control is not shown to differ from itself: " in data.markdown(), "a large p shows no equality"
    bare = analyze_rows([r for r in study() if r["identity"]["arm"] != "A0b"], plan=plan_of()).markdown()
    assert "plan a run with arm A0b added and study.noise_floor={baseline: A0, treatment: A0b}." in bare


def test_simulated_agents_are_named_in_bold() -> None:
    assert "**The agents of this study are simulated" in analyze_rows(study(6), plan={}).markdown()
    mixed = analyze_rows([*study(6), row("t1", model="real")], plan={}).markdown()
    assert "**Simulated, and no evidence about a real model: haiku.**" in mixed
    assert "imulated" not in analyze_rows(historical(), plan={}).markdown()


def test_unscored_cells_are_listed_and_bounded() -> None:
    rows = [row(f"t{n}", a, verdict="fail" if n == 0 else "pass") for n in range(9) for a in ("A0", "A1")]
    rows += [unscored("t9", "A0"), row("t9", "A1"), row("t10", "A0"), unscored("t10", "A1")]
    summary = analyze_rows(rows, plan=plan_of())
    found = arm(summary.data, "A1", "m")
    assert (found["n"], found["scored"], found["unscored"]) == (11, 10, {"oracle_timeout": 1})
    assert found["ship_bad_bounds"] == {"low": pytest.approx(1 / 11), "high": pytest.approx(2 / 11), "unscored": 1}
    assert "**Unscored: 2 of 22 cells have no verdict (A0 1, A1 1)" in summary.markdown()
    end = contrast(summary.data, "A1", "m")["endpoints"]["ship_bad"]
    assert end["bounds"] == {"low": pytest.approx(-1 / 11), "high": pytest.approx(1 / 11), "unscored": 2}
    assert end["effect"]["value"] == 0.0
    assert "t10 seed 0 (oracle_timeout" in summary.markdown()


def test_unknown_cost_is_never_zero() -> None:
    found = contrast(analyze_rows(study(8, unknown=True), plan=plan_of()).data, "A1")
    ratios = found["price"]["ratios"]
    assert ratios["cost_usd"]["ratio"]["value"]["undefined"].startswith("unknown in 1 of 8 matched pairs")
    assert (ratios["cost_usd"]["known"], ratios["cost_usd"]["unknown"]) == (7, 1)
    assert isinstance(ratios["tokens"]["ratio"]["value"], float)


def test_withheld_work_splits_into_process_failure_and_refusal() -> None:
    rows = [
        row("t1", verdict="fail", declared=False, stop="process_failed"),
        row("t2", verdict="fail", declared=False, stop="budget_tokens", gate="RED", rejections=3),
        row("t3", verdict="pass", declared=False, stop="budget_wall"),
        row("t4", verdict="fail", declared=False, stop="declared"),
        row("t5"),
    ]
    found = arm(analyze_rows(rows, plan={}).data, "A0", "m")
    assert found["withheld"] == {"process_failed": 1, "refused": 1, "exhausted": 1, "other": 1}
    assert found["rejections"] == {"total": 3, "cells": 1}
    assert (found["false_rejection"]["count"], found["false_rejection"]["n"]) == (1, 2)


def test_tampered_work_is_bad_and_named() -> None:
    summary = analyze_rows([row("t1", verdict="tampered"), row("t2")], plan={})
    assert arm(summary.data, "A0", "m")["fdr"]["count"] == 1
    assert "1 submissions tampered" in summary.markdown()


def test_missing_partners_and_arms_are_said() -> None:
    rows = [row(f"t{n}", a) for n in range(8) for a in ("A0", "A1")][:-1]
    plan = plan_of(contrasts=[{"baseline": "A0", "treatment": "A3"}])
    summary = analyze_rows(rows, plan=plan)
    assert contrast(summary.data, "A1", "m")["missing"] == {"A0": [], "A1": ["t7 seed 0"]}
    assert "Arm A1 lacks 1 partners: t7 seed 0" in summary.markdown()
    assert "The declared contrast A3 against A0 cannot be made" in summary.markdown()


def test_an_oracle_that_misses_bad_work_has_the_fdr_corrected_upwards() -> None:
    """From the words of a calibration (sensitivity: good work passes) to the figure in the summary."""
    document = {"sensitivity": {"count": 10, "n": 10}, "specificity": {"count": 8, "n": 10}}
    rows = [row(f"t{n}", verdict="fail" if n < 3 else "pass") for n in range(10)]
    summary = analyze_rows(rows, plan={"calibration": counts_of(document)})
    assert arm(summary.data, "A0", "m")["fdr_corrected"]["value"] == pytest.approx(0.3 / 0.8)
    assert "| 37.5% | 8/10 = 80.0% [49.0, 94.3] | 10/10 = 100.0% [" in summary.markdown()


def test_the_oracles_own_errors_correct_the_fdr() -> None:
    rows = [row(f"t{n}", verdict="fail" if n < 3 else "pass") for n in range(10)]
    plan = {"calibration": {"fails_bad": [50, 50], "passes_good": [45, 50]}}
    found = arm(analyze_rows(rows, plan=plan).data, "A0", "m")["fdr_corrected"]
    assert found["value"] == pytest.approx((0.3 - 0.1) / 0.9)


def outcomes(*arms: tuple[str, int, int], tasks: int = 40, **more: Any) -> list[Row]:
    """Rows whose first tasks are bad; an arm (name, bad shipped, bad withheld) may withhold the last of them."""
    rows = []
    for name, shipped, withheld in arms:
        for n in range(tasks):
            bad = n < shipped + withheld
            rows.append(row(f"t{n}", name, verdict="fail" if bad else "pass", declared=n < shipped or not bad, **more))
    return rows


def shifted(at: int, arm_name: str, bad: int, tasks: int = 40) -> list[Row]:
    return [row(f"t{n}", arm_name, verdict="fail" if at <= n < at + bad else "pass") for n in range(tasks)]


CONTROL, STRICT = ("A0", 20, 0), ("A1", 4, 16)


@pytest.mark.parametrize(
    ("rows", "plan", "finding", "noise", "words"),
    [
        (outcomes(CONTROL, STRICT), plan_of(), "less_bad", "not_measured",
         "A1 ships less bad work than A0: 20/40 -> 4/40 (-40.0 points ["),
        (outcomes(STRICT, CONTROL), plan_of("A1", "A0"), "more_bad", "not_measured", "A0 ships more bad work than A1"),
        (outcomes(CONTROL, STRICT), {}, "suggests_less", "not_measured",
         "Exploratory, not confirmed: A1 shipped less bad work than A0, 20/40 -> 4/40 (-40.0 points ["),
        (outcomes(CONTROL, ("A1", 17, 3)), plan_of(), "no_effect_shown", "not_measured",
         "No effect shown: Holm p = 0.25 is above 0.05"),
        (outcomes(CONTROL, ("A1", 17, 3)), {}, "no_effect_shown", "not_measured",
         "Exploratory: no effect shown: unadjusted p = 0.25 is above 0.05"),
        (outcomes(CONTROL, ("A1", 20, 0)), plan_of(), "no_effect_shown", "not_measured",
         "No effect shown: nothing changed on balance"),
        (outcomes(CONTROL, ("A1", 17, 3), ("A0b", 17, 3)), plan_of(noise_floor=FLOOR), "no_effect_shown", "not_larger",
         "No effect shown: the change is as large as the noise floor"),
        (outcomes(CONTROL, ("A1", 12, 8)) + shifted(4, "A0b", 20), plan_of(noise_floor=FLOOR), "less_bad", "larger",
         "A1 ships less bad work"),
        (outcomes(CONTROL, ("A1", 14, 6)) + shifted(10, "A0b", 20), plan_of(noise_floor=FLOOR), "no_effect_shown",
         "not_larger", "No effect shown: Holm p = 0.0312, but the change is no larger than the ends of the noise"),
        (outcomes(CONTROL, STRICT) + [unscored(f"u{n}", a) for n in range(20) for a in ("A0", "A1")], plan_of(),
         "no_effect_shown", "not_measured", "but 20 pairs without both verdicts could undo it"),
        ([row("t1"), row("t1", "A1")], plan_of(), "undetermined", "not_measured", "No verdict: one task"),
    ],
)  # fmt: skip
def test_a_verdict_says_an_effect_only_by_the_rules(
    rows: list[Row], plan: dict[str, Any], finding: str, noise: str, words: str
) -> None:
    summary = analyze_rows(rows, plan=plan)
    treatment = "A0" if finding == "more_bad" else "A1"
    verdict = contrast(summary.data, treatment, "m")["verdict"]
    assert (verdict["finding"], verdict["noise"]) == (finding, noise)
    assert words in verdict["text"]
    assert f"**{words.split(' [')[0]}" in headline(summary.markdown()) or finding == "no_effect_shown"


def test_a_verdict_on_several_models_goes_by_holm() -> None:
    """Six tasks of forty, all one way: p = 0.031 alone, twice that beside another declared contrast."""
    gained = outcomes(CONTROL, ("A1", 14, 6))
    alone = contrast(analyze_rows(gained, plan=plan_of()).data, "A1", "m")["verdict"]
    beside = analyze_rows(gained + outcomes(CONTROL, ("A1", 20, 0), model="other"), plan=plan_of())
    both = contrast(beside.data, "A1", "m")["verdict"]
    assert (alone["finding"], both["finding"]) == ("less_bad", "no_effect_shown")
    assert "Holm p = 0.0625 is above 0.05" in both["text"]
    assert (
        "**No effect shown: Holm p = 0.0625 is above 0.05.** A1 against A0, model m: shipped bad" in beside.markdown()
    )


def test_a_control_that_differs_from_itself_is_said() -> None:
    data = analyze_rows(outcomes(CONTROL, STRICT, ("A0b", 4, 16)), plan=plan_of(noise_floor=FLOOR)).data
    assert contrast(data, "A1", "m")["verdict"]["finding"] == "no_effect_shown"
    assert contrast(data, "A0b", "m")["verdict"]["text"].startswith("The control differs from itself: 20/40 -> 4/40")
    assert any("trust no effect there" in note for note in data["notes"])


def test_the_first_screen_answers_within_forty_lines() -> None:
    rows = study(14, seeds=3, models=("haiku", "sonnet"))
    for one in rows:
        one["gate"]["config"] = {"arm": {"name": one["identity"]["arm"], "description": "what it does"}}
    screen = headline(analyze_rows(rows, plan=plan_of(noise_floor=FLOOR)).markdown())
    assert len(screen.splitlines()) <= 40
    assert "252 cells = 14 tasks x 2 models (haiku, sonnet) x 3 arms (A0, A0b, A1) x 3 seeds; benchmark demo," in screen
    assert "Arms. A0: what it does. A0b: what it does." in screen
    assert "with Student's t" in screen
    assert "All strata together" not in screen
    few = analyze_rows(rows[:-1], plan={}).markdown()
    assert "251 cells, where a full grid has 252 = 14 tasks x" in few


def test_the_first_screen_of_a_ladder_has_one_line_for_each_declared_trade() -> None:
    arms = ["A0", "A0b", *(f"A{n}" for n in range(1, 11))]
    rows = [
        row(f"t{n}", a, tokens=(10 + k, 1), verdict="fail" if n % 3 else "pass", declared=n % 3 == 0 or n > k)
        for n in range(14)
        for k, a in enumerate(arms)
    ]
    plan = plan_of("A0", "A3", contrasts=[{"baseline": "A3", "treatment": a} for a in arms[5:]], noise_floor=FLOOR)
    text = analyze_rows(rows, plan=plan).markdown()
    screen = headline(text)
    assert len(screen.splitlines()) <= 50
    lines = [line for line in screen.splitlines() if " against " in line and line.startswith("|")]
    assert len(lines) == 9 and all(" found " not in line and "x1." in line for line in lines)
    assert "exploratory" not in "".join(lines) and "A4 against A0 (exploratory)" in text[len(screen) :]


def test_a_price_that_falls_is_said_to_fall() -> None:
    rows: list[Row] = [row(f"t{n}", verdict="fail", tokens=(90, 9)) for n in range(9)]
    rows += [row(f"t{n}", "A1", tokens=(10 + n, 9)) for n in range(9)]
    text = analyze_rows(rows, plan=plan_of()).markdown()
    assert "For each prevented: 0 dollars more, 76 tokens fewer." in text


def test_labels_of_an_axis_leave_out_what_they_share() -> None:
    agents = [f"replay[agent.submissions={n}.jsonl]" for n in ("one", "two")]
    rows = [row(f"t{n}", arm, agent=agent) for n in range(8) for arm in ("A0", "A1") for agent in agents]
    text = analyze_rows(rows, plan=plan_of()).markdown()
    assert text.count("agent.submissions=") == 2, "the scope alone has the whole names"
    assert "| `submissions=one.jsonl` | A0 |" in text and ", agent `submissions=two.jsonl`: " in text


def test_attested_weaknesses_are_said_in_bold() -> None:
    rows = [row("t1"), row("t2"), row("t3")]
    rows[0]["attestation"] |= {"agent_sandbox": "unprotected", "oracle_isolation": "unprotected: host file system"}
    rows[1]["attestation"]["oracle_isolation"] = "bubblewrap: no network; a user id per grading; no seccomp"
    text = analyze_rows(rows, plan={}).markdown()
    assert "**Unprotected: the agent ran without a sandbox in 1 of 3 cells and the oracle graded without" in text
    assert "**The oracle's isolation was weaker than the container's in 1 of 3 cells: no seccomp.**" in text
    assert "nprotected" not in analyze_rows([row("t3")], plan={}).markdown()


def test_the_model_that_answered_is_named() -> None:
    rows = [row("t1", model="unnamed_one"), row("t2", model="unnamed_one")]
    rows[0]["provenance"]["model_served"] = "gpt-3.5"
    text = analyze_rows(rows, plan={}).markdown()
    assert "model `unnamed_one` (served: gpt-3.5; unknown in 1 cell)" in text
    rows[1]["provenance"]["model_served"] = "gpt-4"
    assert "was served by gpt-3.5 and gpt-4" in analyze_rows(rows, plan={}).markdown()
    rows[1]["identity"]["budget"] = "large"
    assert "was served by" not in analyze_rows(rows, plan={}).markdown(), "nothing is compared between strata"
    rows[1]["identity"]["budget"] = "small"
    for one in rows:
        one["provenance"]["model_served"] = "Unnamed-One"
    assert "served" not in analyze_rows(rows, plan={}).markdown()


def test_costs_known_to_be_nothing_are_said_and_reasons_name_their_cells() -> None:
    rows = outcomes(CONTROL, ("A1", 12, 8), usd=0.0, tokens=None)
    text = analyze_rows(rows, plan=plan_of()).markdown()
    assert "dollars $0 in both" in text
    assert "Dollars: $0 in both arms of every contrast." in text
    assert "Undefined above: tokens of A1 against A0: unknown in 40 of 40 matched pairs" in text
    more = analyze_rows([row("t1", usd=0.0), row("t2", usd=0.0), row("t1", "A1"), row("t2", "A1")], plan={})
    assert "$0 -> $0.5" in more.markdown()
    gained = [row("t1", verdict="fail"), row("t2", verdict="fail"), row("t1", "A1"), row("t2", "A1")]
    assert "Bad submissions prevented 2, good submissions gained 2." in analyze_rows(gained, plan={}).markdown()


def test_only_drawn_figures_are_linked(tmp_path: Path) -> None:
    summary = analyze_rows([row()], plan={})
    summary.write(tmp_path, figures=True)
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links == ["figures/fdr_by_arm.svg", "figures/outcome_mosaic.svg"]
    assert all((tmp_path / link).is_file() for link in links)
    assert "## Figures" not in summary.markdown()


def test_hostile_names_cannot_break_the_tables() -> None:
    text = analyze_rows([row("t|1\n# x", "A0"), unscored("a|b\n<script>", "A1")], plan={}).markdown()
    assert "<script>" not in text
    assert "\n# x" not in text


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ([], ConfigError, "no sealed rows"),
        ([row(), row(plan="f" * 64)], ShapeError, "two results"),
        ([row("t1"), row("t2", plan="f" * 64, oracle_env="9" * 64)], Drift, "oracle_env_hash of benchmark 'demo'"),
    ],
)
def test_refusals(rows: list[Row], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        analyze_rows(rows, plan=plan_of())


def test_plans_with_like_pins_join() -> None:
    rows = [*study(8), *(row(f"u{n}", a, model="haiku", plan="f" * 64) for n in range(3) for a in ("A0", "A1"))]
    assert len(analyze_rows(rows, plan=plan_of()).data["study"]["plan_hashes"]) == 2


def test_the_plan_must_name_two_arms() -> None:
    with pytest.raises(ConfigError, match="with itself"):
        analyze_rows([row()], plan=plan_of("A0", "A0"))
    with pytest.raises(ConfigError, match=r"study\.primary needs"):
        analyze_rows([row()], plan={"study": {"primary": {"baseline": "A0"}}})


SCRIPT = """
import json, locale, random, sys, time
from pathlib import Path
from recurve_eval.analysis import analyze_rows
locale.setlocale(locale.LC_ALL, "")
time.tzset()
rows, plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
random.Random(sys.argv[3]).shuffle(rows)
analyze_rows(rows, plan=plan).write(Path(sys.argv[2]))
print(locale.localeconv()["decimal_point"])
"""


def written_at(place: Path, **env: str) -> tuple[str, list[bytes]]:
    """The decimal point there, and the bytes of the summary of the same rows in an order of the place's own."""
    rows = study(12, seeds=2, models=("haiku", "sonnet"))
    rows += [unscored(f"u{n}", "A1", model="haiku", wall_s=n / 3) for n in range(9)]
    place.mkdir()
    source = place / "rows.json"
    source.write_text(json.dumps([rows, plan_of(noise_floor=FLOOR)]))
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    seed = str(len(place.name))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(source), "out", place.name],
        env={**inherited, "PYTHONPATH": str(REPO), "PYTHONHASHSEED": seed, **env},
        cwd=place, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip(), [(place / "out" / f).read_bytes() for f in ("summary.json", "summary.md")]


def test_same_bytes_from_any_order_time_zone_and_directory(tmp_path: Path) -> None:
    _, first = written_at(tmp_path / "one", LC_ALL="C.UTF-8", TZ="UTC")
    _, second = written_at(tmp_path / "second", LC_ALL="C", TZ="Pacific/Kiritimati")
    assert first == second
    for blob in first:
        assert str(tmp_path).encode() not in blob
        assert b"\r" not in blob


def test_same_bytes_in_another_locale(tmp_path: Path) -> None:
    made = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "de_DE.UTF-8")]
    if not shutil.which("localedef") or subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("no German locale can be made here (Debian: locales)")
    point, german = written_at(tmp_path / "two", LC_ALL="de_DE.UTF-8", LOCPATH=str(tmp_path), TZ="Europe/Berlin")
    assert point == ",", "the locale is in force"
    assert german == written_at(tmp_path / "one", LC_ALL="C.UTF-8", TZ="UTC")[1]


def test_importing_the_analysis_is_cheap() -> None:
    code = (
        "import sys, recurve_eval.analysis, recurve_eval.stats;"
        "print([m for m in ('scipy', 'statsmodels', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPO)
    assert found.stdout.strip() == "[]"


def test_intervals_hold_the_truth_of_a_simulated_study_of_2000_cells() -> None:
    """500 tasks, two arms, two models; every true rate is known, so the intervals can be held to it."""
    r, rows = random.Random(12), []
    rates = {"haiku": 0.30, "sonnet": 0.10}
    truth = {(m, name): (bad, passed) for m, bad in rates.items() for name, passed in (("A0", 1.0), ("A1", 0.4))}
    for (model, name), (bad, passed) in truth.items():
        for n in range(500):
            good = r.random() > bad
            declared, verdict = good or r.random() < passed, "pass" if good else "fail"
            rows.append(row(f"t{n}", name, model=model, declared=declared, verdict=verdict))
    data = analyze_rows(rows, plan=plan_of()).data
    assert data["study"]["cells"] == 2000
    for (model, name), (bad, passed) in truth.items():
        found = arm(data, name, model)
        shipped = bad * passed
        for rate, true in ((found["ship_bad"], shipped), (found["fdr"], shipped / (1 - bad + shipped))):
            assert rate["interval"]["low"] <= true <= rate["interval"]["high"]
    for model, bad in rates.items():
        c = contrast(data, "A1", model)
        for estimate, true in (
            (c["endpoints"]["ship_bad"]["effect"], -0.6 * bad),
            (c["fdr"]["effect"], 0.4 * bad / (1 - 0.6 * bad) - bad),
        ):
            assert estimate["interval"]["low"] <= true <= estimate["interval"]["high"]
