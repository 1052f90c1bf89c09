"""What was run and under which conditions, and what a reader must know before any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recurve_eval.analysis.contrast import Contrast
from recurve_eval.analysis.records import Record, natural
from recurve_eval.analysis.study import Arms, Declared
from recurve_eval.stats import Test

UNPROTECTED = "unprotected"
LACKS = ("no seccomp", "no user id of its own", "no PID namespace of its own")


def study_of(records: Sequence[Record], plan: Mapping[str, Any], declared: Declared) -> dict[str, Any]:
    """The ``study`` of summary.json."""
    simulated = {r.stratum.model for r in records if r.simulated}
    real = {r.stratum.model for r in records if not r.simulated}
    name = (plan.get("study") or {}).get("name") or ", ".join(sorted({r.experiment for r in records}))

    def contrast(arms: Arms | None) -> dict[str, str] | None:
        return {"baseline": arms[0], "treatment": arms[1]} if arms else None

    return {
        "name": name,
        "plan_hashes": sorted({r.plan_hash for r in records}),
        "cells": len(records),
        "tasks": len({r.task for r in records}),
        "benchmarks": sorted({r.stratum.benchmark for r in records}),
        "models": sorted({r.stratum.model for r in records}),
        "models_served": _served(records),
        "agents": sorted({r.stratum.agent for r in records}),
        "budgets": sorted({r.stratum.budget for r in records}),
        "arms": sorted({r.arm for r in records}, key=natural),
        "arm_descriptions": _descriptions(records),
        "seeds": sorted({r.seed for r in records}),
        "simulated": "all" if not real else "some" if simulated else "none",
        "simulated_models": sorted(simulated),
        "agent_sandboxes": _counted(r.agent_sandbox for r in records),
        "oracle_isolations": _counted(r.oracle_isolation for r in records),
        "primary": contrast(declared.primary),
        "contrasts": [contrast(c) for c in declared.contrasts],
        "noise_floor": contrast(declared.noise_floor),
    }


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _served(records: Sequence[Record]) -> dict[str, list[dict[str, Any]]]:
    """By model label: which model answered, in how many cells; ``null`` where no cell's record says."""
    found: dict[str, Counter[str | None]] = {}
    for r in records:
        found.setdefault(r.stratum.model, Counter())[r.served] += 1
    return {
        model: [{"served": s, "cells": n} for s, n in sorted(c.items(), key=lambda i: (i[0] is None, i[0] or ""))]
        for model, c in sorted(found.items())
    }


def _descriptions(records: Sequence[Record]) -> dict[str, str]:
    """What each arm's configuration says of it; several plans may say several things."""
    found: dict[str, dict[str, None]] = {}
    for r in sorted(records, key=lambda r: (natural(r.arm), r.setup.description)):
        if r.setup.description:
            found.setdefault(r.arm, {})[r.setup.description] = None
    return {arm: " / ".join(said) for arm, said in found.items()}


def cautions(records: Sequence[Record]) -> list[str]:
    """Reasons not to take the numbers for more than they are; printed in bold above them."""
    return [c for c in (_simulated(records), _exposed(records), _weaker(records), _unscored(records)) if c]


def _simulated(records: Sequence[Record]) -> str:
    models = sorted({r.stratum.model for r in records if r.simulated})
    if all(r.simulated for r in records):
        return "The agents of this study are simulated: nothing here is evidence about a real model."
    return f"Simulated, and no evidence about a real model: {', '.join(models)}." if models else ""


def _exposed(records: Sequence[Record]) -> str:
    agents = sum(r.agent_sandbox.startswith(UNPROTECTED) for r in records)
    oracles = sum(r.oracle_isolation.startswith(UNPROTECTED) for r in records)
    parts = []
    if agents:
        parts.append(f"the agent ran without a sandbox in {_share(agents, records)}")
    if oracles:
        parts.append(f"the oracle graded without isolation in {_share(oracles, records)}")
    if not parts:
        return ""
    return f"Unprotected: {' and '.join(parts)}; the work may have reached what graded it."


def _share(n: int, records: Sequence[Record]) -> str:
    return f"all {n} cells" if n == len(records) else f"{n} of {len(records)} cells"


