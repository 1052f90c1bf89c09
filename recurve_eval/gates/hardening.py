"""Hardening: how much wrong work the probes let through, and whether they judge what work does or how it reads."""

from __future__ import annotations

import ast
import difflib
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from recurve_eval.domain import JSON, Finding, GateVerdict, KnownBad, Task
from recurve_eval.errors import ConfigError
from recurve_eval.gates.ledger import FIXTURES, HOME, Claim, LedgerError, read_ledger
from recurve_eval.gates.places import Place, Unjudgeable, session_place
from recurve_eval.gates.probes import Case, Examination, Limits
from recurve_eval.mutation.mutants import mutants, parse
from recurve_eval.mutation.rewrites import rewrites
from recurve_eval.ports import GateContext, Observation

MAX_SHOWN = 3
GREEN, RED, BROKEN = GateVerdict.GREEN, GateVerdict.RED, GateVerdict.BROKEN


@dataclass
class Measurement:
    """What one pass found. ``problem`` is what the agent is told; empty where the probes held."""

    facts: dict[str, JSON] = field(default_factory=dict)
    problem: str = ""


@dataclass
class _Measuring:
    """Fields that both modes share.

    Attributes
    ----------
    mutants : int
        Mutants of the work; 0 leaves the fuzz pass out.
    seed : int
        Which mutants.
    threshold : float
        Largest share of mutants that all probes together may let through.
    probe_threshold : float
        Largest share of mutants that any one probe may let through.
    iso : bool
        Whether meaning-preserving rewrites of the work are judged too; every probe must stay GREEN.
    diff : bool
        Whether a claim's reference is judged; its probe must be GREEN there as on the work.
    """

    name: str = "hardening"
    mutants: int = 8
    seed: int = 0
    threshold: float = 0.25
    probe_threshold: float = 0.9
    iso: bool = True
    diff: bool = True

    def __post_init__(self) -> None:
        if self.mutants < 0:
            raise ConfigError(f"gate.hardening.mutants must not be negative; got {self.mutants}")
        for name in ("threshold", "probe_threshold"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"gate.hardening.{name} is a share from 0 to 1; got {getattr(self, name)}")

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def admits(self, task: Task) -> str | None:
        return None

    def measure(self, context: GateContext) -> Measurement:
        """One pass over the work as it stands. Raises LedgerError, Unjudgeable."""
        claims = read_ledger(context.workspace)
        limits = context.record.state.get("limits", Limits())
        with Examination(partial(session_place, context, self.name), limits) as examination:
            return _Pass(self, claims, examination, context.task).run()


@dataclass
class EnforcedHardening(_Measuring):
    """Decides: probes that let too much through, or that notice how work reads, refuse; the agent may mend them."""

    binding: bool = True
    author_turns = 0

    def prepare(self, context: GateContext) -> None:
        pass

    def check(self, context: GateContext) -> Finding:
        started = time.perf_counter()
        try:
            found = self.measure(context)
        except LedgerError as error:
            return Finding(self.name, BROKEN, f"BROKEN: {error}", self.binding, time.perf_counter() - started)
        except Unjudgeable as error:
            return Finding(self.name, RED, str(error), self.binding, time.perf_counter() - started)
        context.record.hardening = {**found.facts, "mode": "enforce"}
        if found.problem:
            context.record.state["reopen"] = True
        verdict = BROKEN if found.problem else GREEN
        return Finding(self.name, verdict, found.problem, self.binding, time.perf_counter() - started, found.facts)


@dataclass
class AuditedHardening(_Measuring):
    """Records the same measurements when all is decided. It returns no verdict, so it can change none."""

    def observe(self, context: GateContext) -> Observation:
        started = time.perf_counter()
        try:
            facts = self.measure(context).facts
        except (LedgerError, Unjudgeable) as error:
            facts = {"measured": False, "why": str(error)}
        return Observation("hardening", {**facts, "mode": "audit"}, time.perf_counter() - started)


