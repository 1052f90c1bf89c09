"""Where a pinned dataset comes from: a file, an address or a Hugging Face repository, held to its hash."""

from __future__ import annotations

import urllib.parse
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from recurve_eval.benchmarks import hub, loading
from recurve_eval.domain import digest
from recurve_eval.errors import ConfigError, Drift


class NotHere(ConfigError):
    """A dataset is neither on this machine nor to be had from an address."""


@dataclass
class Source:
    """One dataset file. Nothing is read before it is asked for.

    Attributes
    ----------
    what : str
        What the dataset is called in messages.
    file : str
        Its path below ``$RECURVE_DATA``.
    path : str, optional
        A file to take instead.
    url : str, optional
        Where to get it otherwise: ``http(s)://``, ``file://``, or ``hf://datasets/OWNER/NAME@REVISION/FILE``.
        ``None`` never downloads.
    sha256 : str, optional
        SHA-256 (hex) of the content: decompressed, and of a Parquet file its records as JSON Lines. ``None``
        accepts any.
    timeout_s : float
        Seconds to wait for a server at each step.
    key : str
        The option that holds this source's settings, for messages.
    """

    what: str
    file: str
    path: str | None
    url: str | None
    sha256: str | None
    timeout_s: float = 30.0
    key: str = "task"

    @cached_property
    def place(self) -> Path:
        """The file on this machine, downloaded into the cache where need be.

        Raises
        ------
        ConfigError
            It is nowhere, or its address cannot be used or reached.
        Drift
            What was downloaded is not what is pinned; nothing is kept.
        """
        if self.path:
            return Path(self.path).expanduser()
        local = loading.data_file(self.file)
        if local is not None:
            return local
        if not self.url:
            raise NotHere(f"the {self.what} dataset is not on this machine, and {self.key}.url is null. {self._advice}")
        if urllib.parse.urlsplit(self.url).scheme == "file":
            return _local(self.url)
        return self._cached(self.url)

    @cached_property
    def content(self) -> bytes:
        """The pinned bytes. Raises ConfigError where they cannot be read, Drift where they are others."""
        content = loading.read_content(self.place)
        loading.check_hash(content, self.sha256, str(self.place), self.remedy)
        return content

    @cached_property
    def sha256_found(self) -> str:
        return loading.check_hash(self.content, None, str(self.place), "")

    @property
    def remedy(self) -> str:
        return (
            f"replace {self.place} by the pinned file (a cached copy is fetched again once deleted), "
            f"or pin this one ({self.key}.sha256, {self.key}.count, {self.key}.revision)"
        )

    def check_count(self, found: int, pinned: int | None) -> None:
        """Raises Drift where the dataset has another number of tasks than is pinned."""
        if pinned is not None and found != pinned:
            raise Drift(f"{self.place} has {found} tasks, {self.key}.count pins {pinned}: {self.remedy}")

    @property
    def _advice(self) -> str:
        return f"Set {self.key}.path to a copy of the file, or RECURVE_DATA to a directory that holds {self.file}"

    def _cached(self, url: str) -> Path:
        # By its address, so that two addresses never answer for each other.
        cached = loading.cache_dir() / "datasets" / digest(url)[:16] / Path(self.file).name
        if not cached.is_file():
            if urllib.parse.urlsplit(url).scheme == "hf":
                hub.fetch(url, cached, self.sha256, self.timeout_s, self._advice)
            else:
                loading.download(url, cached, self.sha256, self.timeout_s, self._advice)
        return cached


def _local(url: str) -> Path:
    parts = urllib.parse.urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise ConfigError(f"{url!r} names a file of another machine ({parts.netloc}); write file:///absolute/path")
    return Path(urllib.request.url2pathname(parts.path))
