"""Every convention by its name."""

from __future__ import annotations

from .conventions import run_check, run_unittest
from .namespace import run_namespace
from .reference import run_reference

CONVENTIONS = {
    "unittest": run_unittest, "check": run_check, "namespace": run_namespace, "reference": run_reference
}  # fmt: skip
