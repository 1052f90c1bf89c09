"""Typed results as plain JSON data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any

from recurve_eval.stats import Undefined

DIGITS = 10  # below this, floating-point noise of another machine's arithmetic could change the bytes


def plain(value: Any) -> Any:
    """JSON data for a result; an Undefined becomes ``{"undefined": reason}``, floats keep 10 digits."""
    if isinstance(value, Undefined):
        return {"undefined": value.reason}
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return 0.0 if value == 0 else float(f"{value:.{DIGITS}g}")
    return value
