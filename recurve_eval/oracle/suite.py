"""What a fresh container is asked to do, and how what it saw becomes a verdict.

Conventions: ``suite`` runs whole files of a repository's own test suite (pytest, or anything that ends in
unittest's text runner), ``script`` runs a program that writes a reward.

===========  ==================================================================================
params of    meaning
suite
===========  ==================================================================================
root         directory of the repository in the container
python       interpreter there
runner       ``pytest`` or ``unittest``
command      unittest: ``["-m", "unittest"]``, or a script of the repository and its options
files        test files to run whole, relative to root
strip        unittest: prefix that a file loses before it becomes a dotted name
env          further environment
removed      paths that are absent when the tests run
===========  ==================================================================================

``script``: ``root``, ``argv`` (the verifier), ``tests`` (where ``held_out`` is laid), ``rewards`` (files, the
first that exists counts), ``threshold``, ``env``; and ``solve`` (argv), ``solve_env``, ``solution`` (a
directory) for a reference submission that is a program: it is laid there and run before the verifier.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import PurePosixPath
from typing import Any

from recurve_eval.domain import JSON, CaptureStatus, Grade, OracleJob
from recurve_eval.oracle import protocol
from recurve_eval.oracle.protocol import Evidence, encoded

CONVENTIONS = ("script", "suite")
RUNNERS = ("pytest", "unittest")
_NEEDED = {"suite": ("root", "runner", "files"), "script": ("root", "argv", "tests", "rewards")}
_CANARY = """\
import unittest


class {name}(unittest.TestCase):
    def test_says_false(self):
        self.assertTrue({a} == {b})

    def test_differs(self):
        self.assertEqual("{a}", "{b}")


def test_{name}():
    assert {a} == {b}
