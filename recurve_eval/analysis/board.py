"""A summary in the words of an experiment tracker: metrics to chart, tags to read in a table, a description.

One note for the study and one for each arm in each stratum, so that a tracker's own table and comparison answer
the question. Shares stay shares (0..1); a tag spells the same number with its raw fraction and interval. Metrics
are named so that ``fdr`` comes first in the alphabet, which is what a tracker charts unasked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from recurve_eval.analysis.format import Data, Labels, defined, p_is, plural, points, rate, times
from recurve_eval.analysis.markdown import headline

FIRST = ("finding", "against", "fdr", "change of fdr", "price")  # the trade, before what it rests on
LONGEST = 4900  # characters of a description that every tracker keeps
RATES = (("fdr", "fdr"), ("p_ship_bad", "ship_bad"), ("yield", "yield_good"), ("good_withheld", "false_rejection"),
         ("oracle_pass", "oracle_pass"))  # fmt: skip
MEANS = (("tokens_mean", "tokens"), ("usd_mean", "cost_usd"), ("steps_mean", "steps"), ("wall_s_mean", "wall_s"))
PRICES = (("vs_baseline_tokens", "tokens"), ("vs_baseline_usd", "cost_usd"), ("vs_baseline_wall", "wall_s"))


@dataclass
class Note:
    """What one run of a tracker is to say."""

    name: str
    text: str
    metrics: dict[str, float] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


def study_note(data: Data, markdown: str) -> Note:
    """The note of the study's own run: the answer first, since a tracker folds what follows, then the first screen."""
    study = data["study"]
    labels = Labels(study)
    chosen = [c for c in data["contrasts"] if c["role"] == "primary"]
    chosen = chosen or [c for c in data["contrasts"] if c["role"] != "noise_floor"][:1]
    answers = [_answer(c, labels) for c in chosen] or ["one arm: nothing to compare"]
    simulated = "" if study["simulated"] == "none" else "Simulated agents. "
    note = Note(study["name"], fitting("\n\n".join([simulated + "; ".join(answers) + ".", headline(markdown)])))
    unscored = sum(a["n"] - a["scored"] for a in data["arms"])
    note.metrics = {"n_cells": study["cells"], "n_tasks": study["tasks"], "n_unscored": unscored}
    for c in chosen:
        start = "/".join([*labels.shown(c["stratum"]), c["treatment"]])
        note.metrics |= {_key(f"{start}/{k}"): v for k, v in _contrast_metrics(c).items()}
    note.tags["answer"] = "; ".join(answers)
    findings = dict.fromkeys(str(c["verdict"]["finding"]).replace("_", " ") for c in chosen)
    note.tags["finding"] = " / ".join(findings) or "nothing to compare"
    return note


def arm_notes(data: Data) -> list[Note]:
    """A note for each arm in each stratum, in the order of the summary."""
    labels = Labels(data["study"])
    return [_arm_note(a, _against_baseline(a, data["contrasts"]), labels) for a in data["arms"]]


def _arm_note(a: Data, c: Data | None, labels: Labels) -> Note:
    where = ", ".join(labels.shown(a["stratum"]))
    fdr = f"{a['fdr']['count']}/{a['fdr']['n']}"
    note = Note(f"{_key(a['arm'])} FDR {fdr}" + (f", {where}" if where else ""), "")  # a table cuts the end off
    note.params = {"arm": a["arm"], **{k: str(v) for k, v in a["stratum"].items()}}
    note.params |= dict(zip(labels.varying, labels.shown(a["stratum"]), strict=True))
    note.metrics = {"n_cells": a["n"], "n_scored": a["scored"], "n_unscored": a["n"] - a["scored"],
                    "n_shipped_bad": a["outcomes"]["shipped_bad"], "n_declared": a["declared"]}  # fmt: skip
    told = _contrast_tags(c) if c else {"answer": "the baseline", "finding": "baseline"}
    for name, key in RATES:
        told[name.replace("_", " ")] = rate(a[key])
        note.metrics |= with_interval(name, a[key])
    note.tags = {k: told[k] for k in (*FIRST, *told) if k in told}
    for name, key in MEANS:
        found = a["distributions"][key]["all"]
        if defined(found["mean"]) and not found["unknown"]:
            note.metrics[name] = found["mean"]
    note.metrics |= _contrast_metrics(c) if c else {}
    note.text = "\n".join(_arm_text(a, c, where))
    return note


