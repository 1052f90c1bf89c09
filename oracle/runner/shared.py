"""A grading whose tests share one process with the submission, for tests that need its live objects."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

from . import guard
from .catalogue import CONVENTIONS
from .conventions import HarnessFault, Stage
from .heldout import HeldOut, Watch
from .loading import NotLoaded, describe, flush, load_submission
from .report import Channel

_RUNNER = os.path.dirname(os.path.abspath(__file__))


def run(job: dict[str, Any], channel: Channel, work: str) -> None:
    """Grade in this process and report; the process is of no further use afterwards."""
    changed = guard.snapshot(job["convention"]).changed
    guard.forget_snapshots()
    try:
        stage = _prepare(job, channel, changed)
        CONVENTIONS[job["convention"]](stage, lambda: _load(job, channel, stage, work))
    except NotLoaded as error:
        channel.tell("load_error", message=str(error))
    except HarnessFault as error:
        channel.tell("harness", message=str(error))
    except BaseException as error:
        channel.tell("load_error", message="the held-out tests did not run: " + describe(error))
    flush()
    # Also where whoever should have looked after each test was replaced.
    what = changed()
    if what:
        channel.tell("tamper", what=what)
    channel.tell("finish")


def _prepare(job: dict[str, Any], channel: Channel, changed: Callable[[], str | None]) -> Stage:
    watch = Watch(lambda what: channel.tell("tamper", what=what))
    held = HeldOut(job["held_out"], watch)
    try:
        held.code()
    except SyntaxError as error:
        raise HarnessFault("the held-out tests do not compile: " + describe(error)) from None
    disarmed = guard.set_cross_check(watch.cross_check)
    stage = Stage(channel, held, watch, job["params"], lambda: changed() or disarmed() or held.altered())
    guard.arm(trusted_paths(), ("/proc", _RUNNER))
    return stage


def _load(job: dict[str, Any], channel: Channel, stage: Stage, work: str) -> Any:
    module = load_submission(job["params"].get("module"), work)
    stage.held.forget_sources()
    sys.meta_path.append(stage.held)
    changed = stage.changed()
    if changed:
        channel.tell("tamper", what=changed)
    channel.tell("loaded")
    return module


def trusted_paths() -> tuple[str, ...]:
    """Prefixes of file names whose code may use introspection: the interpreter's own and the runner's."""
    return (*(path + "/" for path in sys.path), _RUNNER + "/", "<frozen ", "<held-out ")
