"""Where pinned data comes from: files, addresses and the Hugging Face Hub, each held to its hash."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import importlib.util
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.benchmarks import hub
from recurve_eval.benchmarks.source import Source
from recurve_eval.errors import ConfigError, Drift

LINES = b'{"task_id": "a"}\n{"task_id": "b"}\n'
PACKED = gzip.compress(LINES)
RIGHT = hashlib.sha256(LINES).hexdigest()
COMMIT = "1" * 40


def source(**changes: Any) -> Source:
    fields: dict[str, Any] = {
        "what": "sample",
        "file": "sample/tasks.jsonl.gz",
        "path": None,
        "url": None,
        "sha256": RIGHT,
    }
    return Source(**{**fields, **changes})


pytestmark = pytest.mark.usefixtures("places")


class Shelf(http.server.BaseHTTPRequestHandler):
    """Serves files by path, with the headers that the Hub's clients ask for."""

    files: dict[str, bytes] = {}
    asked: list[str] = []

    def do_HEAD(self) -> None:
        self._reply(body=False)

    def do_GET(self) -> None:
        self._reply(body=True)

    def _reply(self, body: bool) -> None:
        self.asked.append(f"{self.command} {self.path}")
        content = self.files.get(self.path)
        self.send_response(404 if content is None else 200)
        if content is None:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("ETag", f'"{hashlib.sha1(content or b"").hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if body:
            self.wfile.write(content or b"")

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shelf) as shelf:
        thread = threading.Thread(target=shelf.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        Shelf.asked.clear()
        Shelf.files = {"/one": PACKED, "/two": gzip.compress(b"{}\n")}
        yield f"http://127.0.0.1:{shelf.server_address[1]}"
        shelf.shutdown()
        thread.join()


def cached(places: Path) -> list[Path]:
    return [p for p in (places / "cache").rglob("*") if p.is_file()]


def test_a_path_wins_over_everything(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "sample").mkdir()
    (places / "sample" / "tasks.jsonl.gz").write_bytes(gzip.compress(b"other"))
    (places / "mine.jsonl").write_bytes(LINES)
    monkeypatch.setenv("RECURVE_DATA", str(places))
    assert source(path=str(places / "mine.jsonl")).content == LINES
    with pytest.raises(Drift, match=f"{RIGHT} is pinned"):
        _ = source().content


def test_a_file_address_is_read_where_it_lies(places: Path) -> None:
    (places / "my tasks.jsonl.gz").write_bytes(PACKED)
    url = (places / "my tasks.jsonl.gz").as_uri()
    assert "%20" in url and source(url=url).content == LINES
    assert cached(places) == []
    with pytest.raises(ConfigError, match="names a file of another machine"):
        _ = source(url="file://elsewhere/tasks.jsonl").content
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere"):
        _ = source(url="file:///nowhere").content


def test_downloaded_once_and_only_as_pinned(places: Path, server: str) -> None:
    for _ in range(2):
        assert source(url=f"{server}/one").content == LINES
    assert Shelf.asked == ["GET /one"] and len(cached(places)) == 1
    with pytest.raises(Drift, match="the content's sha256 is"):
        _ = source(url=f"{server}/two").content
    assert len(cached(places)) == 1


def test_one_address_never_answers_for_another(places: Path, server: str) -> None:
    assert source(url=f"{server}/one", sha256=None).content == LINES
    assert source(url=f"{server}/two", sha256=None).content == b"{}\n"


def test_many_at_once_get_one_whole_file(places: Path, server: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: source(url=f"{server}/one").content, range(16)))
    assert set(found) == {LINES} and len(cached(places)) == 1


def test_a_damaged_cache_is_refused_with_the_remedy(places: Path, server: str) -> None:
    _ = source(url=f"{server}/one").content
    cached(places)[0].write_bytes(b"{}\n")
    with pytest.raises(Drift, match="a cached copy is fetched again once deleted"):
        _ = source(url=f"{server}/one").content


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match="only http and https"):
        _ = source(url="ftp://host/file").content


# -- the Hugging Face Hub ------------------------------------------------------------------------


def test_an_address_of_the_hub_names_its_revision() -> None:
    parsed = hub.parse("hf://datasets/some-org/some.set@v1.0/data/part-0.parquet")
    assert parsed == ("some-org/some.set", "v1.0", "data/part-0.parquet")
    with pytest.raises(ConfigError, match="names no revision"):
        hub.parse("hf://datasets/org/set/file.jsonl")
    with pytest.raises(ConfigError, match="is not of the form hf://datasets/"):
        hub.parse("hf://models/org/set@v1/file.jsonl")


READ = """
import sys
{before}
from recurve_eval.benchmarks.source import Source
found = Source("sample", "sample/tasks.jsonl.gz", None, sys.argv[1], sys.argv[2] or None)
try:
    sys.stdout.write(found.content.decode())
except Exception as error:
    sys.exit(f"{{type(error).__name__}}: {{error}}")
"""


def read(url: str, sha256: str, endpoint: str = "", before: str = "") -> subprocess.CompletedProcess[str]:
    """In a process of its own: the Hub's client reads its endpoint once, on import."""
    env = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "HF_TOKEN": ""}
    words = [sys.executable, "-c", READ.format(before=before), url, sha256]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_without_the_extra_its_name_is_said(places: Path) -> None:
    done = read("hf://datasets/org/set@v1/a.jsonl", "", before="sys.modules['huggingface_hub'] = None")
    assert done.returncode == 1 and "ConfigError" in done.stderr and "pip install 'recurve-eval[hf]'" in done.stderr
    assert cached(places) == []


needs_hub = pytest.mark.skipif(
    importlib.util.find_spec("huggingface_hub") is None, reason="the hf extra is not installed"
)


@needs_hub
def test_a_file_of_the_hub_by_revision(places: Path, server: str) -> None:
    Shelf.files = {"/datasets/org/set/resolve/v1/data/tasks.jsonl.gz": PACKED}
    url = "hf://datasets/org/set@v1/data/tasks.jsonl.gz"
    for _ in range(2):
        done = read(url, RIGHT, server)
        assert (done.returncode, done.stdout) == (0, LINES.decode()), done.stderr
    assert sum(line.startswith("GET") for line in Shelf.asked) == 1 and len(cached(places)) == 1
    other = read(url.replace("@v1", "@v2"), RIGHT, server)
    assert other.returncode == 1 and "ConfigError: cannot download hf://datasets/org/set@v2" in other.stderr
    drifted = read(url, "0" * 64, server, before="import os; os.environ['RECURVE_CACHE'] += '2'")
    assert drifted.returncode == 1 and "Drift" in drifted.stderr
    assert len(cached(places)) == 1 and not [p for p in (places / "cache2").rglob("*") if p.is_file()]


@needs_hub
def test_parquet_becomes_json_lines(places: Path, server: str) -> None:
    import pyarrow
    import pyarrow.parquet

    held = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"task_id": ["a", "b"]}), held)
    Shelf.files = {"/datasets/org/set/resolve/v1/tasks.parquet": held.getvalue()}
    done = read("hf://datasets/org/set@v1/tasks.parquet", RIGHT, server)
    assert (done.returncode, done.stdout) == (0, LINES.decode()), done.stderr
