"""The one place that decides which cells are partners.

Every paired number of a report comes from a :class:`Pairing`. It refuses what would silently bias one:
a cell twice, cells of different models side by side, and seeds counted as if they were tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recurve_eval.analysis.records import PairKey, Record, Stratum, TaskKey, in_order
from recurve_eval.stats import PairedTable, ShapeError

Event = Callable[[Record], bool]
Measure = Callable[[Record], float]


def index_cells(records: Iterable[Record]) -> dict[tuple[str, PairKey], Record]:
    """Records by arm and key.

    Raises
    ------
    ShapeError
        Two records of the same arm and key.
    """
    found: dict[tuple[str, PairKey], Record] = {}
    for record in records:
        at = (record.arm, record.key)
        if at in found:
            raise ShapeError(
                f"arm {record.arm} has two results for {_say(record.key)}: {found[at].cell_id} and {record.cell_id};"
                " analyze one of them, never their pool"
            )
        found[at] = record
    return found


def stratify(records: Iterable[Record]) -> dict[Stratum, list[Record]]:
    """Records by benchmark, model, agent and budget: the groups within which pairs may be made."""
    out: dict[Stratum, list[Record]] = {}
    for record in records:
        out.setdefault(record.stratum, []).append(record)
    return {stratum: out[stratum] for stratum in sorted(out, key=in_order)}


@dataclass(frozen=True, slots=True)
class Pair:
    key: PairKey
    baseline: Record
    treatment: Record

    task: TaskKey
    scored: bool


@dataclass(frozen=True)
class Pairing:
    """Matched cells of two arms within one stratum, ordered by task and seed.

    ``only_baseline`` and ``only_treatment`` list the keys whose partner is missing.
    """

    baseline: str
    treatment: str
    pairs: tuple[Pair, ...]
    only_baseline: tuple[PairKey, ...]
    only_treatment: tuple[PairKey, ...]

    @cached_property
    def tasks(self) -> tuple[TaskKey, ...]:
        return tuple(dict.fromkeys(p.task for p in self.pairs))

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        place = {task: i for i, task in enumerate(self.tasks)}
        return np.array([place[p.task] for p in self.pairs], dtype=np.int64)

    @property
    def single_seed(self) -> bool:
        return len(self.tasks) == len(self.pairs)

    @cached_property
    def scored(self) -> Pairing:
        """The pairs whose two cells both have a verdict."""
        return replace(self, pairs=tuple(p for p in self.pairs if p.scored))

    def table(self, event: Event) -> PairedTable:
        """The 2x2 table of an event.

        Raises
        ------
        ShapeError
            A task has several pairs, which are not independent; the message names the tests to use.
        """
        if not self.single_seed:
            raise ShapeError(
                f"{len(self.pairs)} pairs come from {len(self.tasks)} tasks: seeds of one task are not independent, so"
                " McNemar's test does not apply; use stats.sign_flip over task_means with stats.cluster_bootstrap"
            )
        return self.seed_table(event)

    def seed_table(self, event: Event) -> PairedTable:
        """The 2x2 counts over all seeds: to be shown, never to be tested."""
        counts = {(x, y): 0 for x in (True, False) for y in (True, False)}
        for p in self.pairs:
            counts[event(p.baseline), event(p.treatment)] += 1
        return PairedTable(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    def task_means(self, event: Measure) -> NDArray[np.float64]:
        """Treatment minus baseline per task, the mean over its seeds; shape (tasks,)."""
        sums = self.task_sums([lambda p: float(event(p.treatment)) - float(event(p.baseline)), lambda p: 1.0])
        return np.asarray(sums[:, 0] / sums[:, 1], dtype=float)

    def task_sums(self, measures: Sequence[Callable[[Pair], float]]) -> NDArray[np.float64]:
        """Per-task sums of measures of a pair, shape (tasks, measures), in the order of ``tasks``."""
        out = np.zeros((len(self.tasks), len(measures)))
        for j, measure in enumerate(measures):
            values = np.fromiter(map(measure, self.pairs), dtype=float, count=len(self.pairs))
            out[:, j] = np.bincount(self._places, weights=values, minlength=len(self.tasks))
        return out


def pair(records: Sequence[Record], baseline: str, treatment: str) -> Pairing:
    """Match the cells of two arms on benchmark, task, model, agent, budget and seed.

    Parameters
    ----------
    records : sequence of Record
        Of one stratum; records of other arms are ignored.
    baseline, treatment : str
        Names of arms.

    Raises
    ------
    ShapeError
        The same arm twice, a duplicate cell, or records of several strata.
    """
    if baseline == treatment:
        raise ShapeError(f"arm {baseline} cannot be compared with itself; run it again under another name")
    used = [r for r in records if r.arm in (baseline, treatment)]
    strata = sorted({r.stratum for r in used})
    if len(strata) > 1:
        names = "; ".join("/".join(s) for s in strata[:4])
        raise ShapeError(f"pairs of several strata ({names}) are not one sample; pair each group of stratify() alone")
    cells = index_cells(used)
    first = {key: r for (arm, key), r in cells.items() if arm == baseline}
    second = {key: r for (arm, key), r in cells.items() if arm == treatment}
    return Pairing(
        baseline,
        treatment,
        tuple(_pair(key, first[key], second[key]) for key in sorted(first.keys() & second.keys())),
        tuple(sorted(first.keys() - second.keys())),
        tuple(sorted(second.keys() - first.keys())),
    )


def _pair(key: PairKey, baseline: Record, treatment: Record) -> Pair:
    return Pair(key, baseline, treatment, baseline.task, baseline.scored and treatment.scored)


def _say(key: PairKey) -> str:
    return ", ".join(f"{name} {value}" for name, value in key._asdict().items())
