"""Text from agents and graders, made safe and visible: nothing in it may act, and nothing in it may hide."""

from __future__ import annotations

import html
import re
from pathlib import Path

LIMIT = 48 * 1024  # characters of one text that a page shows: the first three quarters and the last one
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f"  # control characters but tab and newline
    "\x80-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible
    "\ud800-\udfff\U000e0000-\U000e007f]"  # half characters, which no encoding can carry, and tags
)


def shown(text: str) -> str:
    """HTML of a text: markup escaped, control characters as pictures, invisible ones by their number."""
    return html.escape(_INVISIBLE.sub(_picture, text.replace("\r\n", "\n")))


def plain_text(text: object) -> str:
    """A name or other short text without what cannot be shown; not yet escaped."""
    return _INVISIBLE.sub(_picture, str(text))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def excerpt(path: Path, limit: int = LIMIT) -> str:
    """The text of a file, its middle left out (and said to be) where it is long; undecodable bytes are shown."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= limit:
            return file.read().decode("utf-8", "backslashreplace")
        head = file.read(3 * limit // 4)
        file.seek(size - limit // 4)
        tail = file.read()
    return _bounded(head, tail, size)


def _bounded(head: bytes, tail: bytes, size: int) -> str:
    left_out = size - len(head) - len(tail)
    cut = f"\n\n[... {left_out:,} bytes left out ...]\n\n"
    return head.decode("utf-8", "backslashreplace") + cut + tail.decode("utf-8", "backslashreplace")


def bounded(text: str, limit: int = LIMIT) -> str:
    """A text, its middle left out (and said to be) where it is long."""
    if len(text) <= limit:
        return text
    left_out = len(text) - limit
    return f"{text[: 3 * limit // 4]}\n\n[... {left_out:,} characters left out ...]\n\n{text[-(limit // 4) :]}"
