"""Whether a calibration speaks for a study: exactly this environment, dataset and exclusion table, and green."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recurve_eval.calibration.document import Settings, covered
from recurve_eval.calibration.store import Store, opened
from recurve_eval.calibration.subject import Subject, key_of
from recurve_eval.locks import facts_moved

AT_LEAST = ("runs", "mutants")  # settings of which a calibration may have more than is asked for
_NAMED = 3  # how many of a list a message names


def complaint(subject: Subject, settings: Settings, store: Store) -> str | None:
    """Why this oracle is not proven for these tasks, in one clause; None where it is.

    Raises Drift where the calibration's file was altered.
    """
    held = store.read(subject.key)
    if held is None:
        return _nearest(subject, store)
    if not held["green"]:
        first = held["problems"]
        return f"its calibration is not green: {_some(first)} ({store.path(subject.key)})"
    asked = asdict(settings)
    for name in AT_LEAST:
        if held["settings"][name] < asked[name]:
            return (
                f"it was calibrated with {name}={held['settings'][name]}, and calibrate.{name} asks for {asked[name]}"
            )
    return moved(subject, held)


def moved(subject: Subject, held: Mapping[str, Any]) -> str | None:
    """What a calibration lacks for the subject's tasks, or what moved below it; None where nothing did."""
    if held["grader_code"] != subject.grader_code:
        return "the code that makes jobs and verdicts is not the code it was calibrated with"
    tasks = covered(held)
    missing = [t for t in subject.task_ids if t not in tasks]
    if missing:
        return f"its calibration does not cover {len(missing)} of the {len(subject.task_ids)} tasks: {_some(missing)}"
    for task_id in subject.task_ids:
        if subject.canonical(task_id).fingerprint != tasks[task_id]["fingerprint"]:
            return f"task {task_id} (its canonical solution, tests or time limit) is not the one that was calibrated"
        if subject.impossible(task_id) != tasks[task_id].get("impossible", ""):
            proven = "impossible" if tasks[task_id].get("impossible") else "solvable"
            return f"task {task_id} was calibrated as {proven}, and the benchmark says that it is not"
    return None


def _nearest(subject: Subject, store: Store) -> str:
    """Which fact differs from the calibration that is there, the one with the fewest differences."""
    found = [list(_differences(subject, other)) for other in store.others(subject.key)]
    if not found:
        return "this oracle environment has no calibration"
    return f"there is no calibration for exactly this: {_some(min(found, key=len))}"


def _differences(subject: Subject, other: Mapping[str, Any]) -> Iterator[str]:
    dataset = subject.pins.get("dataset_hash")
    if other["dataset"]["hash"] != dataset:
        yield f"the dataset is {_short(dataset)}, the calibrated one {_short(other['dataset']['hash'])}"
    if other["exclusions"]["hash"] != subject.exclusions.hash:
        yield (
            f"the exclusion table is {_short(subject.exclusions.hash)} ({len(subject.exclusions.reasons)} tasks), "
            f"the calibrated one {_short(other['exclusions']['hash'])} ({len(other['exclusions']['tasks'])})"
        )
    oracle, env = other["oracle"], subject.env
    for name, here, there in facts_moved(
        {"backend": env.backend, "image_digest": env.image_digest, **env.facts},
        {"backend": oracle["backend"], "image_digest": oracle["image_digest"], **oracle["facts"]},
    ):
        yield f"the oracle's {name} is {here}, the calibrated one's {there}"


def _some(items: list[str]) -> str:
    return "; ".join(items[:_NAMED]) + (f"; and {len(items) - _NAMED} more" if len(items) > _NAMED else "")


def _short(value: Any) -> str:
    return str(value)[:12]


def counts_of(document: Mapping[str, Any]) -> dict[str, list[int]]:
    """What an analysis needs to correct a rate of bad work: ``{"fails_bad": [count, n], "passes_good": [count, n]}``.

    A calibration's sensitivity is of good work; whoever counts bad work would call that specificity.
    """
    known = {"fails_bad": document["specificity"], "passes_good": document["sensitivity"]}
    return {name: [rate["count"], rate["n"]] for name, rate in known.items()}


def rates_for_run(run_dir: Path, plan: Mapping[str, Any]) -> dict[str, list[int]] | None:
    """The counts of the one green calibration that a run's rows were graded under, or None.

    ``plan`` is the run's plan.yaml. A plan over several benchmarks or environments has no single
    calibration, and then nothing is corrected. Raises Drift where the calibration's file was altered.
    """
    keys = set()
    for condition in plan.get("conditions") or []:
        pins = condition["pins"]["benchmark"]
        key = key_of(condition["pins"]["oracle"], pins.get("dataset_hash"), pins.get("exclusions_hash"))
        keys.add((condition["config"]["task"]["name"], key))
    if len(keys) != 1:
        return None
    name, key = keys.pop()
    path = Store(Path(run_dir).parent.parent, name).path(key)
    document = opened(path) if path.is_file() else None
    return counts_of(document) if document is not None and document["green"] else None
