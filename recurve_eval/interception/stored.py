"""What a run has stored: submissions as they were captured, and the claims that its agents left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurve_eval.domain import JSON, CapturedFile, CaptureStatus, Reference, Submission, Task, canonical_json
from recurve_eval.errors import ConfigError, Drift
from recurve_eval.interception.items import RECORDED, Asked, Claimed, Item
from recurve_eval.interception.sources import Known
from recurve_eval.ledger import read_rows, read_seals
from recurve_eval.ports import Benchmark
from recurve_eval.tracking.study import read_plan

Row = Mapping[str, Any]


def run_at(path: str, what: str) -> Path:
    """A run directory. Raises ConfigError where it is none."""
    run_dir = Path(path).expanduser()
    if not (run_dir / "plan.yaml").is_file():
        raise ConfigError(f"{what}: {path} is no run directory (it has no plan.yaml)")
    return run_dir


def task_of_run(path: str) -> dict[str, Any]:
    """The benchmark's configuration in a run. Raises ConfigError where its conditions have several."""
    plan = read_plan(run_at(path, "source.run"))
    found = {canonical_json(c["config"]["task"]): c["config"]["task"] for c in plan["conditions"]}
    if len(found) > 1:
        raise ConfigError(f"source.run: {path} is a run of several benchmarks: choose one (task=NAME)")
    return dict(next(iter(found.values())))


def stored_submission(run_dir: Path, row: Row) -> Submission | None:
    """The submission behind a sealed row, or None where it has none.

    Raises Drift where the stored files are not what was graded.
    """
    wanted = row["attestation"]["submission_hash"]
    if wanted is None:
        return None
    place = run_dir / "cells" / row["identity"]["cell_id"]
    try:
        listed = json.loads((place / "submission.json").read_text(encoding="utf-8"))["files"]
        files = tuple(_captured(place / "submission", entry) for entry in listed)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Drift(f"{place}: its submission cannot be read ({error})") from None
    found = Submission(Reference(f"stored:{row['identity']['cell_id']}"), files)
    if found.sha256 != wanted:
        raise Drift(f"{place}/submission is not what was graded: it was altered")
    return found


def _captured(place: Path, entry: Mapping[str, Any]) -> CapturedFile:
    status = CaptureStatus(entry["status"])
    content = (place / entry["path"]).read_bytes() if status is CaptureStatus.OK else None
    return CapturedFile(entry["path"], status, content, entry["size"])


@dataclass
class ReplaySource(Known):
    """Every stored submission of a run, with the verdict that it was sealed with.

    Attributes
    ----------
    run : str
        The run directory.
    """

    name: str = "replay"
    run: str = "???"
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        run_dir = run_at(self.run, "source.run")
        return {"plan": read_plan(run_dir)["plan_hash"], "seals": sorted(read_seals(run_dir).values())}

    def items(self, benchmark: Benchmark, task_ids: Sequence[str]) -> Iterator[Item]:
        run_dir = run_at(self.run, "source.run")
        by_task: dict[str, list[dict[str, Any]]] = {}
        for row in read_rows(run_dir):
            self._check(row, benchmark)
            by_task.setdefault(row["identity"]["task_id"], []).append(row)
        if not any(t in by_task for t in task_ids):
            raise ConfigError(f"source.run: {self.run} has no sealed cell of a selected task")
        for task_id in task_ids:
            yield from self.known_good(benchmark, task_id)
            for row in sorted(by_task.get(task_id, []), key=lambda r: int(r["identity"]["order"])):
                item = _item(run_dir, row)
                if item is not None:
                    yield item

    def _check(self, row: Row, benchmark: Benchmark) -> None:
        theirs, ours = row["provenance"]["dataset_hash"], benchmark.pins().get("dataset_hash")
        if row["identity"]["benchmark"].partition("[")[0] != benchmark.name:
            named = row["identity"]["benchmark"]
            raise ConfigError(f"source.run: {self.run} is a run of '{named}': choose it (task={named})")
        if theirs != ours:
            raise Drift(f"source.run: {self.run} was graded on dataset {str(theirs)[:12]}, here is {str(ours)[:12]}")


def _item(run_dir: Path, row: Row) -> Item | None:
    at, verdict = row["identity"], row["verdict"]["oracle_verdict"]
    submission = stored_submission(run_dir, row)
    if submission is None:
        return None
    outcome = "declared done" if row["declaration"]["declared_done"] else "withheld"
    return Item(
        at["task_id"], RECORDED, f"{at['arm']}, {outcome}", submission.contents, at["model"], int(at["seed"]),
        truth=verdict, cell=at["cell_id"],
    )  # fmt: skip


@dataclass
class StoredClaims:
    """The claims that the agent of a replayed cell had stated, as they stood when its run ended.

    Attributes
    ----------
    run : str
        The run directory, as of ``source.run``.
    """

    name: str = "stored"
    run: str = "???"
    simulated = False

    def pins(self) -> Mapping[str, JSON]:
        return {"plan": read_plan(run_at(self.run, "claims.run"))["plan_hash"]}

    def claims(self, task: Task, item: Item, asked: Asked) -> Claimed:
        place = run_at(self.run, "claims.run") / "cells" / item.cell / "claims"
        if not item.cell or not place.is_dir():
            return Claimed(why_none="its cell stated no claims")
        files = {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}
        return Claimed(files, item.author)
