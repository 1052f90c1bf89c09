"""Measures whether a gate around a coding agent makes it ship less bad work, at what cost, and why.

The command line is ``recurve-eval``; the same from Python::

    handle = recurve_eval.submit(["experiment=demo"])
    report = handle.result()
    rows = recurve_eval.load(report.run_dir).rows
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from recurve_eval.api import Handle, Results, load, run, submit

__all__ = ["Handle", "Results", "__version__", "load", "run", "submit"]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("recurve_eval.api"), name)
    raise AttributeError(f"module 'recurve_eval' has no attribute '{name}'")
