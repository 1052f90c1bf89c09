"""The answer logged back: the parent run says it, and each arm is a run that MLflow's table and charts can compare.

An arm's run holds what summary.json says of the arm in one stratum. A rate that is undefined has no metric (a metric
cannot be undefined); its tag says so with the raw fraction.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recurve_eval.analysis.board import Note, arm_notes, fitting, study_note
from recurve_eval.analysis.board_layers import KIND, interception_notes
from recurve_eval.ledger import sealed_lines
from recurve_eval.tracking.encoding import KIND_TAG, MAX_TAG, PLAN_TAG
from recurve_eval.tracking.mlflow.client import EXPERIMENT_TAGS, search, upload
from recurve_eval.tracking.mlflow.source import ROWS_COUNT_TAG, ROWS_FILE, ROWS_HASH_TAG
from recurve_eval.tracking.mlflow.view import VIEW_TAG, links, view_of

SUMMARY_TAG = "recurve.summary_sha256"
ARM_OF_TAG = "recurve.study_run"  # not MLflow's tag for a parent: its table would fold the arms away among the cells
NOTE_TAG = "mlflow.note.content"
ARTIFACTS = "analysis"
FORM = b"2"  # of what is logged; another form is logged anew


def publish(client: Any, experiment_id: str, parent_id: str, run_dir: Path, analysis: Path) -> None:
    """Log the analysis in a directory, unless it is logged already; what an earlier one said is replaced."""
    raw = (analysis / "summary.json").read_bytes()
    mark = hashlib.sha256(FORM + raw + (analysis / "summary.md").read_bytes()).hexdigest()
    parent = client.get_run(parent_id)
    if parent.data.tags.get(SUMMARY_TAG) == mark and ROWS_HASH_TAG in parent.data.tags:
        return
    for run in search(client, [experiment_id], f"tags.`{ARM_OF_TAG}` = '{parent_id}' and tags.`{KIND_TAG}` = 'arm'"):
        client.delete_run(run.info.run_id)
    data = json.loads(raw)
    text = (analysis / "summary.md").read_text(encoding="utf-8")
    layered = data.get("kind") == KIND
    note, notes = interception_notes(data, text) if layered else (study_note(data, text), arm_notes(data))
    for name in parent.data.metrics.keys() - note.metrics.keys():
        note.metrics[name] = float("nan")  # an earlier analysis had a value; MLflow cannot forget a metric
    tags = {KIND_TAG: "arm", ARM_OF_TAG: parent_id, SUMMARY_TAG: mark}
    arms = [_arm(client, experiment_id, arm, tags) for arm in reversed(notes)]  # the table shows the newest first
    plan_hash = parent.data.tags.get(PLAN_TAG, "")[:8]
    shown = _show(client, experiment_id, parent_id, notes, arms[::-1], plan_hash)
    answer, _, rest = note.text.partition("\n\n")
    note.text = fitting("\n\n".join([answer, shown, rest]))
    _log(client, parent_id, note)
    name = f"{note.name}: {note.tags['finding']} ({plan_hash})"[:250]
    client.update_run(parent_id, name=name)
    _tell(client, experiment_id, f"{name}. {shown}")
    upload(client, parent.info.artifact_uri, sorted(analysis.iterdir()), ARTIFACTS)
    _keep_rows(client, parent, run_dir)
    client.set_tag(parent_id, SUMMARY_TAG, mark)


def _arm(client: Any, experiment_id: str, arm: Note, tags: Mapping[str, str]) -> str:
    """The id of the new run of an arm."""
    run = client.create_run(experiment_id, tags=dict(tags), run_name=arm.name)
    _log(client, run.info.run_id, arm)
    client.set_terminated(run.info.run_id, "FINISHED")
    return str(run.info.run_id)


def _show(
    client: Any, experiment_id: str, parent_id: str, notes: Sequence[Note], arms: Sequence[str], plan_hash: str
) -> str:
    """Save the view of the study's arms; the links to it."""
    where = f"tags.`{KIND_TAG}` = 'arm' and tags.`{ARM_OF_TAG}` = '{parent_id}'"
    key = f"arms-{plan_hash}"
    client.set_experiment_tag(experiment_id, VIEW_TAG + key, view_of(notes, where))
    return links(experiment_id, key, arms)


def _tell(client: Any, experiment_id: str, line: str) -> None:
    """Say in the experiment's description what was analyzed last, unless someone else wrote that description."""
    ours = EXPERIMENT_TAGS[NOTE_TAG]
    if client.get_experiment(experiment_id).tags.get(NOTE_TAG, ours).endswith(ours):
        client.set_experiment_tag(experiment_id, NOTE_TAG, f"{line}\n\n{ours}")


def _log(client: Any, run_id: str, note: Note) -> None:
    from mlflow.entities import Metric, Param, RunTag

    at = int(time.time() * 1000)
    client.log_batch(
        run_id,
        metrics=[Metric(name, value, at, 0) for name, value in sorted(note.metrics.items())],
        params=[Param(name, value) for name, value in sorted(note.params.items())],
        tags=[RunTag(name, value[:MAX_TAG]) for name, value in sorted({**note.tags, NOTE_TAG: note.text}.items())],
    )


def _keep_rows(client: Any, parent: Any, run_dir: Path) -> None:
    """The rows as one file, so that a server need not be asked for every cell."""
    with tempfile.TemporaryDirectory(prefix="recurve-eval-") as place:
        path, number = Path(place) / ROWS_FILE, 0
        with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=4, fileobj=raw, mtime=0) as packed:
            for line in sealed_lines(run_dir):
                packed.write(line)
                number += 1
        upload(client, parent.info.artifact_uri, [path])
        with path.open("rb") as file:
            client.set_tag(parent.info.run_id, ROWS_HASH_TAG, hashlib.file_digest(file, "sha256").hexdigest())
        client.set_tag(parent.info.run_id, ROWS_COUNT_TAG, str(number))