"""
_IN_ONE_FILE = {"pytest": 3, "unittest": 2}  # how many of them a runner finds


def fault_of(job: OracleJob) -> str | None:
    """Why no container could grade this job, or None."""
    if job.convention not in CONVENTIONS:
        return f"convention '{job.convention}' is not graded in a fresh container; known: {', '.join(CONVENTIONS)}"
    if not job.image:
        return "it names no image"
    missing = [name for name in _NEEDED[job.convention] if not job.params.get(name)]
    if missing:
        return f"the {job.convention} convention needs params {', '.join(missing)}"
    if job.convention == "suite" and job.params["runner"] not in RUNNERS:
        return f"params['runner'] is '{job.params['runner']}'; known: {', '.join(RUNNERS)}"
    return None


@dataclass(frozen=True, slots=True)
class Request:
    """A message for the supervisor, the seconds that it may take, and the name of the tests that must fail."""

    message: JSON
    timeout_s: float
    token: str


def request_of(job: OracleJob, uid: int, file_mb: int, idle: bool = False) -> Request:
    """``idle`` asks for the same container and runs nothing of the job in it."""
    token = f"t{secrets.token_hex(8)}"
    if idle:
        stages = [
            _stage(job, cwd="/", argv=[job.params.get("python") or "python3", "-I", "-c", ""], timeout_s=job.timeout_s)
        ]
    else:
        stages = _suite(job, uid, token) if job.convention == "suite" else _script(job)
    message = {
        "stages": stages,
        "collect": list(job.params.get("rewards") or ()),
        "limits": {"RLIMIT_FSIZE": file_mb << 20},
    }
    return Request(message, sum(stage["timeout_s"] for stage in stages), token)


def _stage(job: OracleJob, **more: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "remove": [], "lay": {}, "mkdir": [], "cwd": job.params["root"], "env": dict(job.params.get("env") or {}),
        "python": job.params.get("python") or "python3",
    }  # fmt: skip
    return usual | more


def _suite(job: OracleJob, uid: int, token: str) -> list[dict[str, Any]]:
    params = job.params
    beside = PurePosixPath(params["files"][0]).parent
    canaries = {str(beside / f"test_{token}_{n}.py"): _canary(f"{token}_{n}") for n in ("first", "last")}
    first, last = canaries
    files = {**job.submission.contents, **job.support, **job.held_out, **canaries}
    drive = {
        "runner": params["runner"],
        "command": list(params.get("command") or ("-m", "unittest")),
        "arguments": _arguments(params, [first, *params["files"], last]),
    }
    stage = _stage(
        job, remove=[*_absent(job), *_below(params["root"], params.get("removed") or ())], guard=params["root"],
        lay={params["root"]: encoded(files)}, mkdir=[], drive=drive, uid=uid, timeout_s=job.timeout_s,
    )  # fmt: skip
    return [stage]


def _canary(name: str) -> bytes:
    a, b = secrets.randbits(48), secrets.randbits(48)
    return _CANARY.format(name=name, a=a, b=b if b != a else b + 1).encode()


def _arguments(params: Mapping[str, JSON], files: Sequence[str]) -> list[str]:
    if params["runner"] == "pytest":
        return ["-p", "no:cacheprovider", "--maxfail=0", *files]
    strip = str(params.get("strip") or "")
    return [file.removeprefix(strip).removesuffix(".py").replace("/", ".") for file in files]


def _script(job: OracleJob) -> list[dict[str, Any]]:
    params, stages = job.params, []
    contents = {**job.submission.contents, **job.support}
    if params.get("solve"):
        solution = {params["solution"]: encoded(contents)}
        env = dict(params.get("solve_env") or {})
        stages.append(_stage(job, lay=solution, argv=list(params["solve"]), env=env, timeout_s=job.timeout_s))
        contents = {}
    logs = sorted({str(PurePosixPath(path).parent) for path in params["rewards"]})
    away = [*_absent(job), *([params["solution"]] if params.get("solve") else []), params["tests"], *logs]
    stages.append(
        _stage(
            job,
            remove=away,
            lay={params["root"]: encoded(contents), params["tests"]: encoded(job.held_out)},
            mkdir=logs,
            argv=list(params["argv"]),
            timeout_s=job.timeout_s,
        )
    )
    return stages


def _absent(job: OracleJob) -> list[str]:
    """What a submission deleted, or left in a form that could not be captured."""
    return _below(job.params["root"], [f.path for f in job.submission.files if f.status is not CaptureStatus.OK])


def _below(root: str, paths: Sequence[str]) -> list[str]:
    return [str(PurePosixPath(root, path)) for path in paths]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a supervisor saw of the last program. ``canaries`` maps a must-fail test to its outcome."""

    records: tuple[Mapping[str, Any], ...] = ()
    canaries: Mapping[str, str] | None = None
    breaches: tuple[str, ...] = ()
    load_error: str | None = None
    harness_error: str | None = None
    finished: bool = False
    timed_out: bool = False
    stage: str = "loading"
    exit: str = ""
    strays: int = 0
    wall_s: float = 0.0
    stdout: str = ""
    collected: Mapping[str, str] | None = None  # base64

    @classmethod
    def of(cls, reply: Mapping[str, Any], token: str) -> Seen:
        plain = {f.name: reply[f.name] for f in fields(cls) if f.name in reply}
        records = [r for r in plain.pop("records", ()) if isinstance(r, dict)]
        canaries = {r["id"]: r["outcome"] for r in records if token in r["id"]}
        output = base64.b64decode(plain.pop("stdout", "")).decode("utf-8", "replace")
        return replace(
            cls(**plain), records=tuple(r for r in records if token not in r["id"]), canaries=canaries,
            breaches=tuple(plain.get("breaches", ())), stdout=output,
        )  # fmt: skip


