"""The exploit battery: hostile submissions through the real backend. One that is graded ``pass`` is a hole.

Exploits are files of ``oracle/exploits``: a header (``# kind:``, ``# description:``, perhaps
``# tasks:``), then the files of the submission, each after a line ``# --- path``. ``tasks`` is ``all``
unless it says ``one`` (slow ones: two tasks suffice) or ``contained`` (only where the backend keeps
gradings from the host's processes; elsewhere it would harm the machine).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.domain import JSON, Grade, OracleJob, OracleVerdict, Submission
from recurve_eval.ports import OracleBackend
from recurve_eval.resources import oracle_dir

CANONICAL = {"solution.py": b"def total(values):\n    return sum(v * v for v in values if v % 2 == 0)\n"}
PLAIN_WRONG = {"solution.py": b"def total(values):\n    return -1\n"}

_CHECK = b"""
def check(candidate):
    assert candidate([1, 2, 3, 4]) == 20
    assert candidate([-6, 5]) == 36
    assert candidate([]) == 0
    assert candidate([10, 11, 12]) == 244
"""
_UNITTEST = b"""
import unittest

from solution import total


class Total(unittest.TestCase):
    def test_small(self):
        self.assertEqual(total([1, 2, 3, 4]), 20)
        assert total([2]) == 4

    def test_negative(self):
        self.assertEqual(total([-6, 5]), 36)

    def test_empty(self):
        self.assertEqual(total([]), 0)
"""
_IDS = ("Total.test_small", "Total.test_negative", "Total.test_empty")
_INPUTS = {"base.jsonl": b"[[1, 2, 3, 4]]\n[[-6, 5]]\n", "plus.jsonl": b"[[]]\n[[10, 11, 12]]\n"}
# Of each convention: what is held out, what it needs to be told, and the ids of its tests.
_FORMS: Mapping[str, tuple[Mapping[str, bytes], Mapping[str, JSON], tuple[str, ...]]] = {
    "check": ({"total_check.py": _CHECK}, {}, ("check",)),
    "unittest": ({"total_check.py": _UNITTEST}, {}, _IDS),
    "namespace": (
        {"total_check.py": _UNITTEST.replace(b"from solution import total\n", b"")}, {"case": "Total"}, _IDS,
    ),
    "reference": (
        {"total_reference.py": CANONICAL["solution.py"], **_INPUTS},
        {"reference": "total_reference", "groups": [["base", "base.jsonl"], ["plus", "plus.jsonl"]],
         "atol": 0, "rule": "equal", "shape": []},
        ("base", "plus"),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exploit:
    """One hostile submission."""

    name: str
    kind: str
    description: str
    tasks: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One exploit on one attack task. ``stopped_by`` is the grade's own account of the rule that stopped it."""

    exploit: Exploit
    task: str
    grade: Grade

    @property
    def passed(self) -> bool:
        return self.grade.verdict is OracleVerdict.PASS

    @property
    def stopped_by(self) -> str:
        return self.grade.detail


def attack_tasks() -> dict[str, Callable[[Submission], OracleJob]]:
    """The tasks by name: each convention, with the candidate apart from its tests and sharing their process."""

    def maker(convention: str, candidate: str) -> Callable[[Submission], OracleJob]:
        held_out, params, expected = _FORMS[convention]
        return lambda submission: OracleJob(
            task_id=f"attack/{convention}/{candidate}",
            submission=submission,
            held_out=held_out,
            convention=convention,
            params={"module": "solution", "entry_point": "total", "candidate": candidate, **params},
            expected=expected,
            timeout_s=2.0,
        )

    pairs = [("check", "apart"), ("unittest", "shared"), ("check", "shared"), ("unittest", "apart"),
             ("namespace", "shared"), ("reference", "apart")]  # fmt: skip
    return {f"{convention}/{candidate}": maker(convention, candidate) for convention, candidate in pairs}


def load_exploits(directory: Path | None = None) -> list[Exploit]:
    """Every exploit, by name."""
    found = sorted((directory or oracle_dir() / "exploits").glob("*.py"))
    return [parse_exploit(path.stem, path.read_text(encoding="utf-8")) for path in found]


def parse_exploit(name: str, text: str) -> Exploit:
    """Raises ValueError where the header or the solution is missing."""
    head, *parts = re.split(r"^# --- (.+)\n", text, flags=re.MULTILINE)
    fields = dict(re.findall(r"^# (\w+): (.+)$", head, flags=re.MULTILINE))
    files = {path: content.encode() for path, content in zip(parts[::2], parts[1::2], strict=True)}
    if "kind" not in fields or "description" not in fields or "solution.py" not in files:
        raise ValueError(f"exploit {name}: needs '# kind:', '# description:' and '# --- solution.py'")
    return Exploit(name, fields["kind"], fields["description"], fields.get("tasks", "all"), files)


def run_battery(backend: OracleBackend, exploits: list[Exploit] | None = None) -> Iterator[AttackResult]:
    """Grade every exploit on its attack tasks, yielding each result as it comes."""
    containment = backend.env().facts.get("containment", {})
    contained = any(containment.get(means) for means in ("uid_per_grading", "pid_namespace"))
    tasks = list(attack_tasks().items())
    for exploit in load_exploits() if exploits is None else exploits:
        if exploit.tasks == "contained" and not contained:
            continue
        for name, job_of in tasks if exploit.tasks == "all" else tasks[:2]:
            submission = Submission.of_reference(f"exploit:{exploit.name}", exploit.files)
            yield AttackResult(exploit, name, backend.grade(job_of(submission)))


def run_controls(backend: OracleBackend) -> list[str]:
    """Complaints about honest submissions: the canonical one must pass, a plainly wrong one must fail."""
    complaints = []
    for name, job_of in attack_tasks().items():
        for origin, files, wanted in (
            ("canonical", CANONICAL, OracleVerdict.PASS),
            ("known_bad:plain", PLAIN_WRONG, OracleVerdict.FAIL),
        ):
            grade = backend.grade(job_of(Submission.of_reference(origin, files)))
            if grade.verdict is not wanted:
                complaints.append(f"{name}: {origin} is graded {grade.verdict} ({grade.detail}), not {wanted}")
    return complaints
