"""An authority is never overrun, however often the run is killed: neither by the ledger nor by what was really spent."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recurve_eval.spend import SpendLedger
from tests.conftest import QUICK

KILLS = int(os.environ.get("RECURVE_SPEND_KILLS", "2"))
CELLS = int(os.environ.get("RECURVE_SPEND_CELLS", "20"))
CALL_USD, CELL_USD = 0.002, 0.01
OWN = ("task.select={n: 10, seed: 0}", "calibrate.runs=1", "calibrate.mutants=0", "run.progress=none")


def _command(log: Path, max_usd: float) -> list[str]:
    call = f'{{"usd": {CALL_USD}}}'
    script = log.with_suffix(".sh")
    text = f"for n in 1 2 3; do echo call >> {log}; sleep 0.05; echo '{call}'; done; echo x = 1 > solution.py"
    script.write_text(text)
    return [
        sys.executable, "-m", "recurve_eval", "run", *QUICK, *OWN, "agent=command", f"agent.argv=[/bin/sh,{script}]",
        "agent.usage={cost_usd: usd, add: sum}", "agent.reports=cost", "model=unnamed", f"budget.usd={CELL_USD}",
        f"seed=range({CELLS // 10})", f"spend.max_usd={max_usd}", "spend.allow_unprotected=true", "run.workers=8",
        "run.analyze=false", "study.name=money",
    ]  # fmt: skip


@pytest.mark.timeout(1800)
def test_kills_and_resumes_never_spend_beyond_the_authority(tmp_path: Path) -> None:
    log, max_usd = tmp_path / "calls", CELLS * CELL_USD
    verb = [sys.executable, "-m", "recurve_eval", "calibrate", *QUICK, *OWN]
    assert subprocess.run(verb, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    command, chance = _command(log, max_usd), random.Random(5)
    for _ in range(KILLS):
        before = _calls(log)
        goal = before + chance.randint(1, max(2, CELLS // KILLS))
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and _calls(log) < goal:
            time.sleep(0.01)
        assert process.poll() is None, "the run ended before all kills: make it longer"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert _calls(log) * CALL_USD <= max_usd
    last = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert last.returncode in (0, 3), last.stderr
    (run_dir,) = (p.parent for p in tmp_path.glob("outputs/money/*/plan.yaml"))
    totals = SpendLedger(run_dir, max_usd).totals()
    truth = _calls(log) * CALL_USD
    said = f"settled ${totals.settled:.3f}, truly spent ${truth:.3f} of ${max_usd:.2f}; exit {last.returncode}\n"
    sys.stdout.write(said)
    assert totals.reserved == 0
    assert truth <= totals.settled + 1e-9, "what was settled covers what was really spent"
    assert _peak(run_dir) <= max_usd + 1e-9
    if last.returncode == 3:
        assert "are spent or reserved" in last.stderr


def _calls(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def _peak(run_dir: Path) -> float:
    """The most that was ever settled and reserved at once."""
    settled, reserved, peak = 0.0, {}, 0.0
    for line in (run_dir / "spend.jsonl").read_text().splitlines():
        event = json.loads(line)
        key = (event["cell_id"], event["attempt"])
        if event["event"] == "reserve":
            reserved[key] = event["usd"]
        else:
            reserved.pop(key, None)
            settled += event["usd"]
        peak = max(peak, settled + sum(reserved.values()))
    return peak
