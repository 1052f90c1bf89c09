"""Permutation cells: the five capture statuses, runs that may not earn a pass, a parent that stays as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recurve_eval
from recurve_eval.benchmarks.permutation import HOME, SOURCE, TESTS
from tests.conftest import QUICK

# What the agent does, by its seed. The right source is saved first.
DEEDS = [
    "true",
    "exit 1",
    "sleep 60",
    """printf '{"declared_done": false}' > "$RECURVE_RESULT_FILE" """,
    f"rm {SOURCE}",
    f"rm {TESTS}; mkdir {TESTS}",
    f"chmod 000 {SOURCE}",
    f"head -c 40000 /dev/zero > {TESTS}",
    f"rm {SOURCE}; ln -s $RIGHT {SOURCE}",
]


def study(tmp_path: Path, script: str, seeds: int, **fields: Any) -> list[dict[str, Any]]:
    script = script.replace("$RIGHT", str(HOME / "solution" / SOURCE))
    words = [
        *QUICK, "task=permutation", "task.select=[binary-direction]", "agent=command", "agent.paid=false",
        "model=unnamed", f"agent.argv={json.dumps(['/bin/sh', '-c', script])}",
        f"run.outputs={tmp_path}/outputs", "run.analyze=false", "run.workers=2",
        "seed=" + ",".join(map(str, range(seeds))), *(f"task.{k}={v}" for k, v in fields.items()),
    ]  # fmt: skip
    report = recurve_eval.run(words)
    rows = recurve_eval.load(report.run_dir).rows
    return [{**row, "dir": report.run_dir} for row in sorted(rows, key=lambda r: int(r["identity"]["seed"]))]


def statuses(row: dict[str, Any]) -> list[str]:
    path = row["dir"] / "cells" / row["identity"]["cell_id"] / "submission.json"
    return [file["status"] for file in json.loads(path.read_text())["files"]]


def test_only_a_completed_run_that_saved_right_work_ships_it(tmp_path: Path) -> None:
    cases = "".join(f"{n}) {deed} ;; " for n, deed in enumerate(DEEDS))
    script = f"cat > /dev/null; cat $RIGHT > {SOURCE}; case $RECURVE_SEED in {cases}esac"
    rows = study(tmp_path, script, len(DEEDS), agent_s=4)
    declared = [row["declaration"]["declared_done"] for row in rows]
    outcomes = [row["derived"]["outcome"] for row in rows]
    assert declared[:4] == [True, False, False, False]
    assert outcomes[:4] == ["shipped_good", "withheld_good", "withheld_good", "withheld_good"]
    assert rows[2]["declaration"]["stop_reason"] == "budget_wall"
    assert rows[2]["usage"]["agent_wall_s"] < 4 + 10
    assert [statuses(row) for row in rows[3:]] == [
        ["ok", "ok"], ["missing", "ok"], ["ok", "not_file"], ["unreadable", "ok"], ["ok", "too_large"], ["not_file", "ok"],
    ]  # fmt: skip
    assert outcomes[4:] == ["shipped_bad", "shipped_good", "shipped_bad", "shipped_good", "shipped_bad"]
    for row in rows:
        proof = json.loads((row["dir"] / "cells" / row["identity"]["cell_id"] / "parent.json").read_text())
        assert proof["unchanged"] and proof["before"] == proof["after"]


@pytest.mark.parametrize("deed", ["echo more >> $PARENT/notes.txt", "rm -r $PARENT"])
def test_a_world_that_reached_its_parent_is_never_scored(tmp_path: Path, deed: str) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / "notes.txt").write_text("mine\n")
    script = f"cat > /dev/null; cat $RIGHT > {SOURCE}; {deed.replace('$PARENT', str(parent))}"
    (row,) = study(tmp_path, script, 1, workspace=parent)
    assert row["derived"]["outcome"] == "unscored"
    assert row["verdict"]["reason"] == "infra" and "parent workspace" in row["verdict"]["detail"]


def test_an_offline_world_answers_every_request(tmp_path: Path, bwrap: None) -> None:
    asks = (
        "import sys, urllib.error, urllib.request\\n"
        "for url in ('http://example.org/a', 'https://example.org/b'):\\n"
        "    try:\\n"
        "        urllib.request.urlopen(url, timeout=5)\\n"
        "        sys.exit(1)\\n"
        "    except OSError as error:\\n"
        "        if '404' not in str(error): sys.exit(2)\\n"
    )
    script = f'cat > /dev/null; printf "{asks}" > ask.py; python3 ask.py'
    (row,) = study_in(tmp_path, script, "sandbox=bubblewrap")
    assert row["declaration"]["declared_done"] is True, row
    assert row["attestation"]["network"] == "offline_404"
    (row,) = study_in(tmp_path, script, "sandbox=bubblewrap", "task.network=''")
    assert row["declaration"]["declared_done"] is False


def study_in(tmp_path: Path, script: str, *words: str) -> list[dict[str, Any]]:
    report = recurve_eval.run([
        "oracle=process", "tracking=none", "task=permutation", "task.select=[binary-direction]", "agent=command",
        "agent.paid=false", "model=unnamed", f"agent.argv={json.dumps(['/bin/sh', '-c', script])}",
        f"run.outputs={tmp_path}/outputs", "run.analyze=false", *words,
    ])  # fmt: skip
    return recurve_eval.load(report.run_dir).rows
