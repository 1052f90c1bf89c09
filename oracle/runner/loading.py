"""Loading a submission: what every process that runs one needs, and next to nothing else.

The processes that run submissions apart from their tests are forked from one that has imported this and little
more: what it costs to fork a process and to end it grows with what it holds.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import os
import sys
import types
from typing import Any, Iterable


class NotLoaded(Exception):
    """A submission's module could not be imported; the message says why."""


def import_all(names: Iterable[str]) -> None:
    for name in names:
        importlib.import_module(name)


def describe(error: BaseException) -> str:
    """``Type: text`` of an exception that may be hostile."""
    try:
        return "%s: %s" % (type(error).__name__, str.__str__(str(error))[:400])
    except BaseException:
        return "an exception that cannot be shown"


def flush() -> None:
    """Let go what Python still holds of the output: the process is killed as soon as it has reported."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            continue


def load_submission(name: str | None, work: str) -> Any:
    """Import the submission's module from ``work``. Raises NotLoaded with what went wrong."""
    # No cache of the import system knows the work directory: nothing was ever imported from there.
    sys.path.append(work)
    if name is None:
        return None
    try:
        return _import(name, "%s/%s.py" % (work, name))
    except BaseException as error:
        raise NotLoaded("%s could not be loaded: %s" % (name, describe(error))) from None


def _import(name: str, path: str) -> Any:
    """``import name``, by a shorter way where the module is a plain file that no other could be meant by."""
    # A directory that comes before the work directory could hold it; those were listed by the server.
    source = None if name in sys.modules or name in _KNOWN or "." in name else _source(path)
    if source is None:
        return importlib.import_module(name)
    module = _EXPECTED.get(path) or _module(name, path)
    code = compile(source, path, "exec", dont_inherit=True)
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
        return sys.modules[name]
    except BaseException:
        sys.modules.pop(name, None)
        raise


def _module(name: str, path: str) -> types.ModuleType:
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.machinery.ModuleSpec(name, loader, origin=path)
    spec.has_location = True
    module = types.ModuleType(name)
    vars(module).update(__spec__=spec, __loader__=loader, __file__=path, __package__="")
    return module


def expect(name: str, work: str) -> None:
    """Once, in the server: make ready the module that most submissions are loaded as."""
    path = "%s/%s.py" % (work, name)
    _EXPECTED[path] = _module(name, path)


def _source(path: str) -> bytes | None:
    """Of a plain file, which no submission has run to replace; None of anything else."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        parts = [os.read(fd, _PART)]
        while len(parts[-1]) == _PART:
            parts.append(os.read(fd, _PART))
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(fd)


_PART = 1 << 13  # bytes read at once, more than most submissions have


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
_EXPECTED: dict[str, types.ModuleType] = {}


def list_known_modules() -> None:
    """Once, in the server: every name that the import path answers without a submission."""
    _KNOWN.update(sys.builtin_module_names)
    for directory in sys.path:
        try:
            _KNOWN.update(entry.partition(".")[0] for entry in os.listdir(directory))
        except OSError:
            continue


def hide_runner() -> None:
    """Submissions find nothing of the runner by name."""
    for name in [name for name in sys.modules if name == "runner" or name.startswith("runner.")]:
        del sys.modules[name]
    names = vars(sys.modules["__main__"])
    names.clear()
    # As of any program: libraries, multiprocessing for one, rely upon these.
    names.update(__name__="__main__", __spec__=None, __doc__=None, __builtins__=builtins)
    sys.argv[:] = [""]
