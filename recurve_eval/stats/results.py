"""Typed results of every statistic: a number with what it rests on, or a reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from recurve_eval.errors import RecurveError


class ShapeError(RecurveError, ValueError):
    """The data have a shape that this statistic may not be used on; the message names the one to use."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """A statistic that has no value here. Never zero, never NaN; ``reason`` is a full clause in plain words."""

    reason: str


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, ``low <= high``, in the unit of its estimate."""

    low: float
    high: float
    confidence: float
    method: str


@dataclass(frozen=True, slots=True)
class Rate:
    """A proportion with its raw fraction.

    ``count`` of ``n`` observations in ``clusters`` independent clusters (tasks). ``value`` is
    ``count / n`` in [0, 1], or :class:`Undefined` where ``n`` is 0, and then so is ``interval``.
    """

    count: int
    n: int
    clusters: int
    value: float | Undefined
    interval: Interval | Undefined


@dataclass(frozen=True, slots=True)
class Test:
    """A two-sided hypothesis test. ``statistic`` is ``None`` where the test has a p-value only."""

    __test__ = False  # the name is the field's own; it is no test case for a collector

    method: str
    p_value: float
    statistic: float | None = None
    df: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval and the number of clusters (tasks) behind it."""

    value: float | Undefined
    interval: Interval | Undefined
    n: int


@dataclass(frozen=True, slots=True)
class PairedTable:
    """Counts of pairs by (baseline, treatment) event: the rows are the baseline.

    ::

                        treatment yes   treatment no
        baseline yes        both          first_only
        baseline no      second_only       neither
    """

    both: int
    first_only: int
    second_only: int
    neither: int

    def __post_init__(self) -> None:
        if min(self.both, self.first_only, self.second_only, self.neither) < 0:
            raise ShapeError("a paired table holds counts, and a count is never negative")

    @classmethod
    def of(cls, cells: list[list[int]]) -> PairedTable:
        """From ``[[both, first_only], [second_only, neither]]``."""
        (a, b), (c, d) = cells
        return cls(a, b, c, d)

    @property
    def n(self) -> int:
        return self.both + self.first_only + self.second_only + self.neither

    @property
    def discordant(self) -> int:
        return self.first_only + self.second_only

    @property
    def first(self) -> int:
        """Events in the baseline."""
        return self.both + self.first_only

    @property
    def second(self) -> int:
        """Events in the treatment."""
        return self.both + self.second_only

    def swapped(self) -> PairedTable:
        """The same pairs with baseline and treatment exchanged."""
        return PairedTable(self.both, self.second_only, self.first_only, self.neither)


def is_defined(value: object) -> bool:
    return not isinstance(value, Undefined)
