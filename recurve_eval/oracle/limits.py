"""What the numbers in an oracle's configuration may be."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from recurve_eval.errors import ConfigError

MAY_BE_ZERO = ("uid", "uid_base", "restarts", "wait_s", "health_s")


def hold_to_limits(backend: Any) -> None:
    """Raises ConfigError naming the first number of a backend's fields that limits nothing or cannot be met.

    A negative limit is none at all to the kernel, and a submission that is run no time has no verdict.
    """
    for field in dataclasses.fields(backend):
        value = getattr(backend, field.name)
        if not field.init or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if field.name in MAY_BE_ZERO:
            if not 0 <= value < math.inf:
                raise ConfigError(f"oracle.{field.name} must not be negative; got {value}")
        elif not 0 < value < math.inf:
            raise ConfigError(f"oracle.{field.name} must be positive; got {value}")
