"""Dataset files of the Hugging Face Hub, by repository, revision and path. Needs the ``hf`` extra."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from recurve_eval.benchmarks import loading
from recurve_eval.errors import ConfigError

_ADDRESS = re.compile(r"hf://datasets/(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/]+))?/(?P<file>.+)")
_FORM = "hf://datasets/OWNER/NAME@REVISION/FILE"


class Address(NamedTuple):
    repo: str
    revision: str
    file: str


def parse(url: str) -> Address:
    """The parts of an address. Raises ConfigError; an address without a revision would mean what changes under it."""
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise ConfigError(f"{url!r} is not of the form {_FORM}")
    if match["revision"] is None:
        raise ConfigError(f"{url!r} names no revision: write {_FORM}, with a commit or a tag")
    return Address(match["repo"], match["revision"].replace("%2F", "/"), match["file"])


def fetch(url: str, target: Path, sha256: str | None, timeout_s: float, remedy: str) -> Path:
    """Bring one file to ``target``, which appears only when it is whole and its content is as pinned.

    Parquet is written as JSON Lines, one record a line with sorted keys. ``HF_ENDPOINT`` and ``HF_TOKEN`` count.

    Raises
    ------
    ConfigError
        The extra is not installed, or the file cannot be had.
    Drift
        What came is not what is pinned; nothing is kept.
    """
    address = parse(url)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".part-") as place:
        got = _download(address, url, Path(place), timeout_s, remedy)
        part = Path(place) / "content"
        if address.file.endswith(".parquet"):
            part.write_bytes(_json_lines(got))
        else:
            shutil.copyfile(got, part)
        loading.check_hash(loading.read_content(part), sha256, url, remedy)
        part.replace(target)
    return target


def _download(address: Address, url: str, place: Path, timeout_s: float, remedy: str) -> Path:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault(
        "HF_HUB_DISABLE_XET", "1"
    )  # its transfer service is another host, which HF_ENDPOINT does not move
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise ConfigError(
            f"{url} needs the package huggingface_hub: pip install 'recurve-eval[hf]'. {remedy}"
        ) from None
    try:
        got = hf_hub_download(
            address.repo, address.file, repo_type="dataset", revision=address.revision, cache_dir=place / "hub",
            etag_timeout=timeout_s,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - its client raises errors of several libraries
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(f"cannot download {url}: {type(error).__name__}: {first}. {remedy}") from None
    return Path(got)


def _json_lines(path: Path) -> bytes:
    import pyarrow.parquet

    try:
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path.name} is not a Parquet file: {error}") from None
    return b"".join(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() + b"\n" for row in rows)


__all__ = ["Address", "fetch", "parse"]
