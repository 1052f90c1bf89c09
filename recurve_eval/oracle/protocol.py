"""What goes to a warm server, what comes back, and the one place where evidence becomes a verdict."""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from recurve_eval.domain import JSON, Grade, OracleJob, OracleVerdict, UnscoredReason

PROTOCOL = 1
CONVENTIONS = ("check", "namespace", "reference", "unittest")
ARRANGEMENTS = ("apart", "shared")


def frame(message: JSON) -> bytes:
    """Four bytes of length, big endian, and that many bytes of UTF-8 JSON."""
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: base64.b64encode(content).decode() for path, content in files.items()}


def arrangement(job: OracleJob) -> str:
    """``apart`` (the candidate in a process of its own) or ``shared``, from ``params['candidate']``.

    The check and reference conventions call one function and are graded apart unless the job says otherwise;
    unittest and namespace modules may touch anything of a submission and share its process unless it does.
    """
    default = "apart" if job.convention in ("check", "reference") else "shared"
    return str(job.params.get("candidate", default))


def fault_of(job: OracleJob) -> str | None:
    """Why no grader could grade this job, or None."""
    if job.convention not in CONVENTIONS:
        return f"unknown convention '{job.convention}'; known: {', '.join(CONVENTIONS)}"
    if arrangement(job) not in ARRANGEMENTS:
        return f"params['candidate'] is '{arrangement(job)}'; it may be {' or '.join(ARRANGEMENTS)}"
    needed = ["module"] if arrangement(job) == "apart" else []
    needed += {
        "check": ["module", "entry_point"],
        "namespace": ["module", "case"],
        "reference": ["reference", "groups"],
    }.get(job.convention, [])
    missing = sorted({name for name in needed if not job.params.get(name)})
    if missing:
        return f"the {job.convention} convention needs params {', '.join(missing)}"
    readable = (".py", ".jsonl") if job.convention == "reference" else (".py",)
    data = [path for path in job.held_out if not path.endswith(readable)]
    if data or not job.held_out:
        return f"held-out files must be Python modules, at least one; got {', '.join(data) or 'none'}"
    return None


def request_of(job: OracleJob, timeout_s: float) -> bytes:
    """Both frames of a grading: the job without its tests, then the held-out files."""
    head = {
        "op": "grade",
        "convention": job.convention,
        "candidate": arrangement(job),
        "params": dict(job.params),
        "files": encoded({**job.submission.contents, **job.support}),
        "timeout_s": timeout_s,
    }
    return frame(head) + frame(encoded(job.held_out))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a supervisor saw of one run of the tests."""

    records: tuple[Mapping[str, str], ...]
    breaches: tuple[str, ...]
    canaries: int
    load_error: str | None
    harness_error: str | None
    finished: bool
    timed_out: bool
    stage: str
    exit: str
    strays: int
    wall_s: float
    stdout: str
    stderr: str

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Evidence:
        text: dict[str, Any] = {
            name: base64.b64decode(reply[name]).decode("utf-8", "replace") for name in ("stdout", "stderr")
        }
        plain: dict[str, Any] = {
            name: reply[name] for name in cls.__slots__ if name not in ("records", "breaches", "stdout", "stderr")
        }
        return cls(records=tuple(reply["records"]), breaches=tuple(reply["breaches"]), **plain, **text)


def cut_off(job: OracleJob, seen: Evidence) -> bool:
    """Whether a verifier, which runs no submission and reports whatever one does, ended with its report unfinished.

    Something else than the submission is the likelier reason, once; twice is taken for its deed.
    """
    return arrangement(job) == "apart" and not (seen.finished or seen.timed_out or seen.breaches or seen.harness_error)


def judge(job: OracleJob, seen: Evidence) -> Grade:
    """The verdict of one run that did not time out. Rules in order; the first that speaks decides.

    1. the tests themselves cannot be run: ``unscored/oracle_error``;
    2. any breach (a test that must fail passed, a replaced assertion, an unsealed or unchallenged
       record, a lying object): ``tampered``;
    3. no finished report, whatever the exit code and the output say: ``fail``;
    4. no must-fail test reported at all: ``tampered``;
    5. exactly the expected ids, each once and passed: ``pass``; anything else: ``fail``.
    """
    passed = {r["id"] for r in seen.records if r["outcome"] == "passed"} & set(job.expected)
    failed = tuple(sorted(set(job.expected) - passed))

    def grade(verdict: OracleVerdict, detail: str, reason: UnscoredReason | None = None) -> Grade:
        return Grade(
            verdict=verdict, reason=reason, detail=detail, tests_passed=len(passed), tests_total=len(job.expected),
            failed=failed, wall_s=seen.wall_s, stdout=seen.stdout, stderr=seen.stderr,
        )  # fmt: skip

    if seen.harness_error is not None:
        return grade(OracleVerdict.UNSCORED, seen.harness_error, UnscoredReason.ORACLE_ERROR)
    if seen.breaches:
        return grade(OracleVerdict.TAMPERED, seen.breaches[0])
    if seen.load_error is not None:
        return grade(OracleVerdict.FAIL, seen.load_error)
    if not seen.finished:
        return grade(OracleVerdict.FAIL, f"exited before reporting ({seen.exit}, while {seen.stage})")
    if seen.canaries < 1:
        return grade(OracleVerdict.TAMPERED, "no must-fail test was reported")
    wrong = _wrong(job, seen)
    return grade(OracleVerdict.FAIL, wrong) if wrong else grade(OracleVerdict.PASS, "")


def _wrong(job: OracleJob, seen: Evidence) -> str:
    counts = Counter(record["id"] for record in seen.records)
    unknown = sorted(set(counts) - set(job.expected))
    missing = sorted(set(job.expected) - set(counts))
    repeated = sorted(name for name, count in counts.items() if count > 1)
    for words, names in (("unknown tests", unknown), ("repeated tests", repeated), ("missing tests", missing)):
        if names:
            return f"{words}: {', '.join(names[:5])}"
    return next(
        (f"{r['id']} {r['outcome']}: {r['message']}"[:500] for r in seen.records if r["outcome"] != "passed"), ""
    )


def unscored(reason: UnscoredReason, detail: str) -> Grade:
    return Grade(OracleVerdict.UNSCORED, reason=reason, detail=detail)


def majority(grades: list[Grade]) -> Grade:
    """The verdict of most scored runs; tampering in one run decides, and a tie is a failure.

    ``flake_rate`` is the share of scored runs that disagree with the majority.
    """
    scored = [grade for grade in grades if grade.verdict is not OracleVerdict.UNSCORED]
    if not scored:
        return replace(grades[0], runs=len(grades))
    counts = Counter(grade.verdict for grade in scored)
    order = [OracleVerdict.FAIL, OracleVerdict.PASS]
    verdict = max(order, key=lambda v: counts[v])
    if counts[OracleVerdict.TAMPERED]:
        verdict = OracleVerdict.TAMPERED
    chosen = next(grade for grade in scored if grade.verdict is verdict)
    flake = 1 - counts[verdict] / len(scored)
    return replace(chosen, runs=len(grades), flake_rate=flake, retried=any(g.retried for g in grades))
