"""An analysis out of MLflow and back into it: any study by name, checked against the ledger, the answer on its run."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ledger_samples import HASH, plan_dir, sample_row

from recurve_eval.__main__ import main
from recurve_eval.analysis.collect import write_analysis
from recurve_eval.errors import ConfigError, Drift
from recurve_eval.ledger import Ledger, read_rows
from recurve_eval.tracking.follower import load_tracker, mirror, publish
from recurve_eval.tracking.mlflow import MlflowTracker
from recurve_eval.tracking.mlflow.client import connect, search
from recurve_eval.tracking.mlflow.source import ROWS_FILE, _held_by_server

CELLS = 12
pytestmark = pytest.mark.usefixtures("clean_engines")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An outputs directory whose one study is mirrored and analyzed, and whose answer is logged back."""
    outputs = tmp_path_factory.mktemp("made")
    run_dir = plan_dir(outputs, CELLS, target="recurve_eval.tracking.mlflow.MlflowTracker", options={})
    ledger = Ledger(run_dir)
    for number in range(CELLS):
        ledger.seal(sample_row(number, unscored=number == 7))
    mirror(run_dir, load_tracker(run_dir))
    write_analysis(run_dir, read_rows(run_dir))
    assert publish(run_dir, load_tracker(run_dir))
    return outputs


@pytest.fixture
def outputs(made: Path, tmp_path: Path) -> Path:
    """The same, to be altered; artifacts stay where the database says they are."""
    with sqlite3.connect(made / "mlflow.db") as source, sqlite3.connect(tmp_path / "mlflow.db") as target:
        source.backup(target)
    source.close()
    target.close()
    run_dir = plan_dir(tmp_path, CELLS, target="recurve_eval.tracking.mlflow.MlflowTracker", options={})
    for name in ("results.jsonl", "analysis/summary.json", "analysis/summary.md"):
        (run_dir / name).parent.mkdir(exist_ok=True)
        (run_dir / name).write_bytes((made / "study" / HASH[:16] / name).read_bytes())
    return tmp_path


def uri(outputs: Path) -> str:
    return f"sqlite:///{outputs / 'mlflow.db'}"


def runs(outputs: Path, kind: str) -> list[Any]:
    client, _ = connect(uri(outputs), 30.0, 0)
    experiment = client.get_experiment_by_name("study")
    return list(search(client, [experiment.experiment_id], f"tags.`recurve.kind` = '{kind}'"))


def by_cell(rows: Any) -> dict[str, Any]:
    return {row["identity"]["cell_id"]: row for row in rows}


def test_the_answer_stands_on_the_studys_run_and_on_one_run_an_arm(made: Path) -> None:
    (parent,) = runs(made, "plan")
    assert parent.info.run_name == f"study: undetermined ({HASH[:8]})"
    note = parent.data.tags["mlflow.note.content"]
    assert note.startswith("Simulated agents. ") and "| arm | cells | declared |" in note
    assert parent.data.metrics["n_cells"] == CELLS and parent.data.metrics["n_unscored"] == 1
    arms = {r.data.params["arm"]: r for r in runs(made, "arm")}
    assert sorted(arms) == ["A0", "A1", "A3"]
    wanted = {a: [r for r in read_rows(made / "study" / HASH[:16]) if r["identity"]["arm"] == a] for a in arms}
    for arm, run in arms.items():
        declared = [
            r for r in wanted[arm] if r["declaration"]["declared_done"] and r["derived"]["outcome"] != "unscored"
        ]
        bad = sum(r["derived"]["outcome"] == "shipped_bad" for r in declared)
        assert run.data.metrics["fdr"] == pytest.approx(bad / len(declared)) and "fdr_low" in run.data.metrics
        assert run.data.tags["fdr"].startswith(f"{bad}/{len(declared)} = ")
        assert run.info.run_name == f"{arm} FDR {bad}/{len(declared)}"
        assert run.data.tags["recurve.study_run"] == parent.info.run_id and run.info.status == "FINISHED"
    assert "tokens_mean" not in arms["A0"].data.metrics, "an unknown mean is no metric"
    client, _ = connect(uri(made), 30.0, 0)
    assert "analysis/summary.md" in {a.path for a in client.list_artifacts(parent.info.run_id, "analysis")}


