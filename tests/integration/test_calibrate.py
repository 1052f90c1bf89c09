"""The oracle proves itself in both directions before money moves; what moved is refused by its own name."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
import yaml

from recurve_eval import api
from recurve_eval.__main__ import main
from recurve_eval.app import Study
from recurve_eval.calibration.store import seal_of
from recurve_eval.errors import Drift, SpendRefused
from recurve_eval.execute.conduct import gate_spending
from recurve_eval.execute.spending import unproven
from recurve_eval.plan import freeze
from recurve_eval.resources import schema_path
from tests.conftest import Cli

SHEET = "schema: 1\nid: {id}\ntitle: A number\nstatement: Write f(n).\ncapture: [solution.py]\nmodule: solution\n"
TEST = """\
import unittest

from solution import f


class F(unittest.TestCase):
    def test_values(self):
        self.assertEqual([f(n) for n in (0, 1, 7)], {values})
"""
TASKS = {
    "double": ("def f(n):\n    return n * 2\n", "[0, 2, 14]"),
    "next": ("def f(n):\n    return n + 1\n", "[1, 2, 8]"),
    "sign": ("def f(n):\n    return 1 if n > 0 else 0\n", "[0, 1, 1]"),
}


@dataclass
class Said:
    returncode: int
    stdout: str
    stderr: str


Say = Callable[..., Said]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """A verb in this process: as the command line, without the seconds that an interpreter takes to start."""

    def call(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
        return Said(code, *capsys.readouterr())

    return call


QUICK = ("oracle=process", "calibrate.runs=2", "run.progress=none", "run.workers=2")
PAID = ("agent=command", "agent.argv=[/bin/true]", "agent.reports=cost", "budget.usd=0.01", "spend.max_usd=1", "sandbox=process", "tracking=none",
        "spend.allow_unprotected=true", "analysis.figures=false")  # fmt: skip


def write_task(root: Path, name: str, solution: str, values: str, held_out: str = TEST) -> None:
    files = {
        "task.yaml": SHEET.format(id=name),
        "held_out/test_held_out.py": held_out.replace("{values}", values),
        "solution/solution.py": solution,
    }
    for path, text in files.items():
        (root / name / path).parent.mkdir(parents=True, exist_ok=True)
        (root / name / path).write_text(text, encoding="utf-8")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    for name, (solution, values) in TASKS.items():
        write_task(tmp_path / "tasks", name, solution, values)
    (tmp_path / "tables").mkdir()
    return tmp_path / "tasks"


@pytest.fixture
def words(tasks: Path, tmp_path: Path) -> list[str]:
    own = ["task=directory", f"task.path={tasks}", f"calibrate.exclusions={tmp_path / 'tables'}"]
    return [*own, f"run.outputs={tmp_path / 'outputs'}", *QUICK]


def exclude(tmp_path: Path, task: str, reason: str) -> None:
    table = {"benchmark": "directory", "exclusions": [{"task": task, "reason": reason}]}
    (tmp_path / "tables/directory.yaml").write_text(yaml.safe_dump(table), encoding="utf-8")


def calibrations(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "outputs/calibrations/directory").glob("*.json"))


def document(tmp_path: Path) -> dict[str, Any]:
    (path,) = calibrations(tmp_path)
    held: dict[str, Any] = json.loads(path.read_text())
    return held


def refusal(words: list[str], *more: str) -> str:
    """What the spend gate says to paid cells of a study, without running any."""
    with pytest.raises((SpendRefused, Drift)) as error:
        gate_spending(api.plan([*words, *PAID, *more]))
    return str(error.value)


def test_a_sound_oracle_is_proven_once_and_reused(say: Say, tmp_path: Path, words: list[str]) -> None:
    done = say("calibrate", *words)
    assert done.returncode == 0, done.stderr
    assert "sensitivity  3/3 = 100.0%" in done.stdout
    held = document(tmp_path)
    fastjsonschema.compile(json.loads(schema_path("calibration-1").read_text()))(held)
    assert held["green"] and held["sensitivity"]["n"] == 3
    assert held["specificity_known_bad"]["count"] == held["specificity_known_bad"]["n"] == 9
    assert held["tasks"]["next"]["tests"] == ["F.test_values"]
    assert [g["verdict"] for g in held["tasks"]["next"]["canonical"]] == ["pass", "pass"]
    before = calibrations(tmp_path)[0].read_bytes()
    again = say("calibrate", *words)
    assert again.returncode == 0
    assert again.stdout.startswith("calibration is current: ")
    assert calibrations(tmp_path)[0].read_bytes() == before


def test_more_tasks_or_mutants_grade_only_what_is_new(say: Say, tmp_path: Path, words: list[str]) -> None:
    first = say("calibrate", *words, "task.select=[double]")
    assert "\n6 gradings in" in first.stdout, first.stderr
    more = say("calibrate", *words, "task.select=[next]")
    assert "\n6 gradings in" in more.stdout
    assert sorted(document(tmp_path)["tasks"]) == ["double", "next"]
    mutated = say("calibrate", *words, "task.select=[next]", "calibrate.mutants=2")
    assert "\n2 gradings in" in mutated.stdout
    assert "\n14 gradings in" in say("calibrate", *words, "task.select=[next]", "calibrate.mutants=2", "--again").stdout
    assert say("calibrate", *words, "task.select=[next]").stdout.startswith("calibration is current")


def test_a_mutant_that_survives_is_a_weakness_and_no_failure(say: Say, tmp_path: Path, words: list[str]) -> None:
    write_task(tmp_path / "tasks", "loose", "def f(n):\n    return n if n < 100 else 5\n", "[0, 1, 7]")
    done = say("calibrate", *words, "task.select=[loose]", "calibrate.mutants=20")
    assert done.returncode == 0, done.stderr
    held = document(tmp_path)
    assert "loose: mutant survives: solution.py:2 Lt to LtE" in held["weaknesses"]
    assert held["specificity"]["count"] < held["specificity"]["n"]


def test_a_canonical_solution_that_fails_refuses_and_is_listed(say: Say, tmp_path: Path, words: list[str]) -> None:
    write_task(tmp_path / "tasks", "next", "def f(n):\n    return n + 3\n", "[1, 2, 8]")
    done = say("calibrate", *words)
    assert done.returncode == 3
    assert "next: the canonical solution is fail" in done.stdout
    assert "in 2 of 2 gradings" in done.stdout
    assert "not proven: directory on oracle process" in done.stderr
    assert "its calibration is not green: next: the canonical solution is fail" in refusal(words)


def test_a_flaky_canonical_solution_refuses(say: Say, tmp_path: Path, words: list[str]) -> None:
    flaky = "import time\n\n\ndef f(n):\n    return n + 1 if time.monotonic_ns() % 2000 < 1800 else 0\n"
    write_task(tmp_path / "tasks", "next", flaky, "[1, 2, 8]")
    done = say("calibrate", *words, "task.select=[next]", "calibrate.runs=30")
    assert done.returncode == 3
    (failed,) = re.findall(r"in (\d+) of 30 gradings", done.stdout)
    assert 0 < int(failed) < 30


@pytest.mark.parametrize(
    ("held_out", "said"),
    [
        ("import unittest\n\n\nclass F(unittest.TestCase):\n    def test_values(self):\n        pass\n",
         "next: an empty submission passes: this task is no oracle"),
        (TEST.replace("self.assertEqual", "list"), "next: the known-bad solution 'none' passes"),
    ],
)  # fmt: skip
def test_a_task_that_accepts_known_bad_work_is_named(
    say: Say, tmp_path: Path, words: list[str], held_out: str, said: str
) -> None:
    held_out = held_out.replace("list([f(n) for n in (0, 1, 7)], {values})", "list(f(n) for n in (0, 1, 7))")
    write_task(tmp_path / "tasks", "next", TASKS["next"][0], "[1, 2, 8]", held_out)
    done = say("calibrate", *words)
    assert done.returncode == 3, done.stdout + done.stderr
    assert said in done.stdout


def test_an_exclusion_with_its_reason_proves_the_rest(cli: Cli, say: Say, tmp_path: Path, words: list[str]) -> None:
    write_task(tmp_path / "tasks", "next", "def f(n):\n    return n + 3\n", "[1, 2, 8]")
    exclude(tmp_path, "next", "its canonical solution is wrong")
    done = say("calibrate", *words)
    assert done.returncode == 0, done.stdout
    assert "excluded     next: its canonical solution is wrong" in done.stdout
    planned = cli("plan", *words)
    assert "excluded     directory: next: its canonical solution is wrong" in planned.stdout
    assert "calibration  current" in planned.stdout
    gate_spending(api.plan([*words, *PAID]))


def test_paid_cells_run_once_everything_is_proven_and_authorised(
    cli: Cli, say: Say, tmp_path: Path, words: list[str]
) -> None:
    refused = cli("run", *words, *PAID)
    assert refused.returncode == 3
    assert "has no calibration" in refused.stderr
    command = refused.stderr.split("Run: ")[1].strip()
    assert command.startswith("recurve-eval calibrate task=directory")
    assert "agent" not in command
    assert not list(tmp_path.glob("outputs/*/*/plan.yaml")), "a refusal leaves nothing"
    assert say(*shlex.split(command)[1:]).returncode == 0
    done = cli("run", *words, *PAID)
    assert done.returncode == 0, done.stderr
    rows = api.load(next(tmp_path.glob("outputs/adhoc/*"))).rows
    assert {r["provenance"]["exclusions_hash"] for r in rows} == {document(tmp_path)["exclusions"]["hash"]}
    summary = json.loads(next(tmp_path.glob("outputs/adhoc/*/analysis/summary.json")).read_text())
    corrected = summary["arms"][0]["fdr_corrected"]
    assert (corrected["passes_good"]["count"], corrected["passes_good"]["n"]) == (3, 3)


@pytest.fixture
def proven(say: Say, words: list[str]) -> list[str]:
    done = say("calibrate", *words)
    assert done.returncode == 0, done.stderr
    gate_spending(api.plan([*words, *PAID]))
    return words


def test_each_thing_that_moved_is_refused_with_its_own_message(tmp_path: Path, proven: list[str]) -> None:
    solution = tmp_path / "tasks/next/solution/solution.py"
    kept = solution.read_text()
    solution.write_text("def f(n):\n    return 1 + n\n")
    assert "the dataset is " in refusal(proven)
    solution.write_text(kept)
    exclude(tmp_path, "sign", "too easy")
    assert "the exclusion table is " in refusal(proven)
    (tmp_path / "tables/directory.yaml").unlink()
    assert "the oracle's concurrency is 1, the calibrated one's 2" in refusal(proven, "oracle.concurrency=1")
    assert "the oracle's limits.memory_mb is 512, the calibrated one's 4096" in refusal(proven, "oracle.memory_mb=512")
    assert "calibrated with runs=2, and calibrate.runs asks for 5" in refusal(proven, "calibrate.runs=5")
    gate_spending(api.plan([*proven, *PAID]))


def test_a_task_that_was_not_calibrated_is_refused(say: Say, words: list[str]) -> None:
    assert say("calibrate", *words, "task.select=[double]").returncode == 0
    gate_spending(api.plan([*words, *PAID, "task.select=[double]"]))
    assert "does not cover 2 of the 3 tasks: next; sign" in refusal(words)


def test_a_doctored_calibration_is_refused_by_name(say: Say, tmp_path: Path, proven: list[str]) -> None:
    (path,) = calibrations(tmp_path)
    held = json.loads(path.read_text())
    held["tasks"]["next"]["canonical"][0]["verdict"] = "fail"
    path.write_text(json.dumps(held))
    assert f"{path} was altered after it was written" in refusal(proven)
    done = say("calibrate", *proven)
    assert done.returncode == 3
    assert "was altered after it was written" in done.stderr
    held["seal"] = seal_of(held)
    held["tasks"].pop("next")
    path.write_text(json.dumps(held))
    assert "its seal does not hold" in refusal(proven)
    assert say("calibrate", *proven, "--again").returncode == 0
    gate_spending(api.plan([*proven, *PAID]))


def test_money_needs_a_known_and_authorised_ceiling_and_walls(proven: list[str]) -> None:
    assert "set spend.max_usd" in refusal(proven, "spend.max_usd=null")
    assert "may cost up to $3.00 and spend.max_usd authorises $1.00" in refusal(proven, "budget.usd=1")
    assert "ceiling of this plan is unknown" in refusal(proven, "budget.usd=null")
    assert "does not say what it used" in refusal(proven, "agent.reports=nothing")
    assert "has no line for model 'simulated-strong'" in refusal(proven, "agent.reports=tokens")
    gate_spending(api.plan([*proven, *PAID, "agent.reports=tokens", "model=haiku"]))
    assert "has no line" in refusal(proven, "agent.reports=tokens", "model=haiku", "prices=none")
    bare = refusal(proven, "spend.allow_unprotected=false")
    assert "sandbox 'process' does not hold the agent and oracle 'process' does not hold the submission" in bare
    assert "spend.allow_unprotected=true" in bare


def test_free_agents_are_told_and_never_stopped(cli: Cli, words: list[str]) -> None:
    free = [
        "agent=command",
        "agent.argv=[/bin/true]",
        "agent.paid=false",
        "sandbox=process",
        "tracking=none",
        "run.analyze=false",
    ]
    silent = cli("run", *words, *free)
    assert (silent.returncode, "not proven" in silent.stderr) == (0, False), silent.stderr
    told = cli("run", *words, *free, "spend.gate=warn", "study.name=told")
    assert told.returncode == 0, told.stderr
    assert "note: the oracle is not proven: directory on oracle process: " in told.stderr
    assert "Run: recurve-eval calibrate task=directory" in told.stderr


def test_the_command_that_is_named_follows_values_that_reach_the_benchmark(words: list[str], data: Path) -> None:
    recorded = next(iter(sorted((data / "submissions").glob("humaneval_*.jsonl.gz"))))
    study = ["task=humaneval", f"task.path={data / 'humaneval/HumanEval.jsonl.gz'}", "task.select=[HumanEval/0]",
             "agent=replay", f"agent.submissions={recorded}", "oracle=process", "seed=0", words[3]]  # fmt: skip
    ((_, command),) = unproven(api.plan([*study, "sandbox=process"]))
    assert "agent=replay" in command and f"agent.submissions={recorded}" in command
    assert "sandbox" not in command and "seed" not in command


def lock_of(study: Study) -> Path:
    return study.run_dir / "oracle.lock.json"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda env: env["facts"].update(concurrency=7), "concurrency is locked as 7 and is 2 here"),
        (lambda env: env["facts"].update(python="3.9.1"), "python is locked as '3.9.1'"),
        (lambda env: env["facts"].update(runner="x"), "runner is locked as 'x'"),
        (lambda env: env["facts"].update(canary_version=0), "canary_version is locked as 0 and is 2 here"),
        (lambda env: env["facts"].update(timeout_policy="none"), "timeout_policy is locked as 'none'"),
        (lambda env: env["facts"]["limits"].update(memory_mb=1), "limits.memory_mb is locked as 1"),
        (lambda env: env.update(image_digest="sha256:0"), "image_digest is locked as 'sha256:0'"),
    ],
)
def test_an_edited_lock_is_refused_by_the_fact_that_moved(
    say: Say, words: list[str], change: Callable[[dict[str, Any]], None], said: str
) -> None:
    study = api.plan([*words, "sandbox=process"])
    freeze(study.plan, study.run_dir, {}, study.lock())
    assert not freeze(study.plan, study.run_dir, {}, study.lock())
    lock = json.loads(lock_of(study).read_text())
    assert lock["host"]["cpus"] and lock["exclusions"]["directory"]
    lock["host"]["hostname"] = "elsewhere"
    lock_of(study).write_text(json.dumps(lock))
    assert not freeze(study.plan, study.run_dir, {}, study.lock()), "another host is not drift"
    (env,) = lock["environments"].values()
    change(env)
    lock_of(study).write_text(json.dumps(lock))
    with pytest.raises(Drift, match=said.replace(".", r"\.")):
        freeze(study.plan, study.run_dir, {}, study.lock())
    done = say("oracle", "verify", str(study.run_dir))
    assert done.returncode == 3
    assert said in done.stderr


def test_an_edited_exclusion_hash_in_the_lock_is_refused(words: list[str]) -> None:
    study = api.plan([*words, "sandbox=process"])
    freeze(study.plan, study.run_dir, {}, study.lock())
    lock = json.loads(lock_of(study).read_text())
    lock["exclusions"]["directory"] = "0" * 64
    lock_of(study).write_text(json.dumps(lock))
    with pytest.raises(Drift, match=r"exclusions\.directory is locked as '0000"):
        freeze(study.plan, study.run_dir, {}, study.lock())


def test_verify_finds_an_oracle_as_it_was_locked(say: Say, words: list[str]) -> None:
    study = api.plan([*words, "sandbox=process"])
    freeze(study.plan, study.run_dir, {}, study.lock())
    done = say("oracle", "verify", str(study.run_dir))
    assert done.returncode == 0, done.stderr
    assert "every fact equals" in done.stdout
    other = say("oracle", "verify", "oracle=process", "oracle.concurrency=1", str(study.run_dir))
    assert other.returncode == 3
    assert "concurrency is locked as 2 and is 1 here" in other.stderr


def test_an_interrupted_calibration_resumes(say: Say, tmp_path: Path, words: list[str]) -> None:
    slow = "import time\n\n\ndef f(n):\n    time.sleep(0.2)\n    return n + 1\n"
    write_task(tmp_path / "tasks", "next", slow, "[1, 2, 8]")
    process = subprocess.Popen(
        [sys.executable, "-m", "recurve_eval", "calibrate", *words, "calibrate.runs=6"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    rows = tmp_path / "outputs/calibrations/directory"
    while sum(p.read_text().count("\n") for p in rows.glob("*.rows.jsonl")) < 4:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "the same command resumes" in said
    kept = sum(p.read_text().count("\n") for p in rows.glob("*.rows.jsonl"))
    done = say("calibrate", *words, "calibrate.runs=6")
    assert done.returncode == 0, done.stderr
    assert f"\n{6 * 3 + 3 * 3 + 3 - kept} gradings in" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("oracle",), 2, "build"),
        (("oracle", "atack"), 2, "Did you mean 'attack'"),
        (("oracle", "build", "oracle=process"), 2, "unknown image recipe 'process'"),
        (("oracle", "build"), 2, "name one recipe"),
        (("oracle", "verify", "nowhere"), 2, "is not a run directory"),
        (("oracle", "attack", "oracle=process", "--only", "nothing_such"), 2, "unknown exploit"),
        (("calibrate", "task=nothing"), 2, "unknown option"),
        (("calibrate", "calibrate.runs=0"), 2, "calibrate.runs must be at least 1"),
        (("calibrate", "oracle=bubblewrap", "oracle.bwrap=no-such-program"), 2, "no-such-program is not installed"),
    ],
)
def test_each_misuse_has_its_code_and_says_what_is_right(
    say: Say, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = say(*arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "verb", [("calibrate",), ("oracle",), *(("oracle", v) for v in ("build", "lock", "verify", "attack"))]
)
def test_every_verb_explains_itself(say: Say, verb: tuple[str, ...]) -> None:
    done = say(*verb, "--help")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 100


def test_attack_prints_each_exploit_and_ends_with_counts(say: Say, bwrap: None) -> None:
    done = say("oracle", "attack", "oracle=bubblewrap", "--only", "lying_int", "--only", "sys_exit_at_import")
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert "lying_int" in first and "unguessable" in first
    assert "sys_exit_at_import" in second
    assert last.startswith("oracle bubblewrap: 0 passed of 2 exploits in 12 gradings")
    assert "controls right" in last


def test_the_demo_is_proven_behind_bubblewrap(say: Say, tmp_path: Path, bwrap: None) -> None:
    done = say("calibrate", "task=demo", "oracle=bubblewrap", "calibrate.runs=1", "task.select={n: 4, seed: 1}",
               f"run.outputs={tmp_path}")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sensitivity  4/4 = 100.0%" in done.stdout
