"""Shell scripts that write files: how an agent without a program of its own works inside a sandbox."""

from __future__ import annotations

from collections.abc import Mapping

SHELL = ("/bin/sh", "-s")


def write_files(files: Mapping[str, bytes]) -> bytes:
    """A script for ``sh -s`` that writes each file below the working directory, replacing what stood there."""
    lines = [b"set -e\n"]
    for path, content in sorted(files.items()):
        target = quote(b"./" + path.encode())
        if "/" in path:
            lines.append(b"mkdir -p -- %s\n" % quote(b"./" + path.rpartition("/")[0].encode()))
        # A link, directory or pipe that stands there is replaced, not followed or written into.
        lines.append(b"if [ -L %s ] || [ -d %s ] || [ -p %s ]; then rm -rf -- %s; fi\n" % ((target,) * 4))
        lines.append(put(content, target))
    return b"".join(lines)


def put(content: bytes, target: bytes) -> bytes:
    """One line that writes ``content`` to ``target``, a shell word."""
    if b"\0" in content:
        return b"printf %s > %s\n" % (quote(b"".join(b"\\%03o" % byte for byte in content)), target)
    return b"printf %%s %s > %s\n" % (quote(content), target)


def quote(word: bytes) -> bytes:
    """One shell word that stands for exactly these bytes."""
    return b"'" + word.replace(b"'", b"'\\''") + b"'"
