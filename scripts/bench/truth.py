#!/usr/bin/env python3
"""The whole harness against a known truth: does a summary of some 2,000 simulated cells hold the true rates?

The demo study is run for real (workspaces, gate, oracle, ledger) with the scripted agent, whose skill and repair are
known. What its visible tests let through is measured here, apart from the harness: every known-bad solution of every
task is judged once by the task's own command. From these the true FDR, P(ship bad) and yield of both arms follow.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recurve_eval import app
from recurve_eval.compose import compose

MODELS = ("simulated_weak", "simulated_strong")
RATES = (("fdr", "FDR"), ("ship_bad", "P(ship bad)"), ("yield_good", "yield"))


def let_through() -> dict[str, float]:
    """For each task the share of its known-bad solutions that its visible tests accept."""
    with app.initialised():
        benchmark = app.benchmark_of(["task=demo"])
    found = {}
    for name in benchmark.task_ids():
        task, solutions = benchmark.task(name), benchmark.solutions(name)
        assert task.visible_check is not None and _accepts(task, solutions.canonical), name
        passed = [_accepts(task, bad.files) for bad in solutions.known_bad]
        found[name] = sum(passed) / len(passed)
    return found


def _accepts(task: Any, files: Mapping[str, bytes]) -> bool:
    with tempfile.TemporaryDirectory() as place:
        for path, content in {**task.public, **files}.items():
            (Path(place) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / path).write_bytes(content)
        words = [sys.executable if word == "{python}" else word for word in task.visible_check]
        return subprocess.run(words, cwd=place, capture_output=True, check=False).returncode == 0


def truth(skill: float, repair: float, cycles: int, shares: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """True rates of the control and of the visible tests as a gate.

    Work that is wrong is accepted with the task's share; else it is repaired with probability ``repair`` or redrawn.
    """
    control = {"ship_bad": 1 - skill, "yield_good": skill, "fdr": 1 - skill}
    bad = good = 0.0
    for share in shares.values():
        wrong, shipped = 1 - skill, 0.0
        for _ in range(cycles):
            shipped += wrong * share
            wrong *= (1 - share) * (1 - repair)
        held = wrong / (1 - repair) if repair < 1 else 0.0
        bad, good = bad + shipped / len(shares), good + (1 - shipped - held) / len(shares)
    return {"A0": control, "A1": {"ship_bad": bad, "yield_good": good, "fdr": bad / (bad + good)}}


def run_study(place: Path, seeds: int, draw: int) -> Path:
    words = [
        "run",
        "experiment=demo",
        f"seed=range(0,{seeds})",
        f"agent.seed={draw}",
        "arm=A0,A1",
        "sandbox=process",
        "oracle=process",
    ]
    words += ["study.noise_floor=null", "tracking=none", "analysis.figures=false", "analysis.report=false"]
    words += [f"run.outputs={place}", "run.progress=none"]
    subprocess.run([sys.executable, "-m", "recurve_eval", *words], check=True, stdout=subprocess.DEVNULL)
    (summary,) = place.glob("*/*/analysis/summary.json")
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=36, help="seeds of each task; 36 make 2,016 cells")
    parser.add_argument("--draw", type=int, default=0, help="seed of the agent: another one is another study")
    parser.add_argument("--summary", type=Path, help="the summary.json of such a run, instead of a new one")
    options = parser.parse_args()
    shares = let_through()
    with tempfile.TemporaryDirectory() as place:
        data = json.loads(
            (options.summary or run_study(Path(place), options.seeds, options.draw)).read_text(encoding="utf-8")
        )
    print(
        f"{data['study']['cells']} cells; visible tests accept {sum(shares.values()) / len(shares):.1%} of known-bad work"
    )
    print("\n| model | arm | rate | counted | interval | true | held |\n|---|---|---|---|---|---|---|")
    results = []
    for model in MODELS:
        with app.initialised():
            config = compose([f"model={model}", "experiment=demo"])
        true = truth(config["model"]["skill"], config["agent"]["repair"], config["budget"]["max_cycles"], shares)
        results += _rows(data, model, true)
    held = sum(results)
    print(f"\n{held} of {len(results)} intervals hold the true value")


def _rows(data: Any, model: str, true: Mapping[str, Mapping[str, float]]) -> list[bool]:
    held = []
    for arm in (a for a in data["arms"] if a["stratum"]["model"] == model and a["arm"] in true):
        for key, label in RATES:
            held.append(
                _say(model, arm["arm"], label, arm[key], f"{arm[key]['count']}/{arm[key]['n']}", true[arm["arm"]][key])
            )
    for c in (c for c in data["contrasts"] if c["stratum"]["model"] == model and c["treatment"] == "A1"):
        for label, effect, key in (("change of FDR", c["fdr"]["effect"], "fdr"),
                                   ("change of P(ship bad)", c["endpoints"]["ship_bad"]["effect"], "ship_bad")):  # fmt: skip
            held.append(
                _say(
                    model,
                    "A1 - A0",
                    label,
                    effect,
                    f"{100 * effect['value']:+.1f} points",
                    true["A1"][key] - true["A0"][key],
                )
            )
    return held


def _say(model: str, arm: str, label: str, found: Any, counted: str, true: float) -> bool:
    low, high = found["interval"]["low"], found["interval"]["high"]
    held = bool(low <= true <= high)
    print(
        f"| {model} | {arm} | {label} | {counted} | [{100 * low:.1f}, {100 * high:.1f}] | {100 * true:.1f} | {'yes' if held else 'no'} |"
    )
    return held


if __name__ == "__main__":
    main()
