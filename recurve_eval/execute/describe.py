"""A plan in words: cells, order, pins, the cost ceiling, and the smallest effect it can see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from recurve_eval.app import Study
from recurve_eval.arms import arm_names, arm_of
from recurve_eval.errors import Drift
from recurve_eval.execute.spending import unproven
from recurve_eval.ledger import read_rows
from recurve_eval.plan import Plan


def plan_text(study: Study) -> str:
    """What ``recurve-eval plan`` prints."""
    plan = study.plan
    lines = [
        f"study        {plan.experiment}",
        f"plan hash    {plan.hash}",
        f"directory    {study.run_dir}",
        f"cells        {len(plan)} = {_shape(plan)}",
        *_axes(plan),
        *_compositions(plan),
        *_open_boundaries(plan),
        f"datasets     {_distinct(str(c.pins['benchmark'].get('dataset_hash')) for c in plan.conditions)}",
        *_excluded(plan),
        f"oracle       {_distinct(f'{e.backend} {e.hash[:16]} ({e.isolation})' for e in study.envs)}",
        *_calibration(study),
        f"cost         {_cost(plan)}",
        f"sealed       {_sealed(study)}",
    ]
    if any(c.simulated for c in plan.conditions):
        lines.append("note         simulated agents: the numbers describe the scripts, not any model")
    return "\n".join([*lines, *_question(plan)])


def _excluded(plan: Plan) -> Iterable[str]:
    out = {f"{c.labels.benchmark}: {t}": why for c in plan.conditions for t, why in c.excluded.items()}
    for number, (task, why) in enumerate(out.items()):
        yield f"{'excluded' if number == 0 else '':<12} {task}: {why}"


def _calibration(study: Study) -> Iterable[str]:
    """Whether each oracle of the plan has proven itself on the plan's tasks, and the command where it has not."""
    try:
        found = list(unproven(study))
    except Drift as error:
        return [f"calibration  {error}"]
    if not found:
        return ["calibration  current"]
    return [line for why, command in found for line in (f"calibration  {why}", f"             run: {command}")]


def _shape(plan: Plan) -> str:
    tasks = Counter(len(c.task_ids) for c in plan.conditions)
    return " + ".join(f"{n} conditions x {t} tasks" for t, n in sorted(tasks.items()))


def _axes(plan: Plan) -> Iterable[str]:
    for axis in ("benchmark", "model", "agent", "arm", "budget", "seed"):
        values = dict.fromkeys(str(getattr(c.labels, axis)) for c in plan.conditions)
        yield f"{axis:<12} {', '.join(values)}"


def _open_boundaries(plan: Plan) -> Iterable[str]:
    arms = dict.fromkeys(c.labels.arm for c in plan.conditions if _is_open(c.config["gate"]["boundary"]))
    yield from (f"{'boundary':<12} OPEN in {arm}: the agent may rewrite its claims after admission" for arm in arms)


def _is_open(node: Mapping[str, Any] | None) -> bool:
    return node is not None and str(node["_target_"]).endswith(".OpenBoundary")


def _compositions(plan: Plan) -> Iterable[str]:
    """What an arm really is, where its composition was changed on the command line."""
    seen: dict[str, None] = {}
    for c in plan.conditions:
        name, found = str(c.config["arm"]["name"]), arm_of(c.config)
        if name in arm_names() and found != name:
            what = f"is {found}" if found else "is none of the shipped arms"
            seen[f"{'composition':<12} {c.labels.arm}: as composed here it {what}"] = None
    return seen


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _cost(plan: Plan) -> str:
    price = plan.price
    if not price.paid_cells:
        return "$0.00: no agent of this plan is paid"
    if price.ceiling_usd is None:
        return f"unknown: {price.why_unknown}"
    return f"at most ${price.ceiling_usd:.2f} ({price.paid_cells} paid cells at their budget's ceiling)"


def _sealed(study: Study) -> str:
    if not study.run_dir.exists():
        return "0 (the directory does not exist yet)"
    return f"{sum(1 for _ in read_rows(study.run_dir, study.plan.hash))} of {len(study.plan)}"


def _question(plan: Plan) -> list[str]:
    primary = plan.study["primary"]
    if primary is None:
        return ["primary      none declared: every contrast will be labelled exploratory"]
    lines = [f"primary      {primary['treatment']} against {primary['baseline']}, fixed by the plan hash"]
    arms = {c.labels.arm for c in plan.conditions}
    absent = [a for a in primary.values() if a not in arms]
    if absent:
        return [*lines, f"             not possible here: no condition has arm {', '.join(absent)}"]
    return [*lines, *_power(plan)]


def _power(plan: Plan) -> list[str]:
    from recurve_eval.stats import Undefined, smallest_detectable_effect

    tasks, seeds = _design(plan)
    effect = smallest_detectable_effect(tasks, seeds=seeds, alpha=plan.analysis["alpha"], power=plan.analysis["power"])
    if effect.refused:
        return [f"sees         nothing: {effect.refused}"]
    seen = (
        f"at the earliest {effect.delta_one_way:.3f} (all discordant pairs one way)"
        if not isinstance(effect.delta_one_way, Undefined)
        else f"nothing with power {effect.power:g}: {effect.delta_one_way.reason}"
    )
    usual = (
        ""
        if isinstance(effect.delta, Undefined)
        else f"; {effect.delta:.3f} if {effect.discordance:.0%} of pairs differ"
    )
    return [
        f"sees         a difference of {seen}{usual},",
        f"             alpha {effect.alpha:g}, power {effect.power:g}, {tasks} tasks x {seeds} seeds, for each model",
    ]


def _design(plan: Plan) -> tuple[int, int]:
    return min(len(c.task_ids) for c in plan.conditions), len({c.labels.seed for c in plan.conditions})


def refusal(plan: Plan) -> str | None:
    """Why the declared question cannot be answered by this design whatever happens, or None."""
    if plan.study["primary"] is None:
        return None
    from recurve_eval.stats import fewest_discordant

    tasks, _ = _design(plan)
    alpha = float(plan.analysis["alpha"])
    needed = fewest_discordant(alpha)
    if tasks >= needed:
        return None
    return (
        f"{tasks} tasks cannot reach alpha {alpha:g} even with perfect separation: at least {needed} are needed. "
        "Select more tasks, or declare no primary contrast (study.primary=null)"
    )
