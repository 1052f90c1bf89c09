"""What is put to the gate: pieces of work of which something is known, and the ports of where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from recurve_eval.domain import JSON, Submission, Task, digest
from recurve_eval.ports import Agent, Benchmark

SEEDED, RECORDED, GOOD = "seeded", "recorded", "good"  # what is known of an item before it is graded
DEFECT, FINE, EQUIVALENT, DISPUTED, UNSCORED = "defect", "good", "equivalent", "disputed", "unscored"


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of work.

    Attributes
    ----------
    role : str
        ``seeded`` (made to be wrong), ``recorded`` (somebody's work, unknown) or ``good`` (made to be right).
    kind : str
        In which way it is wrong or right, such as ``comparison``, ``canonical`` or ``rewrite: rename``.
    author : str
        The model that wrote it; empty where none did.
    attempt : int
        Which of the author's attempts at the task.
    detail : str
        Where exactly it was changed, for a person.
    cell : str
        The cell of another run that left it; empty where there is none.
    truth : str
        A verdict that is known already (of a sealed row); empty where the oracle is to be asked.
    """

    task_id: str
    role: str
    kind: str
    files: Mapping[str, bytes]
    author: str = ""
    attempt: int = 0
    detail: str = ""
    truth: str = ""
    cell: str = ""

    @property
    def submission(self) -> Submission:
        return Submission.of_reference(f"{self.role}:{self.kind}", self.files)

    @property
    def facts(self) -> dict[str, JSON]:
        """What rows and reports say of it."""
        return {
            "role": self.role, "kind": self.kind, "author": self.author, "attempt": self.attempt,
            "detail": self.detail, "cell": self.cell, "submission": self.submission.sha256,
        }  # fmt: skip

    @property
    def id(self) -> str:
        return digest([self.task_id, self.author, self.attempt, self.cell, self.submission.sha256])[:16]


def standing(role: str, verdict: str) -> str:
    """What the held-out oracle makes of an item. A person's opinion plays no part.

    Seeded work that passes is ``equivalent``: no defect that the oracle can see. Known-good work that fails is
    ``disputed``: the item or the oracle is wrong, and it counts as neither.
    """
    if verdict == "unscored":
        return UNSCORED
    if verdict == "pass":
        return EQUIVALENT if role == SEEDED else FINE
    return DISPUTED if role == GOOD else DEFECT


def distinct(items: Iterable[Item]) -> Iterator[Item]:
    """Items without those whose files are those of an earlier item of the same task, author, attempt and cell.

    A defect whose text is that of a known-good item is no defect; so known-good items come first.
    """
    seen: set[tuple[str, ...]] = set()
    for item in items:
        whose = (item.author, str(item.attempt), item.cell) if item.author else ()
        key = (item.task_id, item.submission.sha256, *whose)
        if key not in seen:
            seen.add(key)
            yield item


class Source(Protocol):
    """Where items come from. ``simulated`` says that no agent made them."""

    name: str
    simulated: bool

    def pins(self) -> Mapping[str, JSON]: ...
    def items(self, benchmark: Benchmark, task_ids: Sequence[str]) -> Iterator[Item]:
        """The items of the named tasks, task by task. Raises ConfigError, Drift."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What an author left below ``.recurve/`` (by path), or why there is nothing."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    author: str = ""
    why_none: str = ""


class Claims(Protocol):
    """Who states the claims that the probe layers judge by."""

    name: str
    simulated: bool

    def pins(self) -> Mapping[str, JSON]: ...
    def claims(self, task: Task, item: Item, asked: Asked) -> Claimed: ...


@dataclass(frozen=True)
class Asked:
    """What an author of claims may need: the agent of the configuration, and a way to let it work."""

    agent: Agent
    author: object  # callable(task) -> mapping of path to bytes
