"""One sentence a contrast: what may be said of it, by rules that docs/explanation/estimands.md states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recurve_eval.analysis.format import Data, defined, p_is, plural, points

DECLARED = ("primary", "declared")


def with_verdicts(contrasts: Sequence[Data], alpha: float) -> list[dict[str, Any]]:
    """Contrasts (plain data) with ``verdict``: ``finding``, ``noise`` and the sentence ``text``.

    ``finding`` is ``less_bad`` or ``more_bad`` for a declared contrast alone; an exploratory one at most
    ``suggests_less`` or ``suggests_more``. ``noise`` is where the change stands to the noise floor.
    """
    return [{**c, "verdict": _verdict(c, floor_of(c, contrasts), alpha)} for c in contrasts]


def floor_of(c: Data, contrasts: Sequence[Data]) -> Data | None:
    """The noise floor of a contrast's stratum, if it was measured."""
    found = (n for n in contrasts if n["role"] == "noise_floor" and n["stratum"] == c["stratum"])
    return next((n for n in found if defined(_effect(n)["value"])), None)


def counts(c: Data) -> str:
    """``41/164 -> 7/164``: cells shipped bad among the matched pairs with both verdicts."""
    t, n = c["endpoints"]["ship_bad"]["table"], c["scored_pairs"]
    return f"{t['both'] + t['first_only']}/{n} -> {t['both'] + t['second_only']}/{n}"


def figures_of(c: Data) -> str:
    """``(-20.7 points [-27.5, -14.6], Holm p < 0.0001)``."""
    kind = "Holm " if c["role"] in DECLARED else "unadjusted "
    return f"({points(_effect(c))}, {kind}{p_is(_p(c))})"


def _effect(c: Data) -> Data:
    effect: Data = c["endpoints"]["ship_bad"]["effect"]
    return effect


def _p(c: Data) -> Any:
    test = c["endpoints"]["ship_bad"]["test"]
    if not defined(test):
        return test
    return c["p_holm"] if c["role"] in DECLARED else test["p_value"]


def _verdict(c: Data, floor: Data | None, alpha: float) -> dict[str, str]:
    effect, p, noise = _effect(c)["value"], _p(c), _noise(c, floor)
    unknown = next((v["undefined"] for v in (effect, p) if not defined(v)), None)
    if unknown is not None:
        return {"finding": "undetermined", "noise": noise, "text": f"No verdict: {unknown}"}
    if c["role"] == "noise_floor":
        return {"noise": noise, **_itself(c, p <= alpha)}
    why = _why_not(c, floor, noise, alpha)
    if why:
        start = "No effect shown" if c["role"] in DECLARED else "Exploratory: no effect shown"
        return {"finding": "no_effect_shown", "noise": noise, "text": f"{start}: {why}"}
    return {"noise": noise, **_found(c, noise)}


def _found(c: Data, noise: str) -> dict[str, str]:
    less = _effect(c)["value"] < 0
    word = "less" if less else "more"
    unmeasured = "; the noise floor was not measured" if noise == "not_measured" else ""
    numbers = f"{counts(c)} {figures_of(c)}{unmeasured}"
    names = f"{word} bad work than {c['baseline']}"
    if c["role"] in DECLARED:
        return {"finding": f"{word}_bad", "text": f"{c['treatment']} ships {names}: {numbers}"}
    text = f"Exploratory, not confirmed: {c['treatment']} shipped {names}, {numbers}"
    return {"finding": f"suggests_{word}", "text": text}


def _itself(c: Data, differs: bool) -> dict[str, str]:
    numbers = f"{counts(c)} {figures_of(c)}"
    if not differs:
        return {"finding": "no_effect_shown", "text": f"The control is not shown to differ from itself: {numbers}"}
    word = "less" if _effect(c)["value"] < 0 else "more"
    text = f"The control differs from itself: {numbers}; by chance, or by something besides the gate"
    return {"finding": f"suggests_{word}", "text": text}


def _noise(c: Data, floor: Data | None) -> str:
    """Whether the change exceeds all that the floor's interval holds, whichever its sign."""
    if c["role"] == "noise_floor":
        return "itself"
    if floor is None or not defined(_effect(c)["value"]):
        return "not_measured"
    return "larger" if abs(_effect(c)["value"]) > _reach(floor) else "not_larger"


def _reach(floor: Data) -> float:
    effect = _effect(floor)
    ends = [effect["value"]]
    if defined(effect["interval"]):
        ends += [effect["interval"]["low"], effect["interval"]["high"]]
    return float(max(abs(end) for end in ends))


def _why_not(c: Data, floor: Data | None, noise: str, alpha: float) -> str:
    """Why the change may not be called an effect; empty if it may."""
    value, p = _effect(c)["value"], _p(c)
    label = f"{'Holm' if c['role'] in DECLARED else 'unadjusted'} {p_is(p)}"
    if value == 0:
        return "nothing changed on balance"
    if p > alpha:
        return _within(c, floor) if noise == "not_larger" else f"{label} is above {alpha:g}"
    if noise == "not_larger":
        return f"{label}, but {_within(c, floor)}"
    bounds: Mapping[str, Any] = c["endpoints"]["ship_bad"]["bounds"]
    if bounds["unscored"] and not (bounds["high"] < 0 or bounds["low"] > 0):
        return f"{label}, but {plural(bounds['unscored'], 'pair')} without both verdicts could undo it"
    return ""


def _within(c: Data, floor: Data | None) -> str:
    if floor is None:
        return ""
    effect = _effect(floor)
    mine, its = abs(_effect(c)["value"]), abs(effect["value"])
    if mine <= its:
        return f"the change is {'as large as' if mine == its else 'smaller than'} the noise floor"
    return "the change is no larger than the ends of the noise floor's interval"
