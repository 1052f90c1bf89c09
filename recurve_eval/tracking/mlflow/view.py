"""A view of a study's arms for MLflow's page: which runs, which columns, how wide; and the links that open it.

MLflow keeps a shared view as a tag of the experiment, and its page reads it where the address names it. A page
that does not know a part of it leaves that part out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from recurve_eval.analysis.board import Note

VIEW_TAG = "mlflow.sharedViewState."
MOST_COMPARED = 20  # runs in the address of a comparison
WIDE = 195  # pixels of a fraction with its interval
WIDTHS = {"arm": 75, "layer": 115, "finding": 120, "against": 80, "p": 100, "price": 2 * WIDE}
_UNSEEN = ("answer", "role")  # sentences: too long for a column


def view_of(notes: Sequence[Note], where: str) -> str:
    """The view of the runs that ``where`` (a search) finds, with a column for each thing that the notes tell."""
    first = notes[0].params
    params = [p for p in first if len({note.params.get(p) for note in notes}) > 1]
    fullest = sorted(notes, key=lambda note: -len(note.tags))  # a baseline lacks what it is compared by
    tags = dict.fromkeys(tag for note in fullest for tag in note.tags if tag not in _UNSEEN)
    columns = {**{p: f"params.`{p}`" for p in params}, **{tag: f"tags.`{tag}`" for tag in tags}}
    widths = {column: WIDTHS.get(name, WIDE) for name, column in columns.items()}
    fixed = ["attributes.`Run Name`", "runDateAndNestInfo"]
    return json.dumps({
        "searchFilter": where, "orderByKey": "attributes.start_time", "orderByAsc": False, "startTime": "ALL",
        "lifecycleFilter": "Active", "datasetsFilter": [], "modelVersionFilter": "All Runs",
        "selectedColumns": list(widths), "columnOrder": ["0", *fixed, *widths, "duration"], "columnWidths": widths,
    })  # fmt: skip


def links(experiment_id: str, key: str, run_ids: Sequence[str]) -> str:
    """Markdown that opens the view, and the comparison where its address can hold the runs."""
    table = f"Side by side: [in a table](#/experiments/{experiment_id}/runs?viewStateShareKey={key})"
    if not 1 < len(run_ids) <= MOST_COMPARED:
        return f"{table}."
    runs, experiments = (quote(json.dumps(ids, separators=(",", ":"))) for ids in (list(run_ids), [experiment_id]))
    return f"{table}, [compared](#/compare-runs?runs={runs}&experiments={experiments})."
