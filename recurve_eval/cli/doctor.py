"""What this machine lacks for each part, and the command that mends it."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from recurve_eval.cli.targets import take_own
from recurve_eval.errors import EXIT_DONE, EXIT_REFUSED, ConfigError

MIN_FREE_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Finding:
    """One line of the examination. ``remedy`` is empty where all is well."""

    part: str
    state: str
    remedy: str = ""
    required: bool = False


def doctor(arguments: list[str]) -> int:
    """Examine this machine; exit 3 where something that every study needs is missing."""
    parser = argparse.ArgumentParser(prog="recurve-eval doctor", description="What this machine lacks, and the remedy.")
    take_own(parser)
    findings = list(examine(parser.parse_intermixed_args(arguments).config_dir))
    for f in findings:
        mark = "ok " if not f.remedy else ("!! " if f.required else "-- ")
        print(f"{mark}{f.part:<14} {f.state}" + (f"\n   {'':<14} {f.remedy}" if f.remedy else ""))  # noqa: T201
    return EXIT_REFUSED if any(f.required and f.remedy for f in findings) else EXIT_DONE


def examine(own: str | None = None) -> Iterator[Finding]:
    """Every finding about this machine, for the shipped options and the user's ``own``."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", version, "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer", True)
    yield _program("git", "apt-get install git", required=True)
    yield from examine_options("sandbox", own)
    yield from examine_options("oracle", own)
    yield _program("docker", "apt-get install docker.io (only for the docker options)")
    yield _outputs()
    yield _leftovers()


def _program(name: str, remedy: str, required: bool = False) -> Finding:
    found = shutil.which(name)
    return Finding(name, found or "not found", "" if found else remedy, required)


def examine_options(group: str, own: str | Path | None = None) -> Iterator[Finding]:
    """Ask every option of a group whether it can work here."""
    from recurve_eval import app

    with app.initialised(own):
        for name in app.options_of(group):
            try:
                problem = app.option(group, name).check()
            except ConfigError as error:
                problem = str(error)
            yield Finding(f"{group}={name}", problem or "usable", f"or choose another {group}" if problem else "")


def _outputs() -> Finding:
    here = Path("outputs") if Path("outputs").exists() else Path()
    if not os.access(here, os.W_OK):
        return Finding("outputs", f"{here.resolve()} cannot be written", "choose run.outputs=DIRECTORY", True)
    free = shutil.disk_usage(here).free
    low = free < MIN_FREE_BYTES
    return Finding("outputs", f"{free / 1024**3:.1f} GiB free", "free some disk space" if low else "")


def _leftovers() -> Finding:
    """End what harnesses that are no longer alive left behind: agents' processes, workspaces, graders."""
    from recurve_eval import app
    from recurve_eval.execute.bench import LABEL
    from recurve_eval.workspace import remove

    dead = {label for label in _labels(LABEL) if not _alive(label)}
    with app.initialised():
        killed = sum(part.reap(f"{label}.") for _, part in app.each_option("sandbox") for label in dead)
        graders = [part for _, part in app.each_option("oracle") if hasattr(part, "reap") and part.check() is None]
        ended = sum(part.reap() for part in graders)
    places = [p for p in Path(tempfile.gettempdir()).glob(f"{LABEL}*-*") if p.is_dir() and not _alive(p.name)]
    for place in places:
        remove(place)
    if not killed and not places and not ended:
        return Finding("leftovers", "none of dead runs")
    what = f"{killed} processes, {len(places)} workspaces and {ended} graders of dead runs removed"
    return Finding("leftovers", what)


def _labels(prefix: str) -> set[str]:
    """The labels ``recurve-<plan>-<pid>`` that running processes carry."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            label = process.environ().get("RECURVE_SESSION", "").split(".")[0]
            if label.startswith(prefix):
                found.add(label)
    return found


def _alive(label: str) -> bool:
    """Whether the harness that a label names still runs; labels of another form are left alone."""
    pid = label.rpartition("-")[2]
    return psutil.pid_exists(int(pid)) if pid.isdigit() else True
