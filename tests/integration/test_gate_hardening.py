"""Hardening: mutants, rewrites and references, on real probes; and rewrites that really keep the meaning."""

from __future__ import annotations

from pathlib import Path

from recurve_eval.benchmarks.demo import DemoBenchmark
from recurve_eval.domain import GateVerdict, OracleVerdict, Phase, Submission
from recurve_eval.mutation.rewrites import rewrites
from recurve_eval.ports import Auditor, GateComponent
from tests.gating import CLAIMS, GOOD, LEDGER, PROBE, gated
from tests.sandboxes import make

A4 = ("checks/claims", "traps/red_first", "boundary/enforced", "hardening/enforce")
DOUBLES = ".recurve/probes/doubles.py"
# GREEN of whatever is not the trap: what a check that knows only its trap is worth.
LENIENT = PROBE.replace("double(3) == 6", "double(3) != 3")
GREPS = """import os, sys
text = open(os.path.join(os.environ.get("TRAP_FIXTURE") or ".", "solution.py")).read()
sys.exit(0 if "2 * x  # twice" in text else 1)
"""


def test_a_probe_of_behaviour_holds(tmp_path: Path) -> None:
    with gated(tmp_path, A4) as cell:
        assert cell.author().verdict is GateVerdict.GREEN
        findings = cell.turn({"solution.py": GOOD})
        assert [f.verdict for f in findings] == [GateVerdict.GREEN] * 4
        assert cell.record.hardening is not None
        assert cell.record.hardening["mutants"] > 0
        assert cell.record.hardening["survived"] == 0
        assert cell.record.hardening["passed"]
        assert cell.record.hardening["probe_rates"] == {"doubles": 0.0}


def test_survivors_are_shown_and_the_claims_may_be_mended_once(tmp_path: Path) -> None:
    with gated(tmp_path, A4) as cell:
        assert cell.author({DOUBLES: LENIENT}).verdict is GateVerdict.GREEN
        refused = cell.sculpt(GOOD)
        assert refused.component == "hardening"
        assert refused.verdict is GateVerdict.BROKEN
        assert "wrong variants of your work" in refused.message
        assert "-    return 2 * x" in refused.message
        assert cell.rounds.phase is Phase.AUTHOR
        assert cell.author().verdict is GateVerdict.GREEN  # RED on the work as it was given, although it is done by now
        assert cell.sculpt(GOOD).verdict is GateVerdict.GREEN
        cell.record.state["reopen"] = True
        cell.rounds.advance(())
        assert cell.rounds.phase is Phase.SCULPT


def test_a_probe_that_greps_the_source_is_refused(tmp_path: Path) -> None:
    with gated(tmp_path, A4) as cell:
        assert cell.author({DOUBLES: GREPS}).verdict is GateVerdict.GREEN
        refused = cell.sculpt(GOOD.replace(b"2 * x", b"2 * x  # twice"))
        assert refused.component == "hardening"
        assert "judge behaviour, not text" in refused.message


def test_a_reference_must_agree(tmp_path: Path) -> None:
    ledger = LEDGER + "    reference: {path: .recurve/reference, kind: mechanical}\n"
    files = {".recurve/claims.yaml": ledger, ".recurve/reference/solution.py": "def double(x):\n    return x + x\n"}
    with gated(tmp_path / "a", A4) as cell:
        cell.author(files)
        assert cell.sculpt(GOOD).verdict is GateVerdict.GREEN
        assert cell.record.hardening is not None
        assert cell.record.hardening["references"] == ["mechanical"]
    with gated(tmp_path / "b", A4) as cell:
        cell.author({**files, ".recurve/reference/solution.py": "def double(x):\n    return 5\n"})
        assert "rejects the" in cell.sculpt(GOOD).message


def test_an_audit_has_no_verdict_to_give(tmp_path: Path) -> None:
    audit = make("gate/hardening", "audit")
    assert isinstance(audit, Auditor)
    assert not isinstance(audit, GateComponent)
    with gated(tmp_path, ("checks/claims",)) as cell:
        cell.turn({**CLAIMS, DOUBLES: LENIENT})
        cell.sculpt(GOOD)
        seen = audit.observe(cell.rounds.context)
        assert not hasattr(seen, "verdict")
        assert seen.facts["survived"] > 0
        assert seen.facts["mode"] == "audit"
        assert cell.record.hardening is None


def test_rewrites_keep_what_every_demo_solution_does() -> None:
    demo, oracle = DemoBenchmark(), make("oracle", "process")
    oracle.start(1)
    kinds = set()
    try:
        for task in demo.task_ids():
            for rewrite in rewrites(demo.solutions(task).canonical):
                kinds.add(rewrite.kind)
                job = demo.oracle_job(task, Submission.of_reference("canonical", rewrite.files))
                assert oracle.grade(job).verdict is OracleVerdict.PASS, (task, rewrite.kind)
    finally:
        oracle.close()
    assert kinds == {"format", "rename", "reorder", "equivalent"}