def test_descriptions_link_to_a_table_and_a_comparison_of_the_arms(made: Path) -> None:
    (parent,) = runs(made, "plan")
    client, _ = connect(uri(made), 30.0, 0)
    experiment = client.get_experiment(parent.info.experiment_id)
    key = f"arms-{HASH[:8]}"
    table = f"[in a table](#/experiments/{experiment.experiment_id}/runs?viewStateShareKey={key})"
    for note in (parent.data.tags["mlflow.note.content"], experiment.tags["mlflow.note.content"]):
        assert table in note and "[compared](#/compare-runs?runs=%5B%22" in note
    view = json.loads(experiment.tags[f"mlflow.sharedViewState.{key}"])
    arms = runs(made, "arm")
    found = client.search_runs([experiment.experiment_id], view["searchFilter"])
    assert {r.info.run_id for r in found} == {r.info.run_id for r in arms}
    held = {f"params.`{p}`" for r in arms for p in r.data.params} | {f"tags.`{t}`" for r in arms for t in r.data.tags}
    shown = view["selectedColumns"]
    assert set(shown) <= held and shown[:3] == ["params.`arm`", "tags.`finding`", "tags.`against`"]
    assert {"tags.`fdr`", "tags.`change of fdr`", "tags.`price`"} <= set(shown)
    assert [c for c in view["columnOrder"] if c in shown] == shown


def test_an_experiment_that_someone_described_keeps_the_description(outputs: Path) -> None:
    run_dir = outputs / "study" / HASH[:16]
    client, _ = connect(uri(outputs), 30.0, 0)
    experiment = client.get_experiment_by_name("study").experiment_id
    client.set_experiment_tag(experiment, "mlflow.note.content", "Mine.")
    summary = run_dir / "analysis" / "summary.md"
    summary.write_text(summary.read_text() + "\nMore.\n")
    publish(run_dir, load_tracker(run_dir))
    assert client.get_experiment(experiment).tags["mlflow.note.content"] == "Mine."


def test_logging_back_again_changes_nothing_and_a_new_analysis_replaces_the_old(outputs: Path) -> None:
    run_dir = outputs / "study" / HASH[:16]
    before = {r.info.run_id for r in runs(outputs, "arm")}
    publish(run_dir, load_tracker(run_dir))
    assert {r.info.run_id for r in runs(outputs, "arm")} == before
    assert mirror(run_dir, load_tracker(run_dir)) == 0, "the arms' runs are not taken for half-made cells"
    assert {r.info.run_id for r in runs(outputs, "arm")} == before
    summary = run_dir / "analysis" / "summary.md"
    summary.write_text(summary.read_text() + "\nMore.\n")
    publish(run_dir, load_tracker(run_dir))
    after = {r.info.run_id for r in runs(outputs, "arm")}
    assert len(after) == 3 and not after & before


@pytest.mark.parametrize("of", ["study", "1", HASH, "parent"])
def test_a_study_is_found_by_name_id_run_or_plan(made: Path, of: str) -> None:
    (parent,) = runs(made, "plan")
    of = parent.info.run_id if of == "parent" else of
    rows = by_cell(read_rows(made / "study" / HASH[:16]))
    found = MlflowTracker(uri=uri(made)).held(of)
    assert found.path == "its database, by SQL" and by_cell(row for _, row in found.rows()) == rows
    client, _ = connect(uri(made), 30.0, 0)
    served = _held_by_server(client, of)
    assert served.path == "the rows' file at the server" and by_cell(row for _, row in served.rows()) == rows
    client.delete_tag(parent.info.run_id, "recurve.rows_sha256")
    try:
        paged = _held_by_server(client, of)
        assert "page by page" in paged.path and by_cell(row for _, row in paged.rows()) == rows
    finally:
        client.set_tag(parent.info.run_id, "recurve.rows_sha256", parent.data.tags["recurve.rows_sha256"])


