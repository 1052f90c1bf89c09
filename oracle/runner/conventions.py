"""The conventions: how held-out files become reported tests. Each also runs tests that must fail.

``unittest``
    Every held-out module's TestCases run, by class, in the loader's order; the id is ``Class.test_x``.
    Canaries are TestCases of our own, put between the classes at random.
``check``
    One held-out module defines ``check(candidate)``; the id is ``check``. The canary is the same
    function, in the same process, on a candidate that returns an object nobody can guess.
"""

from __future__ import annotations

import unittest
from typing import Any, Callable, NamedTuple, Optional

from .heldout import HeldOut, Watch, Wrong, below, twin
from .loading import describe
from .report import Channel

# Of everything that must fail: the tests below, the unguessable candidate, the twins and Wrong of heldout, the
# unguessable answer of the reference convention. A change to any of them can change a verdict, and is a new version.
CANARY_VERSION = 2


class Stage(NamedTuple):
    """What a convention runs on. ``changed`` names a replaced part of the test machinery, or None."""

    channel: Channel
    held: HeldOut
    watch: Watch
    params: dict[str, Any]
    changed: Callable[[], Optional[str]]


class HarnessFault(Exception):
    """The held-out tests cannot be run, whatever the submission is."""


# -- unittest ------------------------------------------------------------------------------------


class MustFail(unittest.TestCase):
    """Each method is false whatever the submission does; a pass means that something here lies."""

    def false(self) -> None:
        self.assertTrue(below(2) > 1)

    def different(self) -> None:
        value = _VALUES[below(len(_VALUES))]
        self.assertEqual(value, twin(value))

    def unguessable(self) -> None:
        self.assertIs(Wrong(), Wrong())

    def failing(self) -> None:
        self.fail("on purpose")


_VALUES: tuple[Any, ...] = (1, "a", [1], {"a": 1}, 1.5)
CANARIES = ("false", "different", "unguessable", "failing")


class Result(unittest.TestResult):
    """Reports each test as it ends. A test passes only by one plain success and nothing else."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage
        self._outcome: list[tuple[str, str]] = []
        self._challenge = ""

    def startTest(self, test: Any) -> None:  # noqa: N802
        self._outcome = []
        if not isinstance(test, MustFail):
            self._challenge = self._stage.channel.ask("start", id=_id(test))

    def stopTest(self, test: Any) -> None:  # noqa: N802
        outcome, message = self._outcome[0] if len(self._outcome) == 1 else ("failed", self._messages())
        if isinstance(test, MustFail):
            self._stage.channel.tell("canary", kind=test._testMethodName, outcome=outcome)
            return
        self._accuse_changes()
        self._stage.channel.tell("end", id=_id(test), outcome=outcome, message=message, challenge=self._challenge)

    def _messages(self) -> str:
        return "; ".join(message for _, message in self._outcome)[:400] or "no outcome"

    def _accuse_changes(self) -> None:
        shadowed = [name for name in vars(self) if callable(getattr(type(self), name, None))]
        changed = self._stage.changed() or ("%s of a result was replaced" % shadowed[0] if shadowed else None)
        if changed:
            self._stage.channel.tell("tamper", what=changed)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self._outcome.append(("passed", ""))

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._outcome.append(("failed", describe(err[1])))

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._outcome.append(("failed", describe(err[1])))
        if not isinstance(test, unittest.TestCase):
            self._stage.channel.tell("load_error", message="%s: %s" % (test, describe(err[1])))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._outcome.append(("failed", describe(err[1])))

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._outcome.append(("skipped", str(reason)[:400]))

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._outcome.append(("expected failure", describe(err[1])))

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self._outcome.append(("unexpected success", ""))

    def addDuration(self, test: Any, elapsed: float) -> None:  # noqa: N802
        pass


def _id(test: Any) -> str:
    return "%s.%s" % (type(test).__qualname__, test._testMethodName)


def run_unittest(stage: Stage, load_submission: Callable[[], Any]) -> None:
    load_submission()
    suites: list[Any] = []
    loader = unittest.TestLoader()
    for stem in sorted(stage.held.code()):
        suites += loader.loadTestsFromModule(stage.held.load(stem))
    for name in CANARIES:
        suites.insert(below(len(suites) + 1), MustFail(name))
    unittest.TestSuite(suites).run(Result(stage))


# -- check ---------------------------------------------------------------------------------------


def run_check(stage: Stage, load_submission: Callable[[], Any]) -> None:
    stems = sorted(stage.held.code())
    if len(stems) != 1:
        raise HarnessFault("the check convention takes one held-out module, not %d" % len(stems))
    check = getattr(stage.held.load(stems[0]), "check", None)
    if not callable(check):
        raise HarnessFault("the held-out module defines no check(candidate)")
    if _attempt(check, lambda *a, **k: Wrong()) is None:
        raise HarnessFault("check() passes a candidate that returns a meaningless object")
    submission = load_submission()
    before = below(2) == 1
    if before:
        _canary(stage, check)
    challenge = stage.channel.ask("start", id="check")
    error = _attempt(lambda name: check(getattr(submission, name)), stage.params["entry_point"])
    _accuse(stage)
    outcome = "passed" if error is None else "failed"
    stage.channel.tell("end", id="check", outcome=outcome, message=error or "", challenge=challenge)
    if not before or below(2):
        _canary(stage, check)


def _attempt(function: Callable[[Any], Any], argument: Any) -> str | None:
    try:
        function(argument)
    except BaseException as error:
        return describe(error)
    return None


def _canary(stage: Stage, check: Callable[[Any], Any]) -> None:
    error = _attempt(check, lambda *a, **k: Wrong())
    stage.channel.tell("canary", kind="unguessable candidate", outcome="failed" if error else "passed")


def _accuse(stage: Stage) -> None:
    changed = stage.changed()
    if changed:
        stage.channel.tell("tamper", what=changed)
