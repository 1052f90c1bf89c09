"""Reading pinned data: where it lies, how it is fetched, and how a record that is wrong is named."""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import os
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recurve_eval.domain import JSON, is_text
from recurve_eval.errors import ConfigError, Drift

MAX_DOWNLOAD_BYTES = 64 * 1024 * 1024
MAX_CONTENT_BYTES = 512 * 1024 * 1024
_CHUNK = 64 * 1024


def data_file(relative: str) -> Path | None:
    """A file below ``$RECURVE_DATA``, or None where that is not set or does not hold it."""
    root = os.environ.get("RECURVE_DATA")
    if not root:
        return None
    path = Path(root).expanduser() / relative
    return path if path.is_file() else None


def cache_dir() -> Path:
    """Where downloads are kept: ``$RECURVE_CACHE``, else the user's cache directory."""
    own = os.environ.get("RECURVE_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "recurve_eval"


def read_content(path: Path) -> bytes:
    """A file's bytes, decompressed where it is gzip (by its magic number, not its name).

    Raises
    ------
    ConfigError
        The file is absent, unreadable, damaged, or larger than ``MAX_CONTENT_BYTES``.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            content = (gzip.GzipFile(fileobj=raw) if packed else raw).read(MAX_CONTENT_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_CONTENT_BYTES:
        raise ConfigError(f"{path} holds more than {MAX_CONTENT_BYTES} bytes; this is not the dataset")
    return bytes(content)


def check_hash(content: bytes, expected: str | None, source: str, remedy: str) -> str:
    """SHA-256 (hex) of ``content``. Raises Drift where it is not the expected one; None expects nothing."""
    found = hashlib.sha256(content).hexdigest()
    if expected is not None and found != expected.lower():
        raise Drift(f"{source}: the content's sha256 is {found}, but {expected} is pinned. {remedy}")
    return found


def records(content: bytes, source: str) -> Iterator[tuple[int, dict[str, JSON]]]:
    """Line number (from 1) and object of each line of JSON Lines; blank lines are passed over.

    Raises
    ------
    ConfigError
        A line is not UTF-8, not JSON, or not an object; the message gives its number.
    """
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{source}, line {number}: not JSON: {error}") from None
        if not isinstance(value, dict):
            raise ConfigError(f"{source}, line {number}: expected an object, got {type(value).__name__}")
        yield number, value


def text_field(record: dict[str, JSON], key: str, source: str, line: int) -> str:
    """A record's non-blank string. Raises ConfigError with file, line and key where it is anything else."""
    value = record.get(key)
    if not isinstance(value, str):
        what = "is missing" if key not in record else f"must be a string, not {type(value).__name__}"
        raise ConfigError(f"{source}, line {line}: '{key}' {what}")
    if not value.strip():
        raise ConfigError(f"{source}, line {line}: '{key}' is empty")
    if not is_text(value):
        raise ConfigError(f"{source}, line {line}: '{key}' is not text (it holds half of a surrogate pair)")
    return value


def python(text: str, what: str) -> ast.Module:
    """A record's Python, parsed. Raises ConfigError, beginning with ``what``, where it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in strings, which are the dataset's own affair
            return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{what} is not Python: {error}") from None


def download(url: str, target: Path, sha256: str | None, timeout_s: float, remedy: str) -> Path:
    """Fetch ``url`` to ``target``, which appears only when it is whole and its content is as pinned.

    Progress goes to stderr. ``timeout_s`` bounds each wait for the server, in seconds.

    Raises
    ------
    ConfigError
        The URL is not http(s), cannot be reached, or sends more than ``MAX_DOWNLOAD_BYTES``.
    Drift
        What came is not what is pinned; nothing is kept.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"cannot download {url!r}: only http and https URLs are fetched. {remedy}")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            _fetch(url, out, timeout_s, remedy)
        check_hash(read_content(part), sha256, url, remedy)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _fetch(url: str, out: Any, timeout_s: float, remedy: str) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "recurve-eval"})
    done = 0
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            total = int(reply.headers.get("Content-Length") or 0)
            while chunk := reply.read(_CHUNK):
                done += len(chunk)
                if done > MAX_DOWNLOAD_BYTES:
                    raise ConfigError(f"{url} sends more than {MAX_DOWNLOAD_BYTES} bytes; this is not the dataset")
                out.write(chunk)
                _progress(url, done, total, last=False)
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        raise ConfigError(f"cannot download {url}: {reason}. {remedy}") from None
    if total and done < total:
        raise ConfigError(f"cannot download {url}: it ended after {done} of {total} bytes. {remedy}")
    _progress(url, done, total, last=True)


def _progress(url: str, done: int, total: int, last: bool) -> None:
    size = f"{done / 1024:.0f} of {total / 1024:.0f} KiB" if total else f"{done / 1024:.0f} KiB"
    if sys.stderr.isatty():
        sys.stderr.write(f"\rdownloading {url}: {size}" + ("\n" if last else ""))
    elif last:
        sys.stderr.write(f"downloaded {url}: {size}\n")
    sys.stderr.flush()
