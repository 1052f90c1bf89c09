"""Which part of the gate earned the effect: each arm against the earlier arm that is most like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recurve_eval.analysis.contrast import Contrast, compare_all
from recurve_eval.analysis.options import AnalysisOptions
from recurve_eval.analysis.pairing import pair
from recurve_eval.analysis.price import PriceRatio
from recurve_eval.analysis.records import Record, Stratum, natural
from recurve_eval.stats import Estimate, Test, Undefined


@dataclass(frozen=True, slots=True)
class Rung:
    """An arm against its ``parent``; ``parts`` differ between the two, and everything else of them is the same.

    ``ship_bad``, ``fdr`` and ``ratios`` are the marginal effect of those parts, arm minus parent (ratio: arm over
    parent), on matched tasks; exploratory unless the same contrast was declared.
    """

    stratum: Stratum
    arm: str
    parent: str
    parts: tuple[str, ...]
    tasks: int
    ship_bad: Estimate
    test: Test | Undefined
    fdr: Estimate
    ratios: dict[str, PriceRatio]
    prevented: int
    good_lost: int


def ladder(stratum: Stratum, records: Sequence[Record], options: AnalysisOptions) -> list[Rung]:
    """The rungs among a stratum's arms; none where there are fewer than two, since a single one is a contrast."""
    steps = rungs_of(_parts(records))
    if len(steps) < 2:
        return []
    pairings = [(pair(records, parent, arm), "exploratory") for arm, parent, _ in steps]
    contrasts = compare_all(stratum, pairings, options)
    return [_rung(c, parts) for c, (_, _, parts) in zip(contrasts, steps, strict=True)]


def rungs_of(arms: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str, tuple[str, ...]]]:
    """(arm, parent, parts that differ) of every arm but the first and those that repeat an earlier one.

    The parent is the earlier arm that differs in the fewest parts; of equals, the latest. Earlier is by name, as
    people count. ``arms`` gives each arm's parts by name.
    """
    order: list[str] = []
    found = []
    for arm in sorted(arms, key=natural):
        unlike = {earlier: _unlike(arms[earlier], arms[arm]) for earlier in order}
        if any(not parts for parts in unlike.values()):
            continue
        if unlike:
            parent = min(reversed(order), key=lambda earlier: len(unlike[earlier]))
            found.append((arm, parent, unlike[parent]))
        order.append(arm)
    return found


def _unlike(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name)))


def _parts(records: Sequence[Record]) -> dict[str, Mapping[str, str]]:
    return {r.arm: r.setup.parts for r in reversed(records)}


def _rung(c: Contrast, parts: tuple[str, ...]) -> Rung:
    end = c.endpoints["ship_bad"]
    return Rung(
        c.stratum, c.treatment, c.baseline, parts, c.tasks, end.effect, end.test, c.fdr.effect, c.price.ratios,
        c.price.prevented, c.price.good_lost,
    )  # fmt: skip
