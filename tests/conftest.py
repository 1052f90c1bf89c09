"""Fixtures that many tests share. Nothing here replaces a part of the program: tests run the real thing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recurve_eval import app
from recurve_eval.oracle.process import ProcessOracle

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def composing() -> Iterator[None]:
    """Hydra initialised on the shipped configuration."""
    with app.initialised():
        yield


@pytest.fixture
def data() -> Path:
    """The directory of public data, where it is at hand."""
    path = Path(os.environ.get("RECURVE_DATA", REPOSITORY.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip("RECURVE_DATA names no directory of public data")
    return path


def need(program: str, variable: str) -> None:
    """Skip where a program is missing, unless the environment says that it must be there."""
    if shutil.which(program):
        return
    if os.environ.get(variable) == "1":
        pytest.fail(f"{program} is required here ({variable}=1) and missing")
    pytest.skip(f"{program} is not installed")


@pytest.fixture
def bwrap() -> None:
    need("bwrap", "RECURVE_REQUIRE_BWRAP")


@pytest.fixture(scope="module")
def oracle() -> Iterator[ProcessOracle]:
    """A grader in processes of this machine, ready for one grading at a time."""
    backend = ProcessOracle()
    backend.start(1)
    yield backend
    backend.close()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and no data directory."""
    monkeypatch.delenv("RECURVE_DATA", raising=False)
    monkeypatch.setenv("RECURVE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def clean_engines() -> Iterator[None]:
    """Close what MLflow keeps open, so that no connection outlives its test."""
    yield
    store = sys.modules.get("mlflow.store.tracking.sqlalchemy_store")
    engines = {} if store is None else store.SqlAlchemyStore._engine_map
    while engines:
        engines.popitem()[1].dispose()


Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Runs ``recurve-eval`` in an empty directory and returns what it said."""

    def call(*words: str, timeout: float = 120, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "recurve_eval", *words],
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return call


QUICK = ("sandbox=process", "oracle=process", "tracking=none")


SEARCHING = (
    "test_hostile_agents",
    "test_sandboxes",
    "test_agents",
    "test_sandbox_walls",
    "test_escapes",
    "test_watchdog",
    "test_real_clis",
)


SERVED = ("test_mlflow_server", "test_mlflow_analysis")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Docker tests share one daemon and one image; tests that look for processes by name see each other's; a tracking
    server and a mirrored study, which take long to make, are made by one worker alone.
    """
    for item in items:
        if item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.xdist_group("docker"))
        elif item.path.stem in SEARCHING:
            item.add_marker(pytest.mark.xdist_group("processes"))
        elif item.path.stem in SERVED:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
