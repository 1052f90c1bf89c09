"""A grading whose candidate runs in a process of its own.

The verifier process holds the held-out tests and never runs a byte of the submission; the candidate
process holds the submission and is never told an expected value. Calls cross between them as plain
values (:mod:`runner.plain`). What a submission does to its own interpreter (patched builtins, lying
classes, frames, the heap) therefore cannot reach the judgement; it can only give a wrong answer.
"""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any, Callable, Iterator

from . import plain, wire
from .catalogue import CONVENTIONS
from .conventions import HarnessFault, Stage
from .heldout import HeldOut, Watch
from .loading import NotLoaded, describe, flush
from .report import Channel


class CandidateError(Exception):
    """An exception of the candidate that is none of the built-in ones."""


class Untaken(Exception):
    """The candidate's process ended with its job unread, so nothing of the submission ever ran.

    No submission can feign it: the job is read before it is loaded, and nothing else is sent before it answers.
    """


def verify(job: dict[str, Any], channel: Channel, fd: int) -> list[types.CodeType]:
    """Run the held-out tests against the candidate at the other end of ``fd``, and report all but the end of it.

    Returns what they are compiled to. Raises Untaken.
    """
    line, held = Line(fd), HeldOut(job["held_out"], None)
    try:
        watch = Watch(lambda what: channel.tell("tamper", what=what))
        try:
            held.code()
        except SyntaxError as error:
            raise HarnessFault("the held-out tests do not compile: " + describe(error)) from None
        stage = Stage(channel, held, watch, job["params"], lambda: None)
        sys.meta_path.append(held)
        CONVENTIONS[job["convention"]](stage, lambda: _stand_in(job["params"], line, channel))
    except Untaken:
        raise
    except NotLoaded as error:
        channel.tell("load_error", message=str(error))
    except HarnessFault as error:
        channel.tell("harness", message=str(error))
    except BaseException as error:
        channel.tell("load_error", message="the held-out tests did not run: " + describe(error))
    flush()
    if line.fault:
        channel.tell("harness", message=line.fault, verifier=True)
    return held.compiled()


def _stand_in(params: dict[str, Any], line: Line, channel: Channel) -> StandIn:
    # Before this answer nothing but the job was sent, so nothing else can have been left unread.
    answer = line.receive(unread=Untaken)
    if "error" in answer:
        raise NotLoaded(str(answer["error"])[:500])
    channel.tell("loaded")
    module = StandIn(params["module"], line)
    got = answer.get("got")
    if isinstance(got, dict) and got.get("kind") == "function":
        vars(module)[params["entry_point"]] = _function(line, params["entry_point"])
    sys.modules[params["module"]] = module
    return module


class Line:
    """The verifier's end of the line to a candidate; every answer is taken as hostile."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._receive = wire.reader(fd)
        self.fault = ""

    def receive(self, unread: type[Exception] = CandidateError) -> dict[str, Any]:
        """Raises ``unread`` where the candidate ended and left unread what it had been sent, else CandidateError."""
        try:
            answer = self._receive()
        except wire.Reset as error:
            raise unread("the candidate's process left unread what it was sent, and ended: %s" % error) from None
        except wire.Closed as error:
            raise CandidateError("the candidate's process ended: %s" % error) from None
        if not isinstance(answer, dict):
            raise CandidateError("the candidate's process broke the protocol")
        return answer

    def ask(self, request: Any) -> dict[str, Any]:
        self._send(request)
        return self.receive()

    def stream(self, request: Any, count: int) -> Iterator[dict[str, Any]]:
        """``count`` answers to one request, each taken when it is asked for."""
        self._send(request)
        return (self.receive() for _ in range(count))

    def _send(self, request: Any) -> None:
        try:
            wire.send(self._fd, request)
        except wire.Closed as error:
            raise CandidateError("the candidate's process ended: %s" % error) from None

    def encode(self, value: Any) -> Any:
        try:
            return plain.encode(value, strict=True)
        except plain.NotPlain as error:
            self.fault = str(error)
            raise
        except plain.Foreign as error:
            raise CandidateError(str(error)) from None


class StandIn(types.ModuleType):
    """The submission's module as the held-out tests see it."""

    def __init__(self, name: str, line: Line) -> None:
        super().__init__(name)
        self._line = line

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        answer = self._line.ask({"get": name})
        if answer.get("kind") == "function":
            return _function(self._line, name)
        if answer.get("kind") == "value":
            return plain.decode(answer.get("value"))
        raise AttributeError("module %r has no attribute %r" % (self.__name__, name))


def _function(line: Line, name: str) -> Callable[..., Any]:
    def candidate(*arguments: Any, **options: Any) -> Any:
        request = {"call": name, "args": line.encode(list(arguments))}
        if options:
            request["options"] = line.encode(options)
        answer = line.ask(request)
        if "raised" in answer:
            raise _exception(answer)
        after = plain.decode(answer.get("after"))
        if isinstance(after, list) and len(after) == len(arguments):
            for mine, theirs in zip(arguments, after):  # noqa: B905 - Python 3.9 has no strict
                _follow(mine, theirs)
        return plain.decode(answer.get("value"))

    candidate.__name__ = candidate.__qualname__ = name
    plain.mark(candidate)
    return candidate


def _follow(mine: Any, theirs: Any) -> None:
    """Repeat what the candidate did to an argument of its own, where it can be seen by the caller."""
    if type(mine) is list and type(theirs) is list:
        mine[:] = theirs
    elif type(mine) in (dict, set) and type(theirs) is type(mine):
        mine.clear()
        mine.update(theirs)


def _exception(answer: dict[str, Any]) -> BaseException:
    names = answer["raised"] if isinstance(answer["raised"], list) else []
    text = str(answer.get("text"))[:500]
    for name in names:
        kind = getattr(builtins, str(name), None)
        if isinstance(kind, type) and issubclass(kind, Exception) and kind is not Exception:
            try:
                return kind(text.partition(": ")[2])
            except TypeError:
                break
    return CandidateError(text)
