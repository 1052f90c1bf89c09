"""A result row in the words of an experiment tracker: params, metrics, tags, and the row itself inside tags.

A tracker cuts or refuses long values, so the row travels as ``recurve.row.<group>`` tags (canonical
JSON, in numbered pieces where long) with its seal, and is rebuilt exactly or refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from itertools import count, takewhile
from typing import Any

from recurve_eval.domain import JSON, canonical_json
from recurve_eval.errors import Drift
from recurve_eval.rows import GROUPS, flatten

ROW_PREFIX = "recurve.row."
SEAL_TAG = "recurve.row_seal"
CELL_TAG = "recurve.cell_id"
PLAN_TAG = "recurve.plan_hash"
KIND_TAG = "recurve.kind"
PARENT_TAG = "mlflow.parentRunId"
QUESTION_TAG = "recurve.question"  # the plan's study and analysis sections, so that a tracker alone can be analyzed
MAX_TAG = 5000  # characters; the smallest limit among the tracker's supported releases
MAX_PARAM = 6000
_AXES = ("benchmark", "task_id", "arm", "model", "agent", "budget", "seed")
_USAGE = (
    "tokens_in", "tokens_out", "tokens_cached", "cost_usd", "steps", "cycles",
    "agent_wall_s", "gate_wall_s", "oracle_wall_s", "wall_s",
)  # fmt: skip


def params_of(config: Mapping[str, JSON]) -> dict[str, str]:
    """A resolved configuration, flattened; a value too long to store is named by its SHA-256."""
    params: dict[str, str] = {}
    for name, value in flatten(config).items():
        key = _param_name(name, taken=params)
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        params[key] = text if len(text) <= MAX_PARAM else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return params


def metrics_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a row; what is unknown or undefined is left out, never 0."""
    verdict, usage = row["verdict"], row["usage"]
    scored = verdict["oracle_verdict"] != "unscored"
    found: dict[str, Any] = {name: usage[name] for name in _USAGE}
    found["declared_done"] = row["declaration"]["declared_done"]
    found["false_done"] = row["derived"]["false_done"]
    if scored:
        found["pass"] = verdict["oracle_verdict"] == "pass"
        found.update({name: verdict[name] for name in ("tests_passed", "tests_total", "flake_rate")})
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}


def labels_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The tags that people filter by. What is unknown has no tag."""
    identity, verdict, origin = row["identity"], row["verdict"], row["provenance"]
    labels = {
        CELL_TAG: identity["cell_id"],
        PLAN_TAG: identity["plan_hash"],
        "recurve.simulated": "true" if identity["simulated"] else "false",
        "recurve.outcome": row["derived"]["outcome"],
        "recurve.verdict": verdict["oracle_verdict"],
        "recurve.reason": verdict["reason"],
        "recurve.stop_reason": row["declaration"]["stop_reason"],
        "recurve.gate_outcome": row["gate"]["outcome"],
        "recurve.model_served": origin["model_served"],
        "recurve.git_commit": origin["git_commit"],
        "recurve.git_dirty": origin["git_dirty"],
        "recurve.dependency_hash": origin["dependency_hash"],
        "recurve.config_hash": origin["config_hash"],
        "recurve.dataset_hash": origin["dataset_hash"],
        "recurve.oracle_env_hash": origin["oracle_env_hash"],
        **{f"recurve.{axis}": str(identity[axis]) for axis in _AXES},
    }
    return {name: value[:MAX_TAG] for name, value in labels.items() if value}


def row_tags(row: Mapping[str, Any]) -> dict[str, str]:
    """The whole row as tags, with its seal."""
    tags = {SEAL_TAG: _seal(canonical_json(row))}
    for group in GROUPS:
        tags.update(pieces(f"{ROW_PREFIX}{group}", canonical_json(row[group])))
    return tags


def sealed_row(tags: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """The seal and the row that :func:`row_tags` was given. Raises Drift when the tags no longer hold it."""
    texts = {group: joined(tags, f"{ROW_PREFIX}{group}") for group in sorted(GROUPS)}
    text = "{" + ",".join(f'"{group}":{part}' for group, part in texts.items()) + "}"
    seal = tags.get(SEAL_TAG, "")
    if _seal(text) != seal:
        raise Drift(f"the tracker's copy of cell {tags.get(CELL_TAG, '')} does not match its seal; mirror it anew")
    row: dict[str, Any] = json.loads(text)
    return seal, row


def row_from_tags(tags: Mapping[str, str]) -> dict[str, Any]:
    """The row alone; raises as :func:`sealed_row`."""
    return sealed_row(tags)[1]


def question_tags(plan: Mapping[str, Any]) -> dict[str, str]:
    """What a plan asks, as tags."""
    return pieces(QUESTION_TAG, canonical_json({key: plan.get(key) or {} for key in ("study", "analysis")}))


def question_of(tags: Mapping[str, str]) -> dict[str, Any] | None:
    """The ``study`` and ``analysis`` sections that :func:`question_tags` was given, or None."""
    try:
        found = json.loads(joined(tags, QUESTION_TAG))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def pieces(name: str, text: str) -> dict[str, str]:
    """A text as one tag, or as numbered ones where it is long."""
    if len(text) <= MAX_TAG:
        return {name: text}
    number = math.ceil(len(text) / MAX_TAG)
    return {f"{name}.{n}": text[n * MAX_TAG : (n + 1) * MAX_TAG] for n in range(number)}


def joined(tags: Mapping[str, str], name: str) -> str:
    """The text of :func:`pieces`."""
    if name in tags:
        return tags[name]
    numbered = takewhile(lambda piece: piece is not None, (tags.get(f"{name}.{i}") for i in count()))
    return "".join(piece or "" for piece in numbered)


def _seal(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _param_name(name: str, taken: Mapping[str, str]) -> str:
    key = re.sub(r"[^A-Za-z0-9_.\- ]", "_", name).strip(".")[:200] or "_"
    return f"{key}-{hashlib.sha256(name.encode()).hexdigest()[:8]}" if key in taken else key
