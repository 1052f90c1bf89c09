"""What a cell leaves to be read later: ``cells/<cell id>/``. Bounded, and never the truth (the ledger is)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recurve_eval.domain import Finding, Grade, Submission, Turn
from recurve_eval.ports import Observation

COST = "cost.json"
TRANSCRIPT_LIMIT = 256 * 1024


def _facts(turn: Turn) -> dict[str, Any]:
    return {k: v for k, v in asdict(turn).items() if k not in ("stdout", "stderr")}


def _said(turn: Turn) -> str:
    said = turn.stdout + (b"\n--- stderr ---\n" + turn.stderr if turn.stderr else b"")
    return said[:TRANSCRIPT_LIMIT].decode("utf-8", "replace")


class CellFiles:
    """Writer of one cell's directory. An earlier, unfinished attempt is kept as ``attempt-N/``."""

    def __init__(self, run_dir: Path, cell_id: str, run_label: str) -> None:
        self.root = run_dir / "cells" / cell_id
        self.run_label = run_label

    def begin(self, config_yaml: bytes) -> int:
        """Make the directory ready; the number of this attempt, counted from 1."""
        attempt = 1
        try:
            self.root.mkdir(parents=True)
        except FileExistsError:
            attempt = self._set_aside()
        (self.root / "config.yaml").write_bytes(config_yaml)
        return attempt

    def _set_aside(self) -> int:
        earlier = sum(1 for p in self.root.iterdir() if p.name.startswith("attempt-"))
        leftovers = [p for p in self.root.iterdir() if not p.name.startswith((".", "attempt-"))]
        if not leftovers:
            return earlier + 1
        kept = self.root / f"attempt-{earlier + 1}"
        kept.mkdir()
        for path in leftovers:
            path.rename(kept / path.name)
        return earlier + 2

    def cost(self, attempt: int, usd: float | None, source: str) -> None:
        """What an attempt has cost so far, for whoever has to settle it should this process die."""
        new = self.root / ".cost.new"
        new.write_text(json.dumps({"attempt": attempt, "usd": usd, "source": source}), encoding="utf-8")
        new.replace(self.root / COST)

    @classmethod
    def recorded_cost(cls, run_dir: Path, cell_id: str, attempt: int) -> tuple[float, str] | None:
        """What an attempt that nobody settled is known to have cost; None where that is unknown."""
        try:
            noted = json.loads((run_dir / "cells" / cell_id / COST).read_text(encoding="utf-8"))
            usd, source = noted["usd"], str(noted["source"])
            return (float(usd), source) if noted["attempt"] == attempt and usd is not None else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def directory(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(exist_ok=True)
        return path

    def text(self, name: str, text: str) -> None:
        (self.root / name).write_text(text, encoding="utf-8", errors="replace")

    def json(self, name: str, value: Any) -> None:
        self.text(name, json.dumps(value, indent=1, sort_keys=True, default=str) + "\n")

    def turn(self, number: int, prompt: str, turn: Turn, statement: str) -> None:
        """The run record and the transcript of one turn; the prompt where it differs from the statement."""
        self.json(f"run-record-{number}.json", _facts(turn))
        if prompt != statement:
            self.text(f"prompt-{number}.md", prompt)
        self.text(f"transcript-{number}.txt", _said(turn))

    def review(self, number: int, prompt: str, turn: Turn) -> None:
        """The same of a reviewing agent's turn, below ``gate/``."""
        where = self.directory("gate").name
        self.json(f"{where}/review-{number}.record.json", _facts(turn))
        self.text(f"{where}/review-{number}.prompt.md", prompt)
        self.text(f"{where}/review-{number}.transcript.txt", _said(turn))

    def observation(self, observation: Observation) -> None:
        self.directory("gate")
        self.json(f"gate/audit.{observation.component}.json", asdict(observation))

    def finding(self, cycle: int, finding: Finding) -> None:
        (self.directory("gate") / f"round-{cycle}.{finding.component}.json").write_text(
            json.dumps(asdict(finding), indent=1, sort_keys=True, default=str) + "\n", encoding="utf-8"
        )

    def submission(self, submission: Submission, public: Mapping[str, bytes]) -> None:
        """The captured files, and as ``base/`` those of them that the task had given, to tell what changed."""
        where = self.directory("submission")
        for f in submission.files:
            if f.content is not None:
                target = where / f.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(f.content)
                if f.path in public:
                    before = self.root / "base" / f.path
                    before.parent.mkdir(parents=True, exist_ok=True)
                    before.write_bytes(public[f.path])
        statuses = [{"path": f.path, "status": f.status.value, "size": f.size} for f in submission.files]
        self.json("submission.json", {"sha256": submission.sha256, "files": statuses})

    def claims(self, files: Mapping[str, bytes]) -> None:
        """What the agent left below ``.recurve/``, so that its claims can be put to other work later."""
        for path, content in files.items():
            target = self.root / "claims" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def grade(self, grade: Grade | None) -> None:
        self.json("grade.json", asdict(grade) if grade is not None else {})
