"""A grading whose tests share one process with the submission, for tests that need its live objects."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import stat
import sys
from typing import Any

from . import guard
from .catalogue import CONVENTIONS
from .conventions import HarnessFault, Stage, describe
from .heldout import HeldOut, Watch
from .report import Channel

_RUNNER = os.path.dirname(os.path.abspath(__file__))


class _NotLoaded(Exception):
    pass


def run(job: dict[str, Any], channel: Channel, work: str) -> None:
    """Grade in this process and report; the process is of no further use afterwards."""
    try:
        stage = _prepare(job, channel)
        CONVENTIONS[job["convention"]](stage, lambda: _load(job, channel, stage, work))
    except _NotLoaded as error:
        channel.tell("load_error", message=str(error))
    except HarnessFault as error:
        channel.tell("harness", message=str(error))
    except BaseException as error:
        channel.tell("load_error", message="the held-out tests did not run: " + describe(error))
    flush()
    channel.tell("finish")


def flush() -> None:
    """Let go what Python still holds of the output: the process is killed as soon as it has reported."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            continue


def _prepare(job: dict[str, Any], channel: Channel) -> Stage:
    watch = Watch(lambda what: channel.tell("tamper", what=what))
    held = HeldOut(job["held_out"], watch)
    try:
        held.code()
    except SyntaxError as error:
        raise HarnessFault("the held-out tests do not compile: " + describe(error)) from None
    guard.set_cross_check(watch.cross_check)
    stage = Stage(channel, held, watch, job["params"], guard.snapshot(job["convention"]).changed)
    sys.meta_path.append(held)
    guard.arm(trusted_paths(), ("/proc", _RUNNER))
    return stage


def _load(job: dict[str, Any], channel: Channel, stage: Stage, work: str) -> Any:
    module = load_submission(job["params"].get("module"), work)
    changed = stage.changed()
    if changed:
        channel.tell("tamper", what=changed)
    channel.tell("loaded")
    return module


def load_submission(name: str | None, work: str) -> Any:
    """Import the submission's module from ``work``. Raises _NotLoaded with what went wrong."""
    # No cache of the import system knows the work directory: nothing was ever imported from there.
    sys.path.append(work)
    if name is None:
        return None
    try:
        return _import(name, "%s/%s.py" % (work, name))
    except BaseException as error:
        raise _NotLoaded("%s could not be loaded: %s" % (name, describe(error))) from None


def _import(name: str, path: str) -> Any:
    """``import name``, by a shorter way where the module is a plain file that no other could be meant by."""
    if name in sys.modules or name in sys.builtin_module_names or not _is_file(path) or _elsewhere(name):
        return importlib.import_module(name)
    spec = importlib.machinery.ModuleSpec(name, importlib.machinery.SourceFileLoader(name, path), origin=path)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
        return sys.modules[name]
    except BaseException:
        sys.modules.pop(name, None)
        raise


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _elsewhere(name: str) -> bool:
    """Whether a directory that comes before the work directory could hold it; those were listed by the server."""
    return "." in name or name in _KNOWN


class _SourceAlone(importlib.machinery.SourceFileLoader):
    """Reads no cached bytecode, which a submission could have planted beside its sources."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


def import_sources_alone(work: str) -> None:
    """Once, in the server: below ``work`` a module is a .py file and nothing else. Elsewhere caches are used."""

    def finder(path: str) -> Any:
        if path != work and not path.startswith(work + "/"):
            raise ImportError(path)
        return importlib.machinery.FileFinder(path, (_SourceAlone, [".py"]))

    sys.path_hooks.insert(0, finder)


_KNOWN: set[str] = set()


def list_known_modules() -> None:
    """Once, in the server: every name that the import path answers without a submission."""
    for directory in sys.path:
        try:
            _KNOWN.update(entry.partition(".")[0] for entry in os.listdir(directory))
        except OSError:
            continue


def hide_runner() -> None:
    """Submissions find nothing of the runner by name."""
    for name in [name for name in sys.modules if name == "runner" or name.startswith("runner.")]:
        del sys.modules[name]
    sys.modules["__main__"].__dict__.clear()
    sys.argv[:] = [""]


def trusted_paths() -> tuple[str, ...]:
    """Prefixes of file names whose code may use introspection: the interpreter's own and the runner's."""
    return (*(path + "/" for path in sys.path), _RUNNER + "/", "<frozen ", "<held-out ")


NotLoaded = _NotLoaded
