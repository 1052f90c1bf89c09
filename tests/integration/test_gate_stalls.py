"""A machine that stands still is no answer: what does not end in time is asked once more before it counts."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import recurve_eval
from recurve_eval.domain import GateVerdict
from recurve_eval.gates.adversary import Adversary, worthless
from recurve_eval.gates.ci import CommandCheck
from recurve_eval.gates.governor import MechanicalGovernor
from recurve_eval.gates.probes import Limits
from recurve_eval.gates.review import Proposal, Trial
from tests.conftest import QUICK, Cli
from tests.gating import ARMS, CLAIMS, GOOD, LEDGER, PROBE, gated, write
from tests.integration.test_gate_reviews import WRONG, reviewed, say, saying

GREEN, RED, BROKEN = GateVerdict.GREEN, GateVerdict.RED, GateVerdict.BROKEN
DOUBLES = ".recurve/probes/doubles.py"
LIMIT = 4.0
SHORT = LEDGER.replace("    traps", f"    timeout_s: {LIMIT}\n    traps")
NEVER = 1000


def standing(mark: Path, *at: int, probe: str = PROBE) -> str:
    """A probe that counts in ``mark`` how often it is asked, and stands still those times."""
    return (
        f"import os, time\nwith open({str(mark)!r}, 'a') as counted:\n    counted.write('x')\n"
        f"if os.path.getsize({str(mark)!r}) in {at!r}:\n    time.sleep(60)\n{probe}"
    )


def asked(mark: Path) -> int:
    return mark.stat().st_size


def claims(probe: str) -> dict[str, str | bytes]:
    return {".recurve/claims.yaml": SHORT, DOUBLES: probe}


def only(evidence: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one time-out that a finding has on record."""
    (one,) = evidence["asked_twice"]
    return one  # type: ignore[no-any-return]