@dataclass
class _Pass:
    """One pass over the work and its variants."""

    how: _Measuring
    claims: Sequence[Claim]
    examination: Examination
    task: Task

    def run(self) -> Measurement:
        work = self._work()
        fuzz, iso = self._fuzz(work), self._iso(work)
        references, disagree = self._diff() if self.how.diff else ([], [])
        passed = not (fuzz.problem or iso.problem or disagree)
        facts = {"measured": fuzz.facts["mutants"] > 0, "passed": passed, **fuzz.facts, **iso.facts}
        facts |= {"references": references, "disagreements": disagree}
        problem = fuzz.problem or iso.problem or (disagree[0] if disagree else "")
        return Measurement(facts, f"BROKEN: {problem}" if problem else "")

    def _work(self) -> dict[str, bytes]:
        files = {}
        for path in self.task.capture.paths:
            file = self.examination.place.root / path
            if path.endswith(".py") and file.is_file() and not file.is_symlink():
                files[path] = file.read_bytes()
        return files

    def _verdicts(self, name: str, files: Mapping[str, bytes]) -> dict[str, GateVerdict]:
        """Every probe's verdict on the work with some files replaced."""
        where = f"{FIXTURES}/{name}"
        with self.examination.beside(partial(_lay, where, files)):
            verdicts = {c.id: self.examination.run(Case(c, where)).verdict for c in self.claims}
        shutil.rmtree(self.examination.place.root / where)
        return verdicts

    def _fuzz(self, work: Mapping[str, bytes]) -> Measurement:
        drawn = mutants(work, self.how.mutants, self.how.seed, self.task.id) if self.how.mutants else []
        through: dict[str, int] = {c.id: 0 for c in self.claims}
        survivors = []
        for number, mutant in enumerate(drawn):
            verdicts = self._verdicts(f"mutant-{number}", mutant.files)
            for claim, verdict in verdicts.items():
                through[claim] += verdict is GREEN
            if all(v is GREEN for v in verdicts.values()):
                survivors.append(mutant)
        rates = {claim: count / len(drawn) if drawn else 0.0 for claim, count in through.items()}
        facts: dict[str, JSON] = {
            "mutants": len(drawn), "survived": len(survivors), "survivors": [m.kind for m in survivors],
            "probe_rates": {k: round(v, 6) for k, v in rates.items()}, "threshold": self.how.threshold,
        }  # fmt: skip
        return Measurement(facts, self._too_much(work, drawn, survivors, rates) if drawn else "")

    def _too_much(self, work: Mapping[str, bytes], drawn: Sequence[KnownBad], survivors: Sequence[KnownBad],
                  rates: Mapping[str, float]) -> str:  # fmt: skip
        if len(survivors) > self.how.threshold * len(drawn):
            shown = "\n".join(_shown(work, s) for s in survivors[:MAX_SHOWN])
            return f"your probes accept {len(survivors)} of {len(drawn)} wrong variants of your work, such as\n{shown}"
        worst = max(rates, key=lambda claim: rates[claim])
        if rates[worst] > self.how.probe_threshold:
            return f"claim '{worst}': its probe accepts {rates[worst]:.0%} of wrong variants of your work"
        return ""

    def _iso(self, work: Mapping[str, bytes]) -> Measurement:
        kept: dict[str, bool] = {}
        problem = ""
        for rewrite in rewrites(work) if self.how.iso else []:
            lost = [c for c, v in self._verdicts(f"iso-{rewrite.kind}", rewrite.files).items() if v is not GREEN]
            kept[rewrite.kind] = not lost
            if lost and not problem:
                problem = (
                    f"claim '{lost[0]}': its probe rejects your work once it is rewritten ({rewrite.kind}) without any "
                    "change of what it does: judge behaviour, not text"
                )
        return Measurement({"iso": kept}, problem)

    def _diff(self) -> tuple[list[str], list[str]]:
        """Kinds of the references that agree with the work, and what disagrees."""
        agreed, disagree = set(), []
        for claim in self.claims:
            if claim.reference is None:
                continue
            run = self.examination.run(Case(claim, claim.reference.path))
            if run.verdict is GREEN:
                agreed.add(claim.reference.kind)
            else:
                disagree.append(
                    f"claim '{claim.id}': its probe rejects the {claim.reference.kind} reference: {run.line}"
                )
        return sorted(agreed), disagree


def _lay(where: str, files: Mapping[str, bytes], place: Place) -> None:
    """Lay the work down as a fixture, with some files replaced."""
    target = place.root / where
    target.mkdir(parents=True)
    for entry in place.root.iterdir():
        if entry.name == HOME:
            continue
        if entry.is_dir():
            shutil.copytree(entry, target / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, target / entry.name)
    for path, content in files.items():
        (target / path).write_bytes(content)


def _shown(work: Mapping[str, bytes], mutant: KnownBad) -> str:
    """A mutant as a diff of the lines that matter."""
    lines = []
    for path, content in mutant.files.items():
        if content != work.get(path):
            before = _normal(work.get(path, b""))
            lines += [
                line for line in difflib.unified_diff(before, _normal(content), path, path, n=0, lineterm="")
                if not line.startswith(("---", "+++"))
            ]  # fmt: skip
    return "\n".join([f"# {mutant.kind}", *lines[:12]])


def _normal(source: bytes) -> list[str]:
    tree = parse(source)
    return (source.decode("utf-8", "replace") if tree is None else ast.unparse(tree)).splitlines()
