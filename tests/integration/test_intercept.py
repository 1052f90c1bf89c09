"""Known work before each layer of the gate, from the command line to the matrix; and regrading. With the real parts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.ledger import read_rows
from recurve_eval.rows import validate
from tests.conftest import QUICK, Cli

TWO = (*QUICK, "task.select=[flatten]", "run.workers=2", "run.progress=none", "analysis.resamples=200")
LAYERS = "layers.names=[ci,probes,traps]"


def only(tmp_path: Path, pattern: str = "outputs/interception/*") -> Path:
    (found,) = tmp_path.glob(pattern)
    return found


def summary(run_dir: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((run_dir / "analysis/summary.json").read_text())
    return data


def test_known_bad_work_ends_with_a_matrix_over_sealed_rows(cli: Cli, tmp_path: Path) -> None:
    done = cli("intercept", *TWO, "source=known_bad", LAYERS)
    assert done.returncode == 0, done.stderr
    assert "| ci | " in done.stdout
    assert "| +traps | " in done.stdout
    run_dir = only(tmp_path)
    rows = list(read_rows(run_dir))
    for row in rows:
        validate(row)
    data = summary(run_dir)
    assert data["complete"]
    assert len(rows) == 3 * data["census"]["items"]
    ci, probes, _ = data["layers"]
    assert 0 < ci["tpr"]["count"] < ci["tpr"]["n"] == data["census"]["standing"]["defect"]
    assert ci["fpr"]["count"] == 0 < ci["fpr"]["n"]
    assert probes["tpr"]["count"] == ci["tpr"]["count"] + probes["marginal_tpr"]["count"]
    assert (run_dir / "analysis/figures/layers.svg").is_file()
    assert {r["identity"]["simulated"] for r in rows} == {True}


def test_the_same_command_decides_nothing_again_and_another_place_gives_the_same_bytes(
    cli: Cli, tmp_path: Path
) -> None:
    words = ("intercept", *TWO, "source=mutants", "source.count=3", "claims=none", "layers.names=[ci]")
    assert cli(*words).returncode == 0
    first = only(tmp_path)
    before = (first / "results.jsonl").read_bytes()
    again = cli(*words)
    assert "sealed before and not made again" in again.stdout
    assert (first / "results.jsonl").read_bytes() == before
    assert cli(*words, "run.outputs=elsewhere").returncode == 0
    second = only(tmp_path, "elsewhere/interception/*")
    for name in ("summary.json", "summary.md", "reviews.jsonl", "figures/layers.svg", "figures/layers.png"):
        assert (first / "analysis" / name).read_bytes() == (second / "analysis" / name).read_bytes(), name


def test_a_kill_at_any_moment_repeats_no_sealed_decision(tmp_path: Path) -> None:
    words = ["intercept", *TWO, "source=known_bad", "layers.names=[ci,probes]", "analysis.figures=false"]
    command = [sys.executable, "-m", "recurve_eval", *words]
    kept: list[bytes] = []
    for goal in (3, 9):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            ledger = next(iter(tmp_path.glob("outputs/interception/*/results.jsonl")), None)
            kept = ledger.read_bytes().splitlines() if ledger else []
            if len(kept) >= goal:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    final = (only(tmp_path) / "results.jsonl").read_bytes().splitlines()
    whole = [line for line in kept if line in final]
    assert final[: len(whole)] == whole
    assert len(kept) - len(whole) <= 1  # a torn last line
    ids = Counter(row["identity"]["cell_id"] for row in read_rows(only(tmp_path)))
    assert set(ids.values()) == {1}
    assert len(ids) == 2 * summary(only(tmp_path))["census"]["items"]
    # A kill between two layers of one item: what is sealed stays, and its grading is not made again.
    ledger = only(tmp_path) / "results.jsonl"
    ledger.write_bytes(b"".join(final_line + b"\n" for final_line in final[:3]))
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert ledger.read_bytes().splitlines()[:3] == final[:3]
    begun = len(
        {(r["identity"]["task_id"], r["identity"]["model"], r["identity"]["seed"]) for r in read_rows(only(tmp_path))}
    )
    half = Counter(json.loads(line)["row"]["identity"]["seed"] for line in final[:3])
    assert f"{len(final) - 3} decisions, {begun - len(half)} gradings" in again.stdout


def test_layers_that_do_not_exist_or_would_pay_are_refused(cli: Cli, tmp_path: Path) -> None:
    unknown = cli("intercept", *TWO, "layers.names=[ci,prob]")
    assert unknown.returncode == 2
    assert "unknown layer 'prob'" in unknown.stderr
    assert "Known: adversary, ci, diff, fuzz, governor, iso, probes, traps" in unknown.stderr
    missing = cli("intercept", *TWO, "layers.names=[odd]", "+layers.define.odd=['gate/checks=nothing_like_it']")
    assert missing.returncode == 2
    assert "unknown layer 'odd' in this installation" in missing.stderr
    paid = cli("intercept", *TWO, "agent=command", 'agent.command="true"', "claims=agent", "layers.names=[probes]")
    assert paid.returncode == 2
    assert "outside any spend gate" in paid.stderr
    assert not list(tmp_path.glob("outputs/interception/*/results.jsonl")) or not list(
        read_rows(only(tmp_path))
    )  # nothing was decided


def recorded(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


DEMO = Path(__file__).parents[2] / "recurve_eval/benchmarks/demo_tasks/flatten"
RIGHT = (DEMO / "solution/solution.py").read_text()
WRONG = (DEMO / "known_bad/strings/solution.py").read_text()


def test_recorded_work_is_judged_by_checks_of_its_own_model_and_of_another(cli: Cli, tmp_path: Path) -> None:
    line = {"task_id": "flatten", "attempt": 0}
    checks = ["assert flatten([1, [2]]) == [1, 2]", "assert flatten(['ab']) == ['ab']"]
    path = recorded(
        tmp_path / "work.jsonl",
        [{**line, "model": "one", "solution": WRONG, "authored_checks": checks[:1]},
         {**line, "model": "two", "solution": RIGHT, "authored_checks": ["assert flatten([]) is None"]}],
    )  # fmt: skip
    words = (
        "intercept",
        *QUICK,
        "run.progress=none",
        "task.select=[flatten]",
        "source=recorded",
        f"source.paths=[{path}]",
    )
    done = cli(
        *words, "claims=recorded", f"claims.path={path}", "layers.names=[probes,traps]", "analysis.resamples=200"
    )
    assert done.returncode == 0, done.stderr
    rows = {(r["identity"]["model"], r["identity"]["arm"]): r for r in read_rows(only(tmp_path))}
    assert {key: r["gate"]["config"]["interception"]["own"]["decision"] for key, r in rows.items()} == {
        ("one", "probes"): "passed", ("one", "+traps"): "passed",  # its check sees no fault in its own mistake
        ("two", "probes"): "blocked", ("two", "+traps"): "unable",  # a check that accepts None has not earned its RED
    }  # fmt: skip
    data = summary(only(tmp_path))
    assert data["authorship"][0]["missed"]["count"] == 1
    assert [p["found"]["table"]["first_only"] for p in data["model_pairs"]] == [1]


def test_a_corpus_of_pairs_is_a_source(cli: Cli, tmp_path: Path) -> None:
    record = {"id": "twice", "buggy": "def twice(x):\n    return x + 2\n", "correct": "def twice(x):\n    return x * 2\n",
              "tests": [[[2], 4], [[5], 10]]}  # fmt: skip
    path = recorded(tmp_path / "pairs.jsonl", [record])
    words = ("claims=none", "layers.names=[ci]", "run.progress=none", "analysis.figures=false", *QUICK)
    pairs = cli("intercept", "source=pairs", f"task.path={path}", *words)
    assert pairs.returncode == 0, pairs.stderr
    assert "0/1 = 0.0%" in pairs.stdout  # its first case is the visible one, and the bug passes it


@pytest.mark.usefixtures("bwrap")
def test_exploits_before_the_gate_in_a_sandbox(cli: Cli, tmp_path: Path) -> None:
    done = cli("intercept", "source=exploits", "task.select=[attack/check/apart]", "source.good=[canonical]", "claims=none",
               "layers.names=[ci]", "run.progress=none", "analysis.figures=false", "tracking=none", "oracle=bubblewrap",
               "source.timeout_s=1", "layers.define.ci=['gate/checks=visible_tests','gate.checks.timeout_s=2']", timeout=280)  # fmt: skip
    assert done.returncode in (0, 4), done.stderr
    ci = summary(only(tmp_path))["layers"][0]
    assert ci["tpr"]["n"] > 40
    assert 0 < ci["tpr"]["count"] < ci["tpr"]["n"]  # exit codes can be forged, so some pass the visible tests
    assert summary(only(tmp_path))["census"]["standing"]["equivalent"] == 0  # and none passes the oracle


# -- what a run has stored ------------------------------------------------------------------------


def study(cli: Cli, tmp_path: Path, *words: str) -> Path:
    done = cli("run", *QUICK, "task.select={n: 3, seed: 1}", "study.name=stored", "run.progress=none", *words)
    assert done.returncode == 0, done.stderr
    return only(tmp_path, "outputs/stored/*")


def test_stored_work_goes_through_every_arm_with_the_claims_of_its_own_agent(cli: Cli, tmp_path: Path) -> None:
    run_dir = study(cli, tmp_path, "arm=A3", "model=simulated_weak", "agent.check_quality=0.5")
    sealed = (run_dir / "results.jsonl").read_bytes()
    words = ("source=replay", f"source.run={run_dir}", "claims=stored", "layers=arms", "layers.names=[A0,A1,A3]")
    done = cli(
        "intercept", *QUICK, "run.progress=none", *words, "analysis.resamples=200", "analysis.figures=false", "--full"
    )
    assert done.returncode == 0, done.stderr
    assert (run_dir / "results.jsonl").read_bytes() == sealed
    data = summary(only(tmp_path))
    assert [x["layer"] for x in data["layers"]] == ["A0", "A1", "A3"]
    assert data["layers"][0]["tpr"]["count"] == 0
    assert data["layers"][2]["unable"] == 0
    assert data["end_to_end"][0]["arm"] == "A3"
    assert "End to end" in done.stdout


def test_altered_work_is_not_replayed(cli: Cli, tmp_path: Path) -> None:
    run_dir = study(cli, tmp_path)
    next(run_dir.glob("cells/*/submission/*.py")).write_text("altered = True\n")
    done = cli("intercept", *QUICK, "source=replay", f"source.run={run_dir}", "layers.names=[ci]", "claims=none")
    assert done.returncode == 3
    assert "is not what was graded" in done.stderr


def test_a_run_graded_again_by_its_own_oracle_flips_nothing(cli: Cli, tmp_path: Path) -> None:
    run_dir = study(cli, tmp_path)
    before = {p: p.read_bytes() for p in run_dir.rglob("*") if p.is_file()}
    late = cli("regrade", str(run_dir), "--within", "0", "--progress", "none")
    assert late.returncode == 4
    assert "3 were not reached in the time given" in late.stdout
    done = cli("regrade", str(run_dir), "--progress", "none")
    assert done.returncode == 0, done.stderr
    assert "3 submissions graded again" in done.stdout
    assert "no verdict flipped" in done.stdout
    assert {p: p.read_bytes() for p in before} == before
    assert len(list((run_dir / "regrades").glob("*.jsonl"))) == 1


def test_another_oracle_that_makes_a_difference_shows_every_flip(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "only_there.py").write_text("HERE = True\n")
    solution = f"import only_there\n{RIGHT}"
    path = recorded(tmp_path / "work.jsonl", [{"task_id": "flatten", "attempt": 0, "model": "m", "solution": solution}])
    words = ("agent=replay", f"agent.submissions={path}", "model=unnamed", f"oracle.paths=[{tmp_path / 'packages'}]")
    done = cli("run", *QUICK, "task.select=[flatten]", "study.name=stored", "run.progress=none", *words)
    assert done.returncode == 0, done.stderr
    run_dir = only(tmp_path, "outputs/stored/*")
    sealed = (run_dir / "results.jsonl").read_bytes()
    flipped = cli("regrade", str(run_dir), "oracle=process", "--progress", "none")
    assert flipped.returncode == 5, flipped.stderr
    assert "flip  flatten (A0, " in flipped.stdout
    assert "pass -> fail" in flipped.stdout
    assert (run_dir / "results.jsonl").read_bytes() == sealed
    wrong = cli("regrade", str(run_dir), "task=demo")
    assert wrong.returncode == 2
    assert "overrides of the oracle alone" in wrong.stderr


def test_recorded_reviewers_need_no_study(cli: Cli, tmp_path: Path) -> None:
    rows = [{"item": f"b{n}", "reviewer": r, "model": m, "verdict": "pass" if n < k else "fail", "truth": "fail"}
            for r, m, k in (("author", "x", 4), ("twin", "x", 4), ("other", "y", 0)) for n in range(8)]  # fmt: skip
    done = cli("intercept", "--reviews", recorded(tmp_path / "r.jsonl", rows))
    assert done.returncode == 0, done.stderr
    same, _, cross = done.stdout.partition("## Different models")
    assert "| author | twin | 8 | 4 | 4 | 4 | 2.00" in same
    assert "undefined: the adversary missed nothing" in cross
    assert os.listdir(tmp_path) == ["r.jsonl"]  # noqa: PTH208
