"""One probe, one verdict; a set of cases, one judgement. Exit codes decide and nothing else does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from recurve_eval.domain import JSON, GateVerdict
from recurve_eval.gates.copies import differences, listing
from recurve_eval.gates.ledger import FIXTURES, Claim
from recurve_eval.gates.places import OpenPlace, Place, Ran
from recurve_eval.workspace import NOBODYS_GIT

GREEN, RED, BROKEN = GateVerdict.GREEN, GateVerdict.RED, GateVerdict.BROKEN


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds a probe may take unless its claim says less, and how much of its output is fed back."""

    timeout_s: float = 20.0
    max_feedback_bytes: int = 2048

    def of(self, claim: Claim) -> float:
        return min(self.timeout_s, claim.timeout_s or self.timeout_s)


@dataclass(frozen=True, slots=True)
class Case:
    """One probe on one thing: the work (``fixture`` empty) or a trap; and the verdict that it must give."""

    claim: Claim
    fixture: str = ""
    want: GateVerdict = GREEN

    @property
    def label(self) -> str:
        return f"{self.claim.id} on {self.fixture or 'the work'}"


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """What a probe said of one thing. ``why`` explains a BROKEN one; ``wall_s`` is the time of all askings."""

    case: Case
    verdict: GateVerdict
    why: str = ""
    line: str = ""
    output: str = ""
    wall_s: float = 0.0
    timed_out: bool = False
    asked: int = 1

    @property
    def facts(self) -> dict[str, JSON]:
        return {
            "claim": self.case.claim.id, "on": self.case.fixture or "work", "want": self.case.want.value,
            "verdict": self.verdict.value, "why": self.why, "line": self.line, "wall_s": round(self.wall_s, 6),
            "asked": self.asked,
        }  # fmt: skip


Lay = Callable[[Place], None]


class Examination:
    """Runs probes in a place that it opens; notices one that changes the work it judges.

    A time-out is asked once more before it counts, because the machine may have stood still: when everything of the
    first asking is gone, in a fresh place, with nothing beside it. The examination goes on in that place.
    """

    place: Place

    def __init__(self, open_place: OpenPlace, limits: Limits) -> None:
        self.limits = limits
        self._open_place = open_place
        self._opened = ExitStack()
        self._lay: Lay | None = None
        self._before: dict[str, str] = {}

    def __enter__(self) -> Examination:
        self._open()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    @contextmanager
    def beside(self, lay: Lay) -> Iterator[None]:
        """Within, each place holds what ``lay`` puts into it. Whoever lays it down takes it away again."""
        lay(self.place)
        self._lay, self._before = lay, {}
        try:
            yield
        finally:
            self._lay, self._before = None, {}

    def run(self, case: Case) -> ProbeRun:
        """One verdict. A probe that cannot have judged, or changed what it judged, is BROKEN."""
        first = self._ask(case)
        if not first.timed_out:
            return first
        self._opened.close()
        self._open()
        again = self._ask(case)
        run = replace(again, asked=2, wall_s=first.wall_s + again.wall_s)
        self.place.retried.append(asked_twice(case.label, self.limits.of(case.claim), run.verdict, run.wall_s))
        return run

    def _open(self) -> None:
        self.place = self._opened.enter_context(self._open_place())
        self._before = {}
        if self._lay is not None:
            self._lay(self.place)

    def _ask(self, case: Case) -> ProbeRun:
        problem, fixture = fixture_of(self.place, case.fixture)
        if problem:
            return ProbeRun(case, BROKEN, problem)
        if not self._before or case.fixture.endswith(".patch"):
            self._before = listing(self.place.root)
        ran = self.place.run(case.claim.probe, fixture, self.limits.of(case.claim))
        timed_out = ran.exit_code is None
        changed = [] if timed_out else differences(self._before, listing(self.place.root))
        verdict, why = _verdict(ran, self.limits.of(case.claim))
        if changed:
            verdict, why = BROKEN, f"it writes to the work ({', '.join(changed[:3])})"
        text = ran.output.decode("utf-8", "replace")
        said = red_line(text), _tail(text, self.limits.max_feedback_bytes)
        return ProbeRun(case, verdict, why, *said, ran.wall_s, timed_out)


def asked_twice(what: str, limit_s: float, then: GateVerdict, wall_s: float) -> dict[str, JSON]:
    """The record of a time-out that was asked once more: what came of it, and the seconds of both askings."""
    return {"what": what, "limit_s": limit_s, "then": then.value, "wall_s": round(wall_s, 6)}


def _verdict(ran: Ran, timeout_s: float) -> tuple[GateVerdict, str]:
    if ran.exit_code is None:
        return BROKEN, f"it timed out twice (limit {timeout_s:g} s)"
    if ran.exit_code == 0:
        return GREEN, ""
    if ran.network:
        return BROKEN, "it needs a network, and there is none"
    if ran.exit_code == 1:
        return RED, ""
    return BROKEN, f"it exited {ran.exit_code} (0 is GREEN, 1 is RED)"