def _weaker(records: Sequence[Record]) -> str:
    lacking = {i: [w for w in LACKS if w in i] for i in {r.oracle_isolation for r in records}}
    lacking = {i: w for i, w in lacking.items() if w and not i.startswith(UNPROTECTED)}
    if not lacking:
        return ""
    cells = sum(r.oracle_isolation in lacking for r in records)
    what = ", ".join(w for w in LACKS if any(w in found for found in lacking.values()))
    return f"The oracle's isolation was weaker than the container's in {_share(cells, records)}: {what}."


def _unscored(records: Sequence[Record]) -> str:
    by_arm = Counter(r.arm for r in records if not r.scored)
    if not by_arm:
        return ""
    arms = ", ".join(f"{arm} {by_arm[arm]}" for arm in sorted(by_arm, key=natural))
    return (
        f"Unscored: {sum(by_arm.values())} of {len(records)} cells have no verdict ({arms}); they are listed and "
        "bounded, not counted."
    )


def notes(records: Sequence[Record], contrasts: Sequence[Contrast], declared: Declared) -> list[str]:
    """What else a reader must know before any number; each a full sentence."""
    arms = sorted({r.arm for r in records}, key=natural)
    found = [f"The declared contrast {c} cannot be made: an arm has no rows." for c in declared.absent(arms)]
    if len({r.task for r in records}) == 1:
        found.append("There is one task. One task supports no effect size: only counts are reported.")
    elif any(c.detectable.refused and c.role in ("primary", "declared") for c in contrasts):
        worst = next(c.detectable.refused for c in contrasts if c.detectable.refused)
        found.append(f"A declared contrast cannot reach its alpha: {worst}.")
    lost = len({(c.stratum, arm, key) for c in contrasts for arm, keys in c.missing.items() for key in keys})
    if lost:
        found.append(f"{lost} cells are missing as partners in the contrasts below; they are listed with each.")
    tampered = sum(r.verdict == "tampered" for r in records)
    if tampered:
        found.append(f"{tampered} submissions tampered with their grading and count as bad work.")
    return [*found, *_several_served(records), *_undeclared(arms, contrasts, declared)]


def _several_served(records: Sequence[Record]) -> list[str]:
    """Within a stratum alone: between strata nothing is compared, so that a difference there misleads nobody."""
    served: dict[tuple[str, ...], set[str]] = {}
    for r in records:
        if r.served:
            served.setdefault(tuple(r.stratum), set()).add(r.served)
    found = dict.fromkeys((at[1], tuple(sorted(names))) for at, names in served.items() if len(names) > 1)
    return [
        f"Model {model} was served by {' and '.join(names)}: a difference between arms may be theirs."
        for model, names in found
    ]


def _undeclared(arms: Sequence[str], contrasts: Sequence[Contrast], declared: Declared) -> list[str]:
    found = []
    control = declared.primary[0] if declared.primary else arms[0]
    repeat = f"{control}b"
    gates = [a for a in arms if a not in (control, repeat)]
    if declared.primary is None and gates:
        how = f"study.primary={{baseline: {control}, treatment: {gates[0]}}}"
        found.append(f"Every contrast is exploratory: no primary was declared. To confirm one, plan a run with {how}.")
    floors = [c for c in contrasts if c.role == "noise_floor"]
    if contrasts and not floors:
        add = "" if repeat in arms else f"arm {repeat} added and "
        how = f"{add}study.noise_floor={{baseline: {control}, treatment: {repeat}}}"
        found.append(
            f"The noise floor was not measured: no control ran against itself. To measure it, plan a run with {how}."
        )
    for c in floors:
        test = c.endpoints["ship_bad"].test
        if isinstance(test, Test) and test.p_value <= c.detectable.alpha:
            found.append(
                f"{c.treatment} differs from {c.baseline} ({', '.join(c.stratum)}), though both are the control. "
                f"Chance alone does that at most once in {1 / c.detectable.alpha:.0f} studies: until it is explained, "
                "trust no effect there."
            )
    return list(dict.fromkeys(found))
