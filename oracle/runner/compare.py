"""Whether an answer is right: equality, closeness of floats, and the few other rules that benchmarks define."""

from __future__ import annotations

import math
from typing import Any

ATOMS = (bool, int, str, type(None))
RTOL = 1e-7
FLOAT_ATOL = 1e-6  # for expected floats where a task states no tolerance


def agrees(rule: str, arguments: list[Any], expected: Any, answer: Any, atol: float) -> bool:
    """By ``rule``.

    ``equal``, with floats as close as ``atol`` says; ``set``, equal as sets; ``any``, always; ``not_none``, None or
    not as expected; ``root``, a zero to ``atol`` of the polynomial whose coefficients are the first argument.
    """
    if rule == "root":
        return _number(answer) and abs(sum(c * math.pow(answer, i) for i, c in enumerate(arguments[0]))) <= atol
    if rule == "not_none":
        return (answer is not None and answer is not False) == (expected is not None and expected is not False)
    if rule == "any":
        return True
    if rule == "set":
        return set(answer) == set(expected)
    return same(expected, answer) or _near(expected, answer, atol)


def same(expected: Any, answer: Any) -> bool:
    """``==``, except that NaN is the answer where NaN is expected."""
    if isinstance(expected, float) and expected != expected:
        return isinstance(answer, float) and answer != answer
    return bool(expected == answer)


def _near(expected: Any, answer: Any, atol: float) -> bool:
    if atol == 0 and _floats(expected):
        atol = FLOAT_ATOL
    return atol != 0 and type(expected) is type(answer) and close(expected, answer, atol)


def _floats(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def close(expected: Any, answer: Any, atol: float) -> bool:
    """``|answer - expected| <= atol + RTOL * |expected|`` for numbers, and within lists and tuples of one length."""
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(answer, (list, tuple))
            and len(answer) == len(expected)
            and all(close(mine, theirs, atol) for mine, theirs in zip(expected, answer))  # noqa: B905 - Python 3.9
        )
    if not (_number(expected) and _number(answer)):
        return False
    if same(expected, answer):
        return True
    return bool(math.isfinite(expected) and abs(answer - expected) <= atol + RTOL * abs(expected))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))


def restore(arguments: list[Any], shape: list[list[Any]]) -> list[Any]:
    """Types that JSON does not have. ``shape`` holds ``[argument, kind, levels]``; argument -1 is every one.

    ``tuple`` and ``set`` make these of lists at the given levels of nesting (0 is the argument itself, -1 all), an
    empty list becoming an empty dict for ``set`` as in MBPP+; ``float`` and ``complex`` make numbers of texts.
    """
    for argument, kind, levels in shape:
        for index in range(len(arguments)) if argument == -1 else (argument,):
            arguments[index] = _restored(arguments[index], kind, levels, 0)
    return arguments


def _restored(value: Any, kind: str, levels: list[int], level: int) -> Any:
    if kind in ("float", "complex"):
        return float(value) if kind == "float" else complex(value)
    here = level in levels or -1 in levels
    if isinstance(value, dict):
        return {key: _restored(item, kind, levels, level + 1) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [_restored(item, kind, levels, level + 1) for item in value]
    if not here:
        return items
    if kind == "set":
        return set(items) if items else {}
    return tuple(items)