def red_line(text: str) -> str:
    """The one line that says what is wrong: the first that opens with RED, else the last that says anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("RED")), lines[-1] if lines else "")[:400]


def _tail(text: str, limit: int) -> str:
    return text[-limit:].strip() if limit > 0 else ""


def fixture_of(place: Place, trap: str) -> tuple[str, str | None]:
    """A problem, or the directory (a path in the place) that stands for a trap; None is the work itself."""
    if not trap:
        return "", None
    if not trap.endswith(".patch"):
        return ("", trap) if (place.root / trap).is_dir() else (f"there is no {trap}", None)
    made = f"{FIXTURES}/{Path(trap).stem}"
    if not (place.root / made).is_dir():
        problem = patched(place, place.root / trap, place.root / made)
        if problem:
            return problem, None
    return "", made


def patched(place: Place, patch: Path, target: Path) -> str:
    """Apply a patch in ``target`` to what it is a patch of; what is wrong, or nothing."""
    target.mkdir(parents=True)
    place.base(target)
    command = ["git", "apply", "--whitespace=nowarn", str(patch.resolve())]
    path = os.environ.get("PATH", os.defpath)
    quiet = NOBODYS_GIT | {"PATH": path, "GIT_CEILING_DIRECTORIES": str(target.parent)}
    try:
        done = subprocess.run(command, cwd=target, env=quiet, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{patch.name} needs git: {error.strerror}"
    if done.returncode:
        return f"{patch.name} does not apply to the work: {done.stderr.strip()[:200]}"
    return ""


@dataclass
class Judgement:
    """The verdict over a set of cases; ``message`` is what the agent is told, ``flakes`` are disagreements."""

    verdict: GateVerdict
    message: str = ""
    runs: list[ProbeRun] = field(default_factory=list)
    flakes: list[dict[str, JSON]] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, JSON]:
        return {
            "runs": [r.facts for r in self.runs],
            "flakes": self.flakes,
            "probe_wall_s": round(sum(r.wall_s for r in self.runs), 6),
        }


def judge(open_place: OpenPlace, cases: Sequence[Case], limits: Limits, confirm: bool = True) -> Judgement:
    """Run every case until one misses its wanted verdict.

    A result that would decide is repeated in a fresh copy: all cases in reverse order where all were met, the one
    that was not where one was not. Where the two runs disagree the gate is BROKEN, and the flake is on record.
    """
    runs, missed = _pass(open_place, cases, limits)
    if not confirm or (missed is not None and missed.verdict is BROKEN):
        return _conclude(runs, missed)
    again, missed_again = _pass(open_place, [missed.case] if missed else list(reversed(cases)), limits)
    first = {r.case.label: r.verdict for r in runs}
    moved = [r for r in again if r.verdict is not first[r.case.label]]
    flakes: list[dict[str, JSON]] = [
        {"claim": r.case.claim.id, "on": r.case.fixture or "work", "first": first[r.case.label].value,
         "then": r.verdict.value}
        for r in moved
    ]  # fmt: skip
    every = runs + again
    if flakes:
        flake, why = flakes[0], f"; {moved[0].why}" if moved[0].why else ""
        told = (
            f"BROKEN: claim '{flake['claim']}': its probe said {flake['first']} and then {flake['then']} of the same "
            f"{flake['on']}: it depends on chance, the clock or the order of the runs{why}"
        )
        return Judgement(BROKEN, told, every, flakes)
    return _conclude(every, missed or missed_again)


def _pass(open_place: OpenPlace, cases: Sequence[Case], limits: Limits) -> tuple[list[ProbeRun], ProbeRun | None]:
    runs: list[ProbeRun] = []
    with Examination(open_place, limits) as examination:
        for case in cases:
            runs.append(examination.run(case))
            if runs[-1].verdict is not case.want:
                return runs, runs[-1]
    return runs, None


def _conclude(runs: list[ProbeRun], missed: ProbeRun | None) -> Judgement:
    if missed is None:
        return Judgement(GREEN, "", runs)
    claim, on = missed.case.claim, missed.case.fixture
    tail = f"\n{missed.output}" if missed.output else ""
    if missed.verdict is BROKEN:
        where = f" on {on}" if on else ""
        return Judgement(BROKEN, f"BROKEN: claim '{claim.id}': its probe cannot judge{where}: {missed.why}{tail}", runs)
    if missed.case.want is GREEN:
        line = missed.line.removeprefix("RED:").removeprefix("RED").strip() or "the probe says no and no more"
        return Judgement(RED, f"RED: claim '{claim.id}': {line}{tail}", runs)
    said = f"BROKEN: claim '{claim.id}': its probe accepts {on or 'the untouched work'}, which it must turn RED"
    return Judgement(BROKEN, said, runs)
