"""How far a gate's GREEN has been tested, derived from what ran and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TIERS = (
    "self_probe",
    "trap_hardened",
    "fuzz_measured",
    "adversary_reviewed",
    "adversary_cross_model",
    "differential_checked_model",
    "differential_checked_mechanical",
)


def tier_of(gate: Mapping[str, Any]) -> str | None:
    """The highest tier that a row's ``gate`` section earns; None where no claim went GREEN.

    A tier presupposes an admitted ledger and a GREEN outcome. ``hardening``, ``adversary`` and ``governor`` are what
    those components recorded of the pass that ended in that outcome.
    """
    admission = gate.get("admission") or {}
    if gate.get("outcome") != "GREEN" or not gate.get("claims") or not admission.get("admitted"):
        return None
    earned = {"self_probe"}
    if admission.get("red_first"):
        earned.add("trap_hardened")
    hardening, adversary = gate.get("hardening") or {}, gate.get("adversary") or {}
    if hardening.get("measured") and hardening.get("passed"):
        earned.add("fuzz_measured")
        kinds = hardening.get("references") or []
        earned.update(f"differential_checked_{kind}" for kind in kinds)
    if adversary.get("completed"):
        earned.add("adversary_cross_model" if adversary.get("cross_model") else "adversary_reviewed")
    return max(earned, key=TIERS.index)