def judge(job: OracleJob, seen: Seen) -> Grade:
    """The verdict of one run, by the rules of :func:`recurve_eval.oracle.protocol.judge`.

    Several reported tests may answer to one expected id (see :func:`answers`); all of them must have passed.
    """
    records = _rewarded(job, seen) if job.convention == "script" else _results(job, seen)
    breaches = list(seen.breaches)
    canaries = 1
    if job.convention == "suite" and seen.records:
        canaries = sum(outcome == "failed" for outcome in (seen.canaries or {}).values())
        breaches += [
            f"a test that must fail did not ({name.rpartition('::')[2]}: {outcome})"
            for name, outcome in (seen.canaries or {}).items()
            if outcome != "failed"
        ]
        if seen.finished and len(seen.canaries or {}) != 2 * _IN_ONE_FILE[job.params["runner"]]:
            breaches.append(f"{len(seen.canaries or {})} tests that must fail were reported, not all")
    nothing = f"no test was run ({seen.exit})" if job.convention == "suite" and seen.finished else None
    evidence = Evidence(
        records=tuple(records), breaches=tuple(breaches), canaries=canaries,
        load_error=seen.load_error or (None if seen.records or job.convention == "script" else nothing),
        harness_error=seen.harness_error, finished=seen.finished or job.convention == "script",
        timed_out=seen.timed_out, stage=seen.stage, exit=seen.exit, strays=seen.strays, wall_s=seen.wall_s,
        stdout=seen.stdout, stderr="",
    )  # fmt: skip
    return protocol.judge(job, evidence)


def answers(expected: str, test: Mapping[str, Any]) -> bool:
    """Whether a reported test is meant by an id of a dataset.

    Ids there were once parsed from printed text: some are cut at the first blank within ``[...]`` and are
    prefixes, some are bare function names, and unittest's may be a test's first line of documentation.
    """
    name = str(test["id"])
    if expected == name or expected in test["also"]:
        return True
    if "[" in expected and not expected.endswith("]"):
        return name.startswith(expected)
    if "::" not in expected:
        bare = name.rpartition("::")[2]
        return bare == expected or bare.startswith(f"{expected}[")
    return False


def _results(job: OracleJob, seen: Seen) -> list[dict[str, str]]:
    """One record for each expected id that any reported test answers to."""
    exact: dict[str, list[Mapping[str, Any]]] = {}
    for test in seen.records:
        for name in {str(test["id"]), *map(str, test["also"])}:
            exact.setdefault(name, []).append(test)
    results = []
    for expected in job.expected:
        found = exact.get(expected) or [test for test in seen.records if answers(expected, test)]
        if found:
            worst = next((test for test in found if test["outcome"] != "passed"), found[0])
            results.append({"id": expected, "outcome": str(worst["outcome"]), "message": str(worst["message"])})
    return results


def _rewarded(job: OracleJob, seen: Seen) -> list[dict[str, str]]:
    """The reward as the record of the one expected test; none where the verifier wrote none that can be read."""
    for path in job.params["rewards"]:
        content = (seen.collected or {}).get(path)
        if content is None:
            continue
        reward = _number(content, path.endswith(".json"))
        least = float(job.params.get("threshold") or 1.0)
        words = "is no number" if reward is None else f"is {reward:g}, {least:g} is needed"
        good = reward is not None and reward >= least
        return [{"id": job.expected[0], "outcome": "passed" if good else "failed", "message": f"the reward {words}"}]
    return []


def _number(content: str, is_json: bool) -> float | None:
    """A reward of 0 to 1: a number, or in JSON an object with the key ``reward``, or one with a single number."""
    try:
        text = base64.b64decode(content).decode()
        value = json.loads(text) if is_json else float(text)
        if isinstance(value, dict):
            value = value.get("reward", next(iter(value.values())) if len(value) == 1 else None)
        number = float(value) if isinstance(value, int | float) else None
    except (ValueError, binascii.Error, StopIteration):
        return None
    return number if number is not None and 0.0 <= number <= 1.0 else None


__all__ = ["CONVENTIONS", "Request", "Seen", "answers", "fault_of", "judge", "request_of"]
