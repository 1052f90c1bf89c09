"""Length-prefixed JSON over a file descriptor: four bytes, big endian, then that many bytes of UTF-8."""

from __future__ import annotations

import json
import os
from typing import Any, Callable

MAX_FRAME = 64 * 1024 * 1024


class Closed(Exception):
    """The other end is gone, or spoke something else than this protocol."""


class Reset(Closed):
    """The other end is gone, and left unread what it had been sent."""


def _writer() -> Callable[[Any], str]:
    """``json.dumps``, made of C objects alone where this Python has them.

    What is written in Python there looks up the rest of itself by name at each call: a submission in this process
    could put its own in the way of a report. It also takes longer, and touches more pages.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder().encode
    quote, join = json.encoder.encode_basestring_ascii, "".join
    parts = make(None, _refuse, quote, None, ": ", ", ", False, False, True)

    def dumps(value: Any) -> str:
        return join(parts(value, 0))

    return dumps


def _refuse(value: Any) -> Any:
    raise TypeError("no JSON for %s" % type(value).__name__)


def _parser() -> Callable[[str | bytes], Any]:
    """``json.loads``, likewise, of JSON with nothing around it. Raises ValueError, RecursionError."""
    scan = json.JSONDecoder().scan_once

    def loads(data: str | bytes) -> Any:
        text = data if type(data) is str else str(data, "utf-8")
        try:
            value, end = scan(text, 0)
        except StopIteration:
            raise ValueError("not JSON") from None
        if end != len(text):
            raise ValueError("more than JSON")
        return value

    return loads


dumps, loads = _writer(), _parser()


def frame(message: Any, dumps: Callable[[Any], str] = dumps) -> bytes:
    body = dumps(message).encode("utf-8")
    return len(body).to_bytes(4, "big") + body


def write_all(fd: int, data: bytes | bytearray, write: Callable[[int, Any], int] = os.write) -> None:
    done = 0
    try:
        while done < len(data):  # of nothing, no write: where the other end is gone that would be a failure
            done += write(fd, memoryview(data)[done:] if done else data)
    except (BrokenPipeError, ConnectionError) as error:
        raise Closed(str(error)) from None


def send(fd: int, message: Any) -> None:
    write_all(fd, frame(message))


def read_exactly(fd: int, count: int, read: Callable[[int, int], bytes] = os.read) -> bytes:
    parts = []
    while count:
        try:
            part = read(fd, min(count, 1 << 20))
        except ConnectionError as error:
            raise Reset(str(error)) from None
        if not part:
            raise Closed("end of stream")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def receive(fd: int, limit: int = MAX_FRAME) -> Any:
    """One message. Raises Closed on end of stream, an oversized frame or anything that is not JSON."""
    return body(fd, read_exactly(fd, 4), limit)


def body(fd: int, head: bytes, limit: int = MAX_FRAME) -> Any:
    """The message whose first four bytes have been read already; as :func:`receive`."""
    size = int.from_bytes(head, "big")
    if size > limit:
        raise Closed("a frame of %d bytes is over the limit of %d" % (size, limit))
    return parsed(read_exactly(fd, size))


def reader(fd: int) -> Callable[[], Any]:
    """As :func:`receive`, for a descriptor that nothing else reads: most messages take one system call.

    The first look takes little memory: most messages are short, and each page of it would be one to copy.
    """
    buffer, read = bytearray(), os.read
    look = [_SHORT]

    def receive() -> Any:
        while True:
            whole = split_frame(buffer)
            if whole is not None:
                return parsed(whole)
            try:
                part = read(fd, look[0])
            except ConnectionError as error:
                raise Reset(str(error)) from None
            if not part:
                raise Closed("end of stream")
            if len(part) == look[0]:
                look[0] = _LONG
            elif not buffer and len(part) > 4 and int.from_bytes(part[:4], "big") == len(part) - 4:
                return parsed(part[4:])
            buffer.extend(part)

    return receive


# Bytes: of what Python's own allocator still holds in a page that it uses anyway, and of many messages at once.
_SHORT, _LONG = 448, 1 << 16


def parsed(text: bytes) -> Any:
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        raise Closed("not JSON: %s" % type(error).__name__) from None


def split_frame(buffer: bytearray, limit: int = MAX_FRAME) -> bytes | None:
    """Take one whole frame's body off the front of ``buffer``, or None. Raises Closed when oversized."""
    if len(buffer) < 4:
        return None
    size = int.from_bytes(buffer[:4], "big")
    if size > limit:
        raise Closed("a frame of %d bytes is over the limit of %d" % (size, limit))
    if len(buffer) < 4 + size:
        return None
    body = bytes(buffer[4 : 4 + size])
    del buffer[: 4 + size]
    return body
