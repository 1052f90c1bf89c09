"""The gate by itself: no study, no sandbox of ours, nothing but a workspace with claims.

Probes run as plain processes in private copies; the walls are those around the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.domain import GateVerdict
from recurve_eval.gates.ledger import Claim, LedgerError, missing_parts, read_ledger
from recurve_eval.gates.places import Unjudgeable, local_place
from recurve_eval.gates.probes import Case, Judgement, Limits, judge

CasesOf = Callable[[tuple[Claim, ...]], list[Case]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of a workspace; ``lines`` has one line for each claim that was looked at."""

    verdict: GateVerdict
    message: str
    lines: tuple[str, ...] = ()


def check_workspace(workspace: Path, limits: Limits, *, traps: bool = True, in_cell: bool = False) -> Verdict:
    """GREEN when every probe is GREEN on the work and, with ``traps``, RED on each of its traps."""

    def cases(claims: tuple[Claim, ...]) -> list[Case]:
        on_traps = [Case(c, t, GateVerdict.RED) for c in claims for t in c.traps] if traps else []
        return [Case(c) for c in claims] + on_traps

    return _judged(workspace, limits, cases, traps, in_cell)


def admit_workspace(workspace: Path, limits: Limits, *, traps: bool = True, in_cell: bool = False) -> Verdict:
    """GREEN when the claims may judge: every probe is RED on the work as it stands and RED on each trap."""

    def cases(claims: tuple[Claim, ...]) -> list[Case]:
        untouched = [Case(c, "", GateVerdict.RED) for c in claims]
        return untouched + ([Case(c, t, GateVerdict.RED) for c in claims for t in c.traps] if traps else [])

    return _judged(workspace, limits, cases, traps, in_cell)


def _judged(workspace: Path, limits: Limits, cases_of: CasesOf, traps: bool, in_cell: bool) -> Verdict:
    try:
        claims = read_ledger(workspace)
        lacking = next(missing_parts(workspace, claims), None)
        untrapped = next((c for c in claims if traps and not c.traps), None)
        if lacking:
            return Verdict(GateVerdict.BROKEN, f"BROKEN: {lacking}")
        if untrapped:
            return Verdict(GateVerdict.BROKEN, f"BROKEN: claim '{untrapped.id}' has no trap: what has never failed"
                           " certifies nothing")  # fmt: skip
        judgement = judge(lambda: local_place(workspace, in_cell=in_cell), cases_of(claims), limits)
    except LedgerError as error:
        return Verdict(GateVerdict.BROKEN, f"BROKEN: {error}")
    except Unjudgeable as error:
        return Verdict(GateVerdict.RED, str(error))
    return Verdict(judgement.verdict, judgement.message, tuple(_ledger(claims, judgement)))


def _ledger(claims: tuple[Claim, ...], judgement: Judgement) -> list[str]:
    """One line a claim: its tier where everything about it was as it must be, else what was not."""
    lines = []
    for claim in claims:
        runs = [r for r in judgement.runs if r.case.claim.id == claim.id]
        kept = [r for r in runs if r.verdict is r.case.want]
        if not runs:
            state = "not reached"
        elif len(kept) < len(runs):
            state = next(r.verdict.value for r in runs if r.verdict is not r.case.want)
        elif judgement.verdict is not GateVerdict.GREEN:
            state = "unrefuted"
        else:
            state = "trap_hardened" if any(r.case.fixture for r in runs) else "self_probe"
        seconds = sum(r.wall_s for r in runs)
        twice = " (asked twice after a time-out)" if any(r.asked > 1 for r in runs) else ""
        line = f"{state:<14} {claim.id:<36} {len(claim.traps)} traps {seconds:6.2f} s  {claim.proposition}{twice}"
        lines.append(line)
    return lines
