"""What can go wrong, and what each failure means for the person at the terminal.

::

    RecurveError
    ├── ConfigError (ValueError)        exit 2   the study as written cannot be planned
    │   └── UnknownName                 exit 2   a name is not among the known ones
    ├── Refused (RuntimeError)          exit 3   the study may not run as things stand
    │   ├── Drift                       exit 3   a pinned thing is no longer what was pinned
    │   ├── SpendRefused                exit 3   money would move without proof or authority
    │   ├── NoImage                     exit 3   a task that is graded in an image of its own has none
    │   ├── Leak                        exit 3   held-out bytes stand where the agent could see them
    │   └── RunLocked                   exit 3   another process owns the run directory
    ├── Interrupted                     exit 130 stopped by the user; resumable
    ├── InfraError (RuntimeError)       a cell's machinery failed; seals ``unscored/infra``
    │   └── SandboxError                the sandbox could not start, hold or end the agent
    ├── OracleError (RuntimeError)      the grader failed; seals ``unscored/oracle_error``
    └── QuarantineError (TypeError)     code tried to build an oracle job out of order

The rule behind the tree: nothing below ``InfraError`` or ``OracleError`` may ever be counted as the
agent's failure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_UNSCORED = 4
EXIT_FLIPPED = 5
EXIT_INTERRUPTED = 130


class RecurveError(Exception):
    """Any error this program raises on purpose."""

    exit_code = EXIT_REFUSED


class ConfigError(RecurveError, ValueError):
    """The configuration names something wrong; the message says what, where and what is right."""

    exit_code = EXIT_USAGE


class UnknownName(ConfigError):
    """A name that is not among the known ones; the message lists them and guesses."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        choices = sorted(known)
        guess = difflib.get_close_matches(name, choices, n=1)
        hint = f" Did you mean '{guess[0]}'?" if guess else ""
        place = f" in {where}" if where else ""
        super().__init__(f"unknown {kind} '{name}'{place}.{hint} Known: {', '.join(choices)}")
        self.known = choices


class Refused(RecurveError, RuntimeError):
    """A well-formed request that must not be carried out as things stand."""

    exit_code = EXIT_REFUSED


class Drift(Refused):
    """Something pinned is no longer what was pinned."""


class SpendRefused(Refused):
    """Money would move without a calibration, a known price or the authority to spend it."""


class NoImage(Refused):
    """A task that is graded in an image of its own has none; what was built for it is pinned where it is recorded."""


class Leak(Refused):
    """A workspace holds held-out bytes; the agent was not started."""


class RunLocked(Refused):
    """Another process owns this run directory."""


class Interrupted(RecurveError):
    """The user stopped the run; sealed cells are kept and the same command resumes."""

    exit_code = EXIT_INTERRUPTED


class InfraError(RecurveError, RuntimeError):
    """The machinery around a cell failed; never the agent's failure."""


class SandboxError(InfraError):
    """A sandbox could not be started, could not hold the agent, or could not prove it gone."""


class OracleError(RecurveError, RuntimeError):
    """The grader could not give a verdict; never the agent's failure."""


class QuarantineError(RecurveError, TypeError):
    """An oracle job, submission or agent run was built out of order."""
