#!/usr/bin/env python3
"""What a sandbox costs: the same small command bare and in each sandbox, in turns, as ratios of medians.

Two figures for each: one command in an open session, and a whole session (open, one command, close). A sandbox that
cannot be used here is said so and left out.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recurve_eval import app
from recurve_eval.ports import Command, Sandbox

WORDS = ("/bin/sh", "-c", "echo x > solution.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    with app.initialised():
        made = dict(app.each_option("sandbox"))
        made["bubblewrap, allowlist"] = _proxied(made["bubblewrap"])
        made["docker, allowlist"] = _proxied(made["docker"])
    usable = {}
    for name, sandbox in made.items():
        problem = sandbox.check()
        if problem:
            print(f"{name}: left out: {problem}")
        else:
            usable[name] = sandbox
    _print(_measure(usable, options.rounds))


def _proxied(sandbox: Any) -> Any:
    from dataclasses import replace

    return replace(sandbox, network="allowlist", allow=["localhost:9"])


def _measure(sandboxes: dict[str, Sandbox], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        sessions = {}
        for number, (name, sandbox) in enumerate(sandboxes.items()):
            sessions[name] = sandbox.open(*_directories(root / f"held-{number}"), f"bench-{number}")
        for _ in range(rounds):
            _time(times, "bare", lambda: subprocess.run(WORDS, cwd=place, check=True))
            for number, (name, sandbox) in enumerate(sandboxes.items()):
                _time(times, f"{name}\tcommand", lambda n=name: sessions[n].run(Command(WORDS)))  # type: ignore[misc]
                whole = root / f"whole-{number}"
                _time(times, f"{name}\tsession", lambda s=sandbox, w=whole: _session(s, w))  # type: ignore[misc]
        for session in sessions.values():
            session.close()
    return times


def _directories(place: Path) -> tuple[Path, Path]:
    for name in ("workspace", "scratch"):
        (place / name).mkdir(parents=True, exist_ok=True)
    return place / "workspace", place / "scratch"


def _session(sandbox: Sandbox, place: Path) -> None:
    session = sandbox.open(*_directories(place), "bench-whole")
    session.run(Command(WORDS))
    session.close()


def _time(times: dict[str, list[float]], name: str, act: Callable[[], Any]) -> None:
    started = time.perf_counter()
    act()
    times.setdefault(name, []).append(time.perf_counter() - started)


def _print(times: dict[str, list[float]]) -> None:
    middle = {name: statistics.median(values) for name, values in times.items()}
    bare = middle.pop("bare")
    print(
        f"one small command, bare: {bare * 1000:.1f} ms (median of {len(times['bare'])}); everything below in times of that"
    )
    for name in dict.fromkeys(key.split("\t")[0] for key in middle):
        command, session = (middle[f"{name}\t{kind}"] / bare for kind in ("command", "session"))
        print(f"  {name:<24} command {command:6.1f}   session {session:6.1f}")


if __name__ == "__main__":
    main()
