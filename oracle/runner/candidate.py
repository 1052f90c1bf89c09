"""The side of a grading that holds the submission and is never told an expected value; see :mod:`runner.apart`."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, Callable

from . import children, plain, wire
from .children import Role
from .loading import NotLoaded, describe, load_submission


def serve(fd: int, receive: Callable[[], Any], job: dict[str, Any], work: str) -> None:
    """Load the submission, then answer ``get`` and ``call`` until the verifier is gone.

    The first answer says that it is loaded, and what the name is that the job asks for. ``receive`` reads from ``fd``.
    """
    send, encode, decode = wire.send, plain.encode, plain.decode
    try:
        module = load_submission(job["module"], work)
    except NotLoaded as error:
        send(fd, {"error": str(error)})
        return
    send(fd, {"loaded": True, "got": _get(module, job["get"], encode) if job["get"] else {}})
    while True:
        try:
            request = receive()
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
    arguments, options = decode(request["args"]), decode(request["options"]) if "options" in request else {}
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


# -- in the server -------------------------------------------------------------------------------


def role(work: str) -> Role:
    """Runs one submission that lies in ``work``."""

    def run(line: int, keys: list[bytes]) -> None:
        receive = wire.reader(line)
        try:
            job = receive()
        except wire.Closed:
            return
        children.begin(job["timeout_s"], work)
        serve(line, receive, job, work)

    return Role(0, run, stays=True)


_TIMES = 20
SUBMISSION = "from typing import List\n\n\ndef same(value: List[int]) -> List[int]:\n    return value\n"
_VALUES = ([1, "a", 2.5], (1, {"k": [True, None]}), "text", 7)


def rehearse(work: str) -> None:
    """What every candidate does, done a few times before the first fork; see :mod:`runner.rehearsal`."""
    os.mkdir(work, 0o700)
    try:
        with open(work + "/rehearsed.py", "w") as file:
            file.write(SUBMISSION)
        for _ in range(_TIMES):
            _once(load_for_rehearsal(work))
    finally:
        os.unlink(work + "/rehearsed.py")
        os.rmdir(work)
        sys.path_importer_cache.pop(work, None)


def load_for_rehearsal(work: str) -> Any:
    """The rehearsed submission, of which the import system then knows nothing."""
    try:
        return load_submission("rehearsed", work)
    finally:
        sys.path.remove(work)
        sys.modules.pop("rehearsed", None)


def _once(module: Any) -> None:
    near, far = socket.socketpair()
    with near, far:
        for value in _VALUES:
            request = {"call": "same", "args": plain.encode([value], strict=True)}
            wire.send(near.fileno(), request)
            wire.send(far.fileno(), _call(module, wire.receive(far.fileno()), plain.encode, plain.decode))
            wire.receive(near.fileno())
