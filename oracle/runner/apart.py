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
from .conventions import HarnessFault, Stage, describe
from .heldout import HeldOut, Watch
from .report import Channel
from .shared import NotLoaded, flush, load_submission


class CandidateError(Exception):
    """An exception of the candidate that is none of the built-in ones."""


# -- the candidate's side ------------------------------------------------------------------------


def serve(fd: int, module_name: str, work: str) -> None:
    """Load the submission, then answer ``get`` and ``call`` until the verifier is gone."""
    receive, send, encode, decode = wire.receive, wire.send, plain.encode, plain.decode
    try:
        module = load_submission(module_name, work)
    except NotLoaded as error:
        send(fd, {"error": str(error)})
        return
    send(fd, {"loaded": True})
    while True:
        try:
            request = receive(fd)
        except wire.Closed:
            return
        if "get" in request:
            send(fd, _get(module, request["get"], encode))
        elif "inputs" in request:
            _stream(fd, module, request, encode, decode)
        else:
            send(fd, _call(module, request, encode, decode))


def _get(module: Any, name: str, encode: Callable[..., Any]) -> Any:
    try:
        value = getattr(module, name)
    except AttributeError:
        return {"kind": "missing"}
    return {"kind": "function"} if callable(value) else {"kind": "value", "value": encode(value)}


def _call(module: Any, request: Any, encode: Callable[..., Any], decode: Callable[..., Any]) -> Any:
    arguments, options = decode(request["args"]), decode(request["options"])
    try:
        value = encode(getattr(module, request["call"])(*arguments, **options))
    except BaseException as error:
        return {"raised": [kind.__name__ for kind in type(error).__mro__], "text": describe(error)}
    return {"value": value, "after": _altered(request["args"], arguments, encode)}


def _stream(fd: int, module: Any, request: Any, encode: Callable[..., Any], decode: Callable[..., Any]) -> None:
    """One answer for each input, in order; small ones are sent together."""
    held, frame, write_all = bytearray(), wire.frame, wire.write_all
    for arguments in request["inputs"]:
        try:
            answer = {"value": encode(getattr(module, request["of"])(*decode(arguments)))}
        except BaseException as error:
            answer = {"raised": describe(error)}
        held += frame(answer)
        if len(held) > _TOGETHER:
            write_all(fd, held)
            held = bytearray()
    write_all(fd, held)


_TOGETHER = 16 * 1024


def _altered(before: Any, arguments: Any, encode: Callable[..., Any]) -> Any:
    after = encode(arguments)
    return None if after == before else after


# -- the verifier's side -------------------------------------------------------------------------


def verify(job: dict[str, Any], channel: Channel, fd: int) -> None:
    """Run the held-out tests against the candidate at the other end of ``fd``, and report."""
    line = Line(fd)
    try:
        watch = Watch(lambda what: channel.tell("tamper", what=what))
        held = HeldOut(job["held_out"], None)
        try:
            held.code()
        except SyntaxError as error:
            raise HarnessFault("the held-out tests do not compile: " + describe(error)) from None
        stage = Stage(channel, held, watch, job["params"], lambda: None)
        sys.meta_path.append(held)
        CONVENTIONS[job["convention"]](stage, lambda: _stand_in(job["params"]["module"], line, channel))
    except NotLoaded as error:
        channel.tell("load_error", message=str(error))
    except HarnessFault as error:
        channel.tell("harness", message=str(error))
    except BaseException as error:
        channel.tell("load_error", message="the held-out tests did not run: " + describe(error))
    flush()
    if line.fault:
        channel.tell("harness", message=line.fault, verifier=True)
    channel.tell("finish")


def _stand_in(name: str, line: Line, channel: Channel) -> StandIn:
    answer = line.receive()
    if "error" in answer:
        raise NotLoaded(str(answer["error"])[:500])
    channel.tell("loaded")
    module = StandIn(name, line)
    sys.modules[name] = module
    return module


class Line:
    """The verifier's end of the line to a candidate; every answer is taken as hostile."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.fault = ""

    def receive(self) -> dict[str, Any]:
        try:
            answer = wire.receive(self._fd)
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
        request = {"call": name, "args": line.encode(list(arguments)), "options": line.encode(options)}
        answer = line.ask(request)
        if "raised" in answer:
            raise _exception(answer)
        after = plain.decode(answer.get("after"))
        if isinstance(after, list) and len(after) == len(arguments):
            for mine, theirs in zip(arguments, after):  # noqa: B905 - Python 3.9 has no strict
                _follow(mine, theirs)
        return plain.decode(answer.get("value"))

    candidate.__name__ = candidate.__qualname__ = name
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
