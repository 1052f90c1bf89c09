"""The ``reference`` convention: a submission and a reference solution are given the same inputs.

Held out are the reference's source and, a JSON list of arguments a line, groups of inputs; each group is a
test. The reference runs in the verifier, whose process no submission can reach, and the submission in its
own, from where plain values come. ``params``:

``entry_point``
    The function to call, in both.
``reference``, ``alternative``
    Stems of held-out modules. An answer equal to the alternative's is right too; it may be absent.
``contract``
    Name of a function of the reference's module. Inputs on which it raises are outside of the task and are
    left out. Empty: every input counts.
``groups``
    ``[id, file]`` pairs, in order. After a group has failed, the ones behind it are not run, and have failed.
``atol``, ``rule``, ``shape``
    How answers are compared (:mod:`runner.compare`) and what becomes of JSON lists in inputs.

The canary of a group is a comparison of an expected value with one that nobody can know.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Iterator, NamedTuple

from . import compare, plain
from .conventions import HarnessFault, Stage
from .heldout import Wrong, twin
from .loading import describe

CHUNK_INPUTS = 64
CHUNK_BYTES = 1 << 16


class _Fault(Exception):
    """The reference or an input cannot be used; nothing is said of the submission."""


class _Trial(NamedTuple):
    """One input: what is sent of it, and what is right."""

    number: int
    arguments: list[Any]
    sent: Any
    size: int  # bytes of its line


class _Judge:
    def __init__(self, stage: Stage) -> None:
        self.params = stage.params
        module = stage.held.load(self.params["reference"])
        self.reference = getattr(module, self.params["entry_point"])
        self.contract = getattr(module, self.params["contract"]) if self.params.get("contract") else None
        stem = self.params.get("alternative")
        self.alternative = getattr(stage.held.load(stem), self.params["entry_point"]) if stem else None

    def trials(self, text: bytes) -> Iterator[_Trial]:
        """The inputs that the contract admits, in order."""
        for number, line in enumerate(text.split(b"\n")):
            if not line.strip():
                continue
            arguments = compare.restore(json.loads(line), self.params["shape"])
            try:
                sent, fault = plain.encode(arguments, strict=True), ""
            except (TypeError, ValueError, RecursionError) as error:
                sent, fault = None, describe(error)
            if not self._admitted(arguments):
                continue
            if fault:
                raise _Fault("input %d cannot be handed over: %s" % (number, fault))
            yield _Trial(number, arguments, sent, len(line))

    def _admitted(self, arguments: list[Any]) -> bool:
        if self.contract is None:
            return True
        try:
            self.contract(*arguments)
        except Exception:
            return False
        return True

    def expected(self, trial: _Trial) -> tuple[Any, Any]:
        """What the reference answers, as a plain value, and that value as it is sent."""
        arguments = plain.decode(trial.sent)  # the reference may change its own copy
        try:
            value = self.reference(*arguments)
            sent = plain.encode(value, strict=True)
        except Exception as error:
            raise _Fault("the reference fails on input %d: %s" % (trial.number, describe(error))) from None
        return (value if type(value) in compare.ATOMS else plain.decode(sent)), sent

    def right(self, trial: _Trial, expected: Any, answer: Any) -> bool:
        if compare.agrees(self.params["rule"], trial.arguments, expected, answer, self.params["atol"]):
            return True
        if self.alternative is None:
            return False
        other = self.alternative(*plain.decode(trial.sent))
        return compare.agrees(self.params["rule"], trial.arguments, other, answer, self.params["atol"])


def run_reference(stage: Stage, load_submission: Callable[[], Any]) -> None:
    stage.held.code()
    try:
        judge = _Judge(stage)
    except Exception as error:
        raise HarnessFault("the reference cannot be loaded: " + describe(error)) from None
    line = getattr(load_submission(), "_line", None)
    if line is None:
        raise HarnessFault("the reference convention judges a candidate in a process of its own")
    failed = ""
    for name, file in stage.params["groups"]:
        challenge = stage.channel.ask("start", id=name)
        try:
            error = "not run, since %s failed" % failed if failed else _group(stage, judge, line, stage.held.data[file])
        except _Fault as fault:
            line.fault = "%s: %s" % (name, fault)
            return
        failed = failed or (name if error else "")
        outcome = "failed" if error else "passed"
        stage.channel.tell("end", id=name, outcome=outcome, message=error, challenge=challenge)


def _group(stage: Stage, judge: _Judge, line: Any, text: bytes) -> str:
    """The first input that is answered wrongly, in words; empty where there is none."""
    seen = 0
    for chunk in _chunks(judge.trials(text)):
        request = {"inputs": [trial.sent for trial in chunk], "of": judge.params["entry_point"]}
        try:
            answers = line.stream(request, len(chunk))
        except Exception as error:
            return "input %d: %s" % (chunk[0].number, describe(error))
        for trial in chunk:
            expected, sent = judge.expected(trial)
            if trial is chunk[0]:
                _canary(stage, judge, trial, expected)
            try:
                wrong = _wrong(judge, trial, expected, sent, next(answers))
            except Exception as error:
                wrong = describe(error)
            if wrong:
                return "input %d: %s" % (trial.number, wrong)
            seen += 1
    if not seen:
        raise _Fault("no input is within the task's contract")
    return ""


def _wrong(judge: _Judge, trial: _Trial, expected: Any, sent: Any, answer: Any) -> str:
    if "raised" in answer:
        # Of the candidate's own making, as all that it sends: even where it is empty, it is no right answer.
        return "raised " + str(answer["raised"])[:300]
    value = answer["value"]
    if value == sent and judge.params["rule"] == "equal" and type(value) is type(sent):
        return ""
    value = plain.decode(value)
    return "" if judge.right(trial, expected, value) else "got %s, not %s" % (_short(value), _short(expected))


def _canary(stage: Stage, judge: _Judge, trial: _Trial, expected: Any) -> None:
    """An answer that is wrong whatever was expected. To the rule ``not_none`` that is one of the other kind."""
    if judge.params["rule"] == "not_none":
        wrong = Wrong() if expected is None or expected is False else None
    else:
        wrong = twin(expected)
    try:
        passed = judge.right(trial, expected, wrong)
    except Exception:
        passed = False
    if passed:
        raise _Fault("a meaningless answer to input %d counts as right" % trial.number)
    stage.channel.tell("canary", kind="unguessable answer", outcome="failed")


def _chunks(trials: Iterator[_Trial]) -> Iterator[list[_Trial]]:
    chunk: list[_Trial] = []
    for trial in trials:
        chunk.append(trial)
        if len(chunk) >= CHUNK_INPUTS or sum(t.size for t in chunk) > CHUNK_BYTES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
