"""Length-prefixed JSON over a file descriptor: four bytes, big endian, then that many bytes of UTF-8."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Callable

MAX_FRAME = 64 * 1024 * 1024

_HEAD = struct.Struct(">I")


class Closed(Exception):
    """The other end is gone, or spoke something else than this protocol."""


def frame(message: Any) -> bytes:
    body = json.dumps(message).encode("utf-8")
    return _HEAD.pack(len(body)) + body


def write_all(fd: int, data: bytes, write: Callable[[int, Any], int] = os.write) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[write(fd, view) :]
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
            raise Closed(str(error)) from None
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
    (size,) = _HEAD.unpack(head)
    if size > limit:
        raise Closed("a frame of %d bytes is over the limit of %d" % (size, limit))
    return parsed(read_exactly(fd, size))


class Reader:
    """Messages from one descriptor that nothing else reads: most take one system call."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()

    def receive(self) -> Any:
        """As :func:`receive`."""
        buffer = self._buffer
        while True:
            whole = split_frame(buffer)
            if whole is not None:
                return parsed(whole)
            try:
                part = os.read(self._fd, 1 << 16)
            except ConnectionError as error:
                raise Closed(str(error)) from None
            if not part:
                raise Closed("end of stream")
            buffer += part


def parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Closed("not JSON: %s" % type(error).__name__) from None


def split_frame(buffer: bytearray, limit: int = MAX_FRAME) -> bytes | None:
    """Take one whole frame's body off the front of ``buffer``, or None. Raises Closed when oversized."""
    if len(buffer) < 4:
        return None
    (size,) = _HEAD.unpack_from(buffer)
    if size > limit:
        raise Closed("a frame of %d bytes is over the limit of %d" % (size, limit))
    if len(buffer) < 4 + size:
        return None
    body = bytes(buffer[4 : 4 + size])
    del buffer[: 4 + size]
    return body
