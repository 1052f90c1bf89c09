"""Which contrasts the plan declared, and which are therefore exploratory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recurve_eval.analysis.contrast import Contrast
from recurve_eval.analysis.records import natural
from recurve_eval.errors import ConfigError
from recurve_eval.stats import Test, Undefined, holm

Arms = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Declared:
    """The plan's contrasts as (baseline, treatment)."""

    primary: Arms | None
    contrasts: tuple[Arms, ...]
    noise_floor: Arms | None

    def roles(self, arms: Sequence[str]) -> list[tuple[Arms, str]]:
        """Every contrast to report among the arms at hand, with its role.

        Declared contrasts come first, in the plan's order; every other arm against the primary's baseline (or
        the first arm) follows as exploratory.
        """
        out: dict[Arms, str] = {}
        if self.primary:
            out[self.primary] = "primary"
        for arms_of in self.contrasts:
            out.setdefault(arms_of, "declared")
        if self.noise_floor:
            out.setdefault(self.noise_floor, "noise_floor")
        present = {a: r for a, r in out.items() if a[0] in arms and a[1] in arms}
        ordered = sorted(arms, key=natural)
        baseline = self.primary[0] if self.primary and self.primary[0] in arms else ordered[0]
        for arm in ordered:
            if arm != baseline:
                present.setdefault((baseline, arm), "exploratory")
        return list(present.items())

    def absent(self, arms: Sequence[str]) -> list[str]:
        """Declared contrasts that cannot be made because an arm has no rows."""
        wanted = [self.primary, *self.contrasts, self.noise_floor]
        return [f"{a[1]} against {a[0]}" for a in dict.fromkeys(wanted) if a and not {*a} <= {*arms}]


def declared_of(plan: Mapping[str, Any]) -> Declared:
    """The declared contrasts of a plan mapping (``plan["study"]``).

    Raises
    ------
    ConfigError
        A contrast without a baseline or treatment, or of an arm with itself.
    """
    study = plan.get("study") or {}
    contrasts = tuple(_arms(c, "study.contrasts") for c in study.get("contrasts") or ())
    primary, noise = study.get("primary"), study.get("noise_floor")
    return Declared(
        _arms(primary, "study.primary") if primary else None,
        contrasts,
        _arms(noise, "study.noise_floor") if noise else None,
    )


def _arms(contrast: Mapping[str, Any], where: str) -> Arms:
    try:
        baseline, treatment = str(contrast["baseline"]), str(contrast["treatment"])
    except (KeyError, TypeError):
        raise ConfigError(f"{where} needs a baseline and a treatment; got {contrast!r}") from None
    if baseline == treatment:
        raise ConfigError(f"{where} compares arm {baseline} with itself; rerun the arm under another name, such as A0b")
    return baseline, treatment


def with_holm(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Set ``p_holm`` on the declared contrasts of all strata: one family, endpoint P(ship bad)."""
    family = {str(i): c for i, c in enumerate(contrasts) if c.role in ("primary", "declared")}
    p_values = {i: c.endpoints["ship_bad"].test.p_value for i, c in family.items() if _tested(c)}  # type: ignore[union-attr]
    adjusted: Mapping[str, float] = holm(p_values)
    out = []
    for i, c in enumerate(contrasts):
        if str(i) in adjusted:
            c = replace(c, p_holm=adjusted[str(i)])
        elif str(i) in family:
            c = replace(c, p_holm=Undefined("it has no p-value of its own"))
        out.append(c)
    return out


def _tested(c: Contrast) -> bool:
    return isinstance(c.endpoints["ship_bad"].test, Test)