def test_a_probe_that_stands_still_once_is_asked_again_and_its_answer_counts(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with gated(tmp_path, "A2") as cell:
        assert cell.author(claims(standing(mark, 1))).verdict is GREEN
        finding = cell.sculpt(GOOD)
        assert (finding.verdict, finding.message) == (GREEN, "")
        assert asked(mark) == 3, "the time-out, its answer, and the repetition of what decides"
        one = only(finding.evidence)
        assert {**one, "wall_s": 0} == {"what": "doubles on the work", "limit_s": LIMIT, "then": "GREEN", "wall_s": 0}
        runs = finding.evidence["runs"]
        assert [(r["verdict"], r["asked"]) for r in runs] == [("GREEN", 2), ("GREEN", 1)]  # type: ignore[index, union-attr]
        both = (one["wall_s"], runs[0]["wall_s"], finding.evidence["probe_wall_s"], finding.wall_s)  # type: ignore[index]
        assert all(wall > LIMIT for wall in both), "the time of both askings is on record"
        assert cell.record.flakes == [], "a time-out is no answer, so it contradicts none"
    assert list(tmp_path.glob("cell/recurve-check-*")) == []


def test_a_probe_that_the_machine_stopped_is_asked_again(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    slow = f"import os, time\nif not os.path.exists({str(told)!r}):\n    open({str(told)!r}, 'w').write(str(os.getpid()))\n"
    slow += f"    while not os.path.exists({str(told)!r} + '.stopped'):\n        time.sleep(0.01)\n" + PROBE

    def stop() -> None:
        while not (told.exists() and told.read_text()):
            time.sleep(0.01)
        os.kill(int(told.read_text()), signal.SIGSTOP)
        Path(f"{told}.stopped").touch()

    with gated(tmp_path, "A2") as cell:
        assert cell.author(claims(slow)).verdict is GREEN
        stall = threading.Thread(target=stop)
        stall.start()
        finding = cell.sculpt(GOOD)
        stall.join()
        assert finding.verdict is GREEN
        assert only(finding.evidence)["then"] == "GREEN"
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


@pytest.mark.parametrize("walls", ["process", "bubblewrap"])
def test_a_probe_that_never_ends_is_broken_after_two_askings(tmp_path: Path, walls: str) -> None:
    with gated(tmp_path, "A2", walls) as cell:
        assert cell.author(claims("import time\nprint('so far', flush=True)\ntime.sleep(60)\n")).verdict is GREEN
        finding = cell.sculpt(GOOD)
        assert finding.verdict is BROKEN
        said = f"BROKEN: claim 'doubles': its probe cannot judge: it timed out twice (limit {LIMIT:g} s)\nso far"
        assert finding.message == said
        assert [r["asked"] for r in finding.evidence["runs"]] == [2]  # type: ignore[index, union-attr]
        assert only(finding.evidence)["then"] == "BROKEN"
        assert 2 * LIMIT <= finding.wall_s < 4 * LIMIT + 5


def test_a_probe_that_never_ends_is_asked_no_third_time(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with gated(tmp_path, "A2") as cell:
        cell.author(claims(standing(mark, *range(1, NEVER))))
        assert cell.sculpt(GOOD).verdict is BROKEN
        assert asked(mark) == 2


LEAVES = """import os, subprocess, sys, time
mark = {mark!r}
if not os.path.exists(mark):
    left = subprocess.Popen(["sleep", "299"], start_new_session=True)
    for name in ("litter", os.path.expanduser("~/litter")):
        open(name, "w").close()
    open("solution.py", "w").close()
    open(mark, "w").write(str(left.pid))
    time.sleep(60)
try:
    with open(f"/proc/{{open(mark).read()}}/cmdline") as command:
        if command.read().startswith("sleep\\0299"):
            sys.exit("RED: the process of the first asking lives")
except (FileNotFoundError, ProcessLookupError):
    pass
found = [n for n in ("litter", os.path.expanduser("~/litter")) if os.path.exists(n)]
if found:
    sys.exit(f"RED: {{found}} is left of the first asking")
"""


def test_what_the_first_asking_left_is_gone_before_the_second(tmp_path: Path) -> None:
    with gated(tmp_path, "A2") as cell:
        assert cell.author(claims(LEAVES.format(mark=str(tmp_path / "mark")) + PROBE)).verdict is GREEN
        finding = cell.sculpt(GOOD)
        assert (finding.verdict, finding.message) == (GREEN, "")
        assert only(finding.evidence)["then"] == "GREEN"


def alone(work: Path, *more: str) -> tuple[int, str]:
    words = [sys.executable, "-m", "recurve_eval.gates", "check", str(work), *more]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_gate_by_itself_asks_again_and_in_a_clean_place(tmp_path: Path) -> None:
    write(tmp_path / "work", {**CLAIMS, "solution.py": GOOD, **claims(LEAVES.format(mark=f"{tmp_path}/mark") + PROBE)})
    code, said = alone(tmp_path / "work", "--ledger")
    assert (code, said.splitlines()[-1]) == (0, "GREEN"), said
    assert "asked twice" in said.splitlines()[0]
    write(tmp_path / "work", claims("import time\ntime.sleep(60)\n"))
    code, said = alone(tmp_path / "work")
    assert code == 2
    assert f"it timed out twice (limit {LIMIT:g} s)" in said


def test_a_trap_on_which_a_probe_stands_still_once_is_admitted(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with gated(tmp_path) as cell:
        findings = cell.turn({**CLAIMS, **claims(standing(mark, 2))})
        assert [f.verdict for f in findings] == [GREEN] * 3
        finding = next(f for f in findings if f.component == "red_first")
        assert only(finding.evidence)["what"] == "doubles on .recurve/traps/identity"
        assert only(finding.evidence)["then"] == "RED"


@pytest.mark.parametrize("at", [9, 10], ids=["on the work", "on a trap"])
def test_a_governor_asks_again_in_a_fresh_checkout(tmp_path: Path, at: int) -> None:
    mark = tmp_path / "mark"
    with gated(tmp_path, (*ARMS["A3"], MechanicalGovernor())) as cell:
        assert cell.author(claims(standing(mark, at))).verdict is GREEN  # asked 4 times, and 4 times of the work below
        findings = cell.turn({"solution.py": GOOD})
        assert [f.verdict for f in findings] == [GREEN] * len(findings)
        assert asked(mark) == 11
        assert only(findings[-1].evidence)["then"] == ("GREEN" if at == 9 else "RED")


def test_hardening_asks_again_with_the_same_variant_in_place(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with gated(tmp_path, "A4") as cell:
        assert cell.author(claims(standing(mark, 9, 11))).verdict is GREEN
        findings = cell.turn({"solution.py": GOOD})
        assert [f.verdict for f in findings] == [GREEN] * 4
        told = findings[-1].evidence["asked_twice"]
        assert [(t["what"], t["then"]) for t in told] == [  # type: ignore[index, union-attr]
            ("doubles on .recurve/.fixtures/mutant-0", "RED"), ("doubles on .recurve/.fixtures/mutant-1", "RED"),
        ]  # fmt: skip


def test_a_counterexample_that_stands_still_once_is_captured(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lenient = PROBE.replace("double(3) == 6", "double(3) != 3 and double(3) in (6, 60)")
    with reviewed(tmp_path, Adversary(reviewer=saying(tmp_path))) as cell:
        assert cell.author(claims(lenient)).verdict is GREEN
        wrong = {name: text.replace("return x", "return 60") for name, text in WRONG.items()}
        say(tmp_path, "object", {"probe": standing(mark, 1, 3), "wrong": wrong})
        findings = cell.turn({"solution.py": GOOD})
        assert findings[-1].verdict is GREEN
        assert cell.record.adversary is not None
        assert len(cell.record.adversary["captured"]) == 1
        assert [t["then"] for t in findings[-1].evidence["asked_twice"]] == ["GREEN", "RED"]  # type: ignore[index, union-attr]


def test_a_counterexample_that_never_ends_on_the_work_is_asked_nothing_more(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with reviewed(tmp_path, Adversary(reviewer=saying(tmp_path))) as cell:
        assert cell.author().verdict is GREEN
        cell.record.state["limits"] = Limits(timeout_s=2.0)
        say(tmp_path, "object", {"probe": standing(mark, *range(1, NEVER)), "wrong": WRONG, "right": WRONG})
        assert cell.turn({"solution.py": GOOD})[-1].verdict is GREEN
        assert cell.record.adversary is not None
        assert [d["why"] for d in cell.record.adversary["discarded"]] == ["it cannot judge"]
        assert asked(mark) == 2


def test_a_counterexample_that_cannot_judge_the_work_shows_nothing_whatever_it_says_of_the_rest() -> None:
    for wrong, right in itertools.product((GREEN, RED, BROKEN, None), repeat=2):
        for flaky, moved in itertools.product((False, True), repeat=2):
            tried = Trial(BROKEN, wrong, right, flaky=flaky, moved=moved)
            assert worthless(None, Proposal("doubles", "", "probe"), tried)  # type: ignore[arg-type]


def counted(mark: Path, *at: int) -> list[str]:
    """A check that counts how often it is asked, leaves litter, and stands still those times."""
    still = "|".join(map(str, at))
    script = f"printf x >> {mark}; ls; touch litter ~/litter; case $(wc -c < {mark}) in {still}) sleep 60;; esac"
    return ["sh", "-c", f"test ! -e litter && test ! -e ~/litter && {{ {script}; }}"]


def test_a_check_that_stands_still_once_is_asked_again_in_a_fresh_copy(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    check = CommandCheck(command=counted(mark, 1), timeout_s=LIMIT)
    with gated(tmp_path, (check,)) as cell:
        finding = cell.sculpt(GOOD)
        assert (finding.verdict, finding.message) == (GREEN, "")
        assert asked(mark) == 2
        assert {**only(finding.evidence), "wall_s": 0} == {"what": "ci", "limit_s": LIMIT, "then": "GREEN", "wall_s": 0}
        assert finding.evidence["asked"] == 2
        assert not finding.evidence["timed_out"]
        assert finding.evidence["check_wall_s"] > LIMIT  # type: ignore[operator]
        assert finding.wall_s > LIMIT


def test_a_check_that_never_ends_is_broken_after_two_askings(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    check = CommandCheck(command=counted(mark, *range(1, 9)), timeout_s=LIMIT)
    with gated(tmp_path, (check,)) as cell:
        finding = cell.sculpt(GOOD)
        assert finding.verdict is BROKEN
        assert finding.message == f"the check 'ci' timed out twice (limit {LIMIT:g} s)"
        assert asked(mark) == 2
        assert finding.evidence["timed_out"]
        assert finding.wall_s >= 2 * LIMIT


def test_a_check_that_answers_is_asked_once(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with gated(tmp_path, (CommandCheck(command=counted(mark, NEVER)),)) as cell:
        finding = cell.sculpt(GOOD)
        assert finding.evidence["asked"] == asked(mark) == 1
        assert "asked_twice" not in finding.evidence


def test_both_askings_count_against_the_cells_wall_clock(cli: Cli, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = counted(mark, *range(1, 9))[-1].replace('"', '\\"')
    (tmp_path / "conf/arm").mkdir(parents=True)
    (tmp_path / "conf/arm/mine.yaml").write_text(
        "# @package _global_\n# Ours.\ndefaults:\n  - override /gate/checks: ci\n  - override /controller: external_ci\n"
        "arm: {name: mine, description: ours, stream: 0}\n"
        f'gate:\n  checks:\n    timeout_s: 2\n    command: [sh, -c, "{script}"]\n'
    )
    cli("run", "--config-dir", str(tmp_path / "conf"), *QUICK, "task.select={n: 1}", "arm=mine", "model.skill=1",
        "budget.wall_s=3.5", "budget.max_cycles=5", "run.analyze=false")  # fmt: skip
    (row,) = recurve_eval.load(next(tmp_path.glob("outputs/*/*/plan.yaml")).parent).rows
    assert row["declaration"]["stop_reason"] == "budget_wall"
    assert row["usage"]["gate_wall_s"] >= 4
    assert row["usage"]["cycles"] == 1
    assert asked(mark) == 2, "two askings of one turn use the budget up, and no further turn is had"
