"""Real sandboxes for tests: made from their shipped options, with proof that nothing of them is left."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from recurve_eval.ports import Command, Completed, Sandbox, Session

CONF = Path(__file__).parent.parent / "conf"


def option(group: str, name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((CONF / group / f"{name}.yaml").read_text()))


def make(group: str, name: str, **changes: Any) -> Any:
    """The adapter of one option of ``conf``, built from its YAML alone."""
    fields = option(group, name) | changes
    module, _, cls = str(fields.pop("_target_")).rpartition(".")
    return getattr(importlib.import_module(module), cls)(**fields)


def sandbox(name: str, **changes: Any) -> Sandbox:
    """A usable sandbox, or a skip (a failure where RECURVE_REQUIRE_<TOOL>=1) saying what this machine lacks."""
    if name == "bubblewrap" and shutil.which("bwrap") is None:
        need = pytest.fail if os.environ.get("RECURVE_REQUIRE_BWRAP") == "1" else pytest.skip
        need("bwrap is not installed: apt-get install bubblewrap")
    made: Sandbox = make("sandbox", name, **changes)
    problem = usable(made)
    if problem and name == "docker" and "has no image" in problem and required(name):
        build_agent_image()
        made = make("sandbox", name, **changes)
        problem = usable(made)
    if problem:
        (pytest.fail if required(name) else pytest.skip)(problem)
    return made


def required(name: str) -> bool:
    variable = {"bubblewrap": "RECURVE_REQUIRE_BWRAP", "docker": "RECURVE_REQUIRE_DOCKER"}.get(name, "")
    return os.environ.get(variable) == "1"


_USABLE: set[str] = set()


def usable(made: Any) -> str | None:
    """What :meth:`check` says, asked once of each configuration."""
    if repr(made) in _USABLE:
        return made.missing_credentials()  # type: ignore[no-any-return]
    problem: str | None = made.check()
    if problem is None:
        _USABLE.add(repr(made))
    return problem


def build_agent_image() -> None:
    """Build the agent's image, once for all workers of a test run."""
    from filelock import FileLock

    from recurve_eval.oracle import build, recipe

    with (
        FileLock(Path(tempfile.gettempdir()) / f"recurve-agent-image-{os.getuid()}.lock"),
        tempfile.TemporaryDirectory() as work,
    ):
        pin = recipe.load("agent").pin
        if pin is None or not build.image_present(pin.image_id):
            build.build("agent", work=Path(work))


def living(label: str) -> list[int]:
    """Processes whose environment names a session of this label."""
    needle = f"RECURVE_SESSION={label}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and needle in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@dataclass
class Cell:
    """A session with its directories; ``gone`` proves its end."""

    session: Session
    workspace: Path
    scratch: Path
    label: str

    def sh(self, script: str, **options: Any) -> Completed:
        return self.session.run(Command(("/bin/sh", "-c", script), **({"timeout_s": 20.0} | options)))

    def gone(self) -> None:
        departure = self.session.close()
        assert departure.proof
        assert living(self.label) == []


def cell(made: Sandbox, place: Path, label: str) -> Cell:
    workspace, scratch = place / "workspace", place / "scratch"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    workspace.mkdir()
    scratch.mkdir()
    return Cell(made.open(workspace, scratch, label), workspace, scratch, label)