@pytest.mark.parametrize("of", ["nothing", "99", "f" * 64, "f" * 32, "it's"])
def test_what_the_tracker_lacks_is_refused_by_name(made: Path, tmp_path: Path, of: str) -> None:
    with pytest.raises(ConfigError, match="has no study"):
        MlflowTracker(uri=uri(made)).held(of)
    assert not _held_by_server(connect(uri(made), 30.0, 0)[0], of).plans
    with pytest.raises(ConfigError, match="no tracker database"):
        MlflowTracker(uri=uri(tmp_path)).held(of)
    assert not (tmp_path / "mlflow.db").exists()


def test_a_file_of_rows_that_was_altered_is_drift(outputs: Path, tmp_path: Path) -> None:
    client, _ = connect(uri(outputs), 30.0, 0)
    (parent,) = runs(outputs, "plan")
    client.set_tag(parent.info.run_id, "recurve.rows_sha256", "0" * 64)
    with pytest.raises(Drift, match=f"{ROWS_FILE} of run {parent.info.run_id} is not the file"):
        list(_held_by_server(client, "study").rows())


def test_analyze_takes_a_study_from_the_tracker_alone(
    outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--uri", uri(outputs), "--outputs", str(tmp_path / "none")]
    assert main(["analyze", *words, "--from", "study"]) == 4
    said = capsys.readouterr()
    assert f"{CELLS} rows from the tracker; the ledger agrees" in said.err, "it lies beside the database"
    assert f"{CELLS} cells" in said.out
    (outputs / "study" / HASH[:16] / "results.jsonl").unlink()
    assert main(["analyze", *words, "--from", "study"]) == 2
    assert "--into says where to write" in capsys.readouterr().err
    assert main(["analyze", *words, "--from", "study", "--into", str(tmp_path / "out")]) == 4
    old, new = (p / "summary.json" for p in (outputs / "study" / HASH[:16] / "analysis", tmp_path / "out"))
    assert new.read_bytes() == old.read_bytes()
    assert main(["analyze", "--from", "study"]) == 2


def test_what_differs_from_the_ledger_is_named_and_the_ledger_wins(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = outputs / "study" / HASH[:16]
    lines = (run_dir / "results.jsonl").read_bytes().splitlines(keepends=True)
    (run_dir / "results.jsonl").write_bytes(b"".join(lines[:4]))
    changed = sample_row(4) | {"verdict": sample_row(4)["verdict"] | {"detail": "other"}}
    ledger = Ledger(run_dir)
    ledger.seal(changed)
    ledger.seal(sample_row(40))
    assert main(["analyze", "--no-log", str(run_dir)]) == 0
    said = capsys.readouterr()
    assert "1 cells are missing from the tracker" in said.err and "7 cells are unknown to the ledger" in said.err
    assert f"1 cells differ from their sealed rows ({changed['identity']['cell_id']})" in said.err
    assert "6 cells" in said.out


def test_several_plans_are_joined_only_with_like_pins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    from recurve_eval.frozen import sealed

    places = []
    for name, env in (("one", "ab" * 32), ("two", "ab" * 32), ("odd", "cd" * 32)):
        run_dir = plan_dir(tmp_path / name, 3, target="recurve_eval.tracking.memory.NoTracker", options={})
        plan = yaml.safe_load((run_dir / "plan.yaml").read_text())
        digest = (name[0] * 64).translate(str.maketrans("ot", "ef")).replace("f", "d") if name != "odd" else "c" * 64
        plan = {k: v for k, v in plan.items() if k != "seal"} | {"plan_hash": digest}
        (run_dir / "plan.yaml").write_text(sealed(yaml.safe_dump(plan, sort_keys=False)))
        for number in range(3):
            row = sample_row(number + 10 * len(places))
            row["identity"] |= {"plan_hash": digest}
            row["provenance"] |= {"oracle_env_hash": env}
            Ledger(run_dir).seal(row)
        places.append(str(run_dir))
    join = ["analyze", "--source", "ledger", "--join"]
    assert main([*join, *places[:2]]) == 2
    assert main([*join, *places[:2], "--into", str(tmp_path / "out")]) == 0
    assert "6 cells" in capsys.readouterr().out
    assert main([*join, *places, "--into", str(tmp_path / "out")]) == 3
    refused = capsys.readouterr().err
    assert "cannot be joined: oracle_env_hash of benchmark 'demo' is" in refused
    assert "cccccccccccccccc" in refused and "cdcdcd" in refused
