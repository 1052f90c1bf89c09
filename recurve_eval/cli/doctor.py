"""What this machine lacks for each part, and the command that mends it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.errors import EXIT_DONE, EXIT_REFUSED

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
    parser.parse_args(arguments)
    findings = list(examine())
    for f in findings:
        mark = "ok " if not f.remedy else ("!! " if f.required else "-- ")
        print(f"{mark}{f.part:<14} {f.state}" + (f"\n   {'':<14} {f.remedy}" if f.remedy else ""))  # noqa: T201
    return EXIT_REFUSED if any(f.required and f.remedy for f in findings) else EXIT_DONE


def examine() -> Iterator[Finding]:
    """Every finding about this machine."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", version, "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer", True)
    yield _program("git", "apt-get install git", required=True)
    yield from _options("sandbox")
    yield from _options("oracle")
    yield _program("docker", "apt-get install docker.io (only for the docker options)")
    yield _outputs()
    yield _leftovers()


def _program(name: str, remedy: str, required: bool = False) -> Finding:
    found = shutil.which(name)
    return Finding(name, found or "not found", "" if found else remedy, required)


def _options(group: str) -> Iterator[Finding]:
    """Ask every shipped option of a group whether it can work here."""
    from recurve_eval import app

    with app.initialised():
        for name, part in app.each_option(group):
            problem = part.check()
            yield Finding(f"{group}={name}", problem or "usable", f"or choose another {group}" if problem else "")


def _outputs() -> Finding:
    here = Path("outputs") if Path("outputs").exists() else Path()
    if not os.access(here, os.W_OK):
        return Finding("outputs", f"{here.resolve()} cannot be written", "choose run.outputs=DIRECTORY", True)
    free = shutil.disk_usage(here).free
    low = free < MIN_FREE_BYTES
    return Finding("outputs", f"{free / 1024**3:.1f} GiB free", "free some disk space" if low else "")


def _leftovers() -> Finding:
    """Processes that cells of dead runs left behind."""
    from recurve_eval import app

    with app.initialised():
        killed = sum(part.reap("recurve-dead-") for _, part in app.each_option("sandbox"))
    return Finding("leftovers", f"{killed} processes of dead runs ended" if killed else "no process of a dead run")