def _arm_text(a: Data, c: Data | None, where: str) -> Iterator[str]:
    yield f"**Arm {a['arm']}**" + (f", {where}" if where else "") + f": {plural(a['n'], 'cell')}"
    yield ""
    if c is not None:
        yield f"{c['verdict']['text']}."
        yield ""
    yield "| P(ship bad) | FDR | yield | good withheld |"
    yield "|---|---|---|---|"
    yield f"| {' | '.join(rate(a[k]) for k in ('ship_bad', 'fdr', 'yield_good', 'false_rejection'))} |"


def _against_baseline(a: Data, contrasts: Sequence[Data]) -> Data | None:
    """The contrast that says most of an arm: declared before exploratory."""
    found = [c for c in contrasts if c["treatment"] == a["arm"] and c["stratum"] == a["stratum"]]
    return min(
        found, key=lambda c: ("primary", "declared", "noise_floor", "exploratory").index(c["role"]), default=None
    )


def _contrast_metrics(c: Data) -> dict[str, float]:
    end = c["endpoints"]["ship_bad"]
    found = with_interval("vs_baseline_p_ship_bad", end["effect"])
    found |= with_interval("vs_baseline_fdr", c["fdr"]["effect"])
    for name, key in PRICES:
        found |= with_interval(name, c["price"]["ratios"][key]["ratio"])
    if defined(end["test"]):
        found["vs_baseline_p"] = end["test"]["p_value"]
    if defined(c["p_holm"]):
        found["vs_baseline_p_holm"] = c["p_holm"]
    return found


def _contrast_tags(c: Data) -> dict[str, str]:
    effect, fdr = c["endpoints"]["ship_bad"]["effect"], c["fdr"]["effect"]
    tokens, wall = (c["price"]["ratios"][key]["ratio"] for key in ("tokens", "wall_s"))
    return {
        "answer": c["verdict"]["text"],
        "finding": str(c["verdict"]["finding"]).replace("_", " "),
        "against": c["baseline"],
        "role": c["role"],
        "change of p ship bad": points(effect),
        "change of fdr": points(fdr),
        "p": f"Holm {p_is(c['p_holm'])}" if defined(c["p_holm"]) else p_is(c["endpoints"]["ship_bad"]["test"]),
        "price": f"tokens {times(tokens)}, wall-clock {times(wall)}",
    }


def _answer(c: Data, labels: Labels) -> str:
    where = ", ".join(labels.shown(c["stratum"]))
    return f"{where}: {c['verdict']['text']}" if where else str(c["verdict"]["text"])


def with_interval(name: str, found: Data) -> dict[str, float]:
    """A number and the ends of its interval as metrics, as far as they are defined."""
    if not defined(found["value"]):
        return {}
    if not defined(found["interval"]):
        return {name: found["value"]}
    return {name: found["value"], f"{name}_low": found["interval"]["low"], f"{name}_high": found["interval"]["high"]}


def fitting(text: str) -> str:
    """Whole lines of a text, as many as fit."""
    if len(text) <= LONGEST:
        return text
    cut = text[: LONGEST - 60]
    return cut[: cut.rfind("\n")] + "\n\n(cut; the whole stands in analysis/summary.md)"


def _key(name: str) -> str:
    """A metric's name with the characters that trackers allow."""
    return "".join(ch if ch.isalnum() or ch in "_-. /" else "_" for ch in name)[:250]
