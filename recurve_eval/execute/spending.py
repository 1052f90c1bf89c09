"""The spend gate: what must be proven and authorised before a paid cell runs. Nothing here costs anything."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recurve_eval.app import Study
from recurve_eval.axes import Point, reaching
from recurve_eval.calibration.document import Settings
from recurve_eval.calibration.judge import complaint
from recurve_eval.calibration.store import Store
from recurve_eval.calibration.subject import Subject
from recurve_eval.cell import Adapters
from recurve_eval.commands import command
from recurve_eval.errors import Drift, Refused, SpendRefused
from recurve_eval.plan import Condition
from recurve_eval.ports import Agent, Metered
from recurve_eval.study import reviewing

UNPROTECTED = "unprotected"


def gate_spending(study: Study) -> None:
    """Refuse paid cells whose ceiling is unknown or not authorised, whose walls are none, or whose oracle is unproven.

    Raises SpendRefused naming what is missing and the command that supplies it.
    """
    price, spend = study.plan.price, study.config["spend"]
    if not price.paid_cells:
        if spend["gate"] == "warn":
            _warn(study)
        return
    if price.ceiling_usd is None:
        raise SpendRefused(f"the cost ceiling of this plan is unknown: {price.why_unknown}")
    if spend["max_usd"] is None:
        raise SpendRefused(
            f"{price.paid_cells} paid cells may cost up to ${price.ceiling_usd:.2f} and nothing authorises it: "
            "set spend.max_usd"
        )
    if price.ceiling_usd > spend["max_usd"]:
        raise SpendRefused(
            f"{price.paid_cells} paid cells may cost up to ${price.ceiling_usd:.2f} and spend.max_usd authorises "
            f"${spend['max_usd']:.2f}: raise it, lower budget.usd, or select fewer tasks"
        )
    _refuse_unknowable(study)
    if not spend["allow_unprotected"]:
        _refuse_unprotected(study)
    for why, remedy in unproven(study, paid=True):
        raise SpendRefused(
            f"{price.paid_cells} paid cells need an oracle that has proven itself in both directions, and {why}. "
            f"Run: {remedy}"
        )


def _refuse_unknowable(study: Study) -> None:
    """A ceiling means nothing for an agent whose cost nobody will ever know."""
    for condition, parts in zip(study.plan.conditions, study.adapters, strict=True):
        for who, agent, model in _paid(condition, parts):
            told = agent.meters() if isinstance(agent, Metered) else "nothing"
            if told == "nothing":
                raise SpendRefused(
                    f"{who} is paid and does not say what it used, so no ceiling can hold it: let it report tokens or "
                    "cost and say so (its `reports`: tokens or cost), or say `paid: false` where it is free"
                )
            if told == "tokens" and condition.rates(model) is None:
                raise SpendRefused(
                    f"{who} reports tokens, and the price list '{condition.config['prices']['name']}' has no "
                    f"line for model '{model}': add one (conf/prices), or let it report its cost"
                )


def _paid(condition: Condition, parts: Adapters) -> Iterator[tuple[str, Agent, str]]:
    """Each paid agent of a condition, its reviewers among them: as a message names it, itself, the model asked for."""
    if parts.agent.paid:
        yield f"agent '{condition.labels.agent}'", parts.agent, condition.config["model"]["id"]
    for component in reviewing(parts):
        if component.paid:
            yield f"reviewer '{component.agent.name}'", component.agent, getattr(component, "model", "")


def _refuse_unprotected(study: Study) -> None:
    for condition, parts, env in zip(study.plan.conditions, study.adapters, study.envs, strict=True):
        if not condition.paid:
            continue
        bare = []
        if str(parts.sandbox.attestation().get("agent_sandbox")) == UNPROTECTED:
            bare.append(f"sandbox '{parts.sandbox.name}' does not hold the agent")
        if env.isolation.startswith(UNPROTECTED):
            bare.append(f"oracle '{parts.oracle.name}' does not hold the submission")
        if bare:
            raise SpendRefused(
                f"paid cells would run unprotected: {' and '.join(bare)}. Choose bubblewrap or docker, "
                "or say spend.allow_unprotected=true"
            )


def probe(rows: Iterable[Mapping[str, Any]], study: Study) -> None:
    """Hold a study of the harness itself to ``spend.probe_tokens``: that its token budget was met, and how closely.

    A cell that never came to its budget has shown nothing. Raises Refused naming the first cell that fails.
    """
    allowed = study.config["spend"]["probe_tokens"]
    if allowed is None:
        return
    budgets = {c.labels.budget: c.config["budget"]["tokens"] for c in study.plan.conditions}
    most = 0
    for row in rows:
        bound, used = budgets[row["identity"]["budget"]], _tokens(row["usage"])
        reason = row["declaration"]["stop_reason"]
        where = f"cell {row['identity']['cell_id']} ({row['identity']['task_id']}, {row['identity']['arm']})"
        if bound is None or used is None or reason != "budget_tokens" or used < bound:
            raise Refused(f"{where} did not end on its budget of {bound} tokens: it used {used} and ended by {reason}")
        if used > bound + allowed:
            raise Refused(f"{where} used {used} tokens under a budget of {bound}: beyond it by more than {allowed}")
        most = max(most, used - bound)
    print(f"the token budget held in every cell: at most {most} tokens beyond it, {allowed} allowed", file=sys.stderr)  # noqa: T201


def _tokens(usage: Mapping[str, Any]) -> int | None:
    known = [usage["tokens_in"], usage["tokens_out"]]
    return None if None in known else sum(known)


def _warn(study: Study) -> None:
    try:
        found = list(unproven(study))
    except Drift as error:
        found = [(str(error), "")]
    for why, remedy in found:
        print(f"note: the oracle is not proven: {why}." + (f" Run: {remedy}" if remedy else ""), file=sys.stderr)  # noqa: T201


def unproven(study: Study, paid: bool | None = None) -> Iterable[tuple[str, str]]:
    """Each oracle and benchmark without a calibration that speaks for it: why, and the command to run.

    Raises Drift where a calibration's file was altered.
    """
    settings = settings_of(study.config["calibrate"])
    for subject, point in study.subjects(paid):
        why = complaint(subject, settings, store_of(study.config, subject))
        if why:
            yield f"{subject.name} on oracle {subject.oracle.name}: {why}", calibrate_command(study, point)


def store_of(config: Any, subject: Subject) -> Store:
    return Store(Path(config["run"]["outputs"]), subject.name)


def settings_of(node: Any) -> Settings:
    return Settings(**{k: v for k, v in node.items() if k != "exclusions"})


def calibrate_command(study: Study, point: Point) -> str:
    """The command that calibrates for a point: its overrides as far as benchmark and oracle hang on them."""
    config = study.plan.conditions[study.points.index(point)].config
    kept = reaching(point.overrides, config, ("task", "oracle", "calibrate"))
    return command("calibrate", *kept, *(o for o in point.overrides if o.startswith("run.outputs=")), own=study.own)
