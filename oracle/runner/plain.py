"""Plain values across a process boundary: no code runs on decoding, and no type brings its own methods.

An instance of a subclass of int, float, str, list, tuple, dict, set or bytes is sent as the base
value it really holds, read through the base type's own methods, so what a class overrides (``__eq__``,
``__iter__``, ``__len__``) has no say. Anything else becomes an :class:`Opaque`, equal to nothing.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import fractions
import types
from typing import Any, Callable

MAX_DEPTH = 150
MAX_ITEMS = 2_000_000
_SMALL = 1 << 62


class NotPlain(TypeError):
    """A value that cannot cross, in the direction where that is the harness's limit."""


class Foreign(ValueError):
    """A value that cannot cross because of what a candidate made it: opaque, too deep or too large."""


class Opaque:
    """Stands for a value that could not cross. Equal to nothing, itself apart."""

    def __init__(self, type_name: str, text: str) -> None:
        self.type_name, self.text = type_name, text

    def __repr__(self) -> str:
        return "<%s that is not plain data: %s>" % (self.type_name, self.text)


def encode(value: Any, strict: bool = False, depth: int = 0) -> Any:
    """JSON for a value. ``strict`` raises NotPlain instead of sending an opaque one."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else {"t": "int", "v": hex(value)}
    if depth > MAX_DEPTH:
        return _deep(value, strict)
    for base, encoder in _ENCODERS:
        if issubclass(kind, base):
            return encoder(value, strict, depth + 1)
    return _other(value, strict, depth + 1)


def _items(values: Any, strict: bool, depth: int) -> list[Any]:
    result = []
    for value in values:
        kind = type(value)
        plain = kind is str or kind is float or kind is bool or (kind is int and -_SMALL < value < _SMALL)
        result.append(value if plain else encode(value, strict, depth))
        if len(result) > MAX_ITEMS:
            raise Foreign("more than %d items" % MAX_ITEMS)
    return result


def _pairs(value: Any, strict: bool, depth: int) -> Any:
    return {"t": "dict", "v": [_items(pair, strict, depth) for pair in dict.items(value)]}


def _tagged(tag: str, iterate: Callable[[Any], Any]) -> Callable[[Any, bool, int], Any]:
    def encoder(value: Any, strict: bool, depth: int) -> Any:
        return {"t": tag, "v": _items(iterate(value), strict, depth)}

    return encoder


def _text(tag: str, spell: Callable[[Any], str]) -> Callable[[Any, bool, int], Any]:
    def encoder(value: Any, strict: bool, depth: int) -> Any:
        return {"t": tag, "v": spell(value)}

    return encoder


_ENCODERS: list[tuple[type, Callable[[Any, bool, int], Any]]] = [
    (list, lambda value, strict, depth: _items(list.__iter__(value), strict, depth)),
    (tuple, _tagged("tuple", tuple.__iter__)),
    (dict, _pairs),
    (int, lambda value, strict, depth: encode(int.__add__(value, 0), strict, depth)),
    (float, lambda value, strict, depth: float.__mul__(value, 1.0)),
    (str, lambda value, strict, depth: str.__str__(value)),
    (set, _tagged("set", set.__iter__)),
    (frozenset, _tagged("frozenset", frozenset.__iter__)),
    (bytes, _text("bytes", lambda value: base64.b64encode(value).decode())),
    (bytearray, _text("bytearray", lambda value: base64.b64encode(value).decode())),
    (complex, lambda value, strict, depth: {"t": "complex", "v": [value.real, value.imag]}),
    (range, lambda value, strict, depth: {"t": "range", "v": [value.start, value.stop, value.step]}),
    (decimal.Decimal, _text("decimal", decimal.Decimal.__str__)),
    (fractions.Fraction, _text("fraction", fractions.Fraction.__str__)),
    (datetime.datetime, _text("datetime", lambda value: datetime.datetime.isoformat(value))),
    (datetime.date, _text("date", lambda value: datetime.date.isoformat(value))),
    (datetime.timedelta, lambda v, strict, depth: {"t": "timedelta", "v": [v.days, v.seconds, v.microseconds]}),
    (type({}.keys()), _tagged("keys", iter)),
]  # fmt: skip

_ITERATORS: tuple[type, ...] = (type({}.values()), type({}.items()), map, filter, zip, enumerate, reversed,
              type(iter([])), type(iter(())), type(iter(range(0))), types.GeneratorType)  # fmt: skip


def _other(value: Any, strict: bool, depth: int) -> Any:
    if isinstance(value, _ITERATORS):
        return {"t": "iter", "v": _items(value, strict, depth)}
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return encode(value.item(), strict, depth)
    return _opaque(value, strict)


def _deep(value: Any, strict: bool) -> Any:
    if strict:
        raise Foreign("nested deeper than %d" % MAX_DEPTH)
    return {"t": "opaque", "v": [type(value).__name__, "nested deeper than %d" % MAX_DEPTH]}


def _opaque(value: Any, strict: bool) -> Any:
    name = type(value).__name__
    if strict and (type(value) is Opaque or _of_candidate(value)):
        raise Foreign("the candidate's own %r" % value)
    if strict:
        raise NotPlain("a value of type %s cannot be handed to a candidate in its own process" % name)
    try:
        text = repr(value)[:200]
    except Exception:
        text = "?"
    return {"t": "opaque", "v": [str(name), str(text)]}


_THEIRS = "function of a candidate in its own process"


def mark(function: Callable[..., Any]) -> None:
    """``function`` stands for one of a candidate: what it made a function is no limit of the harness."""
    function.__doc__ = _THEIRS


def _of_candidate(value: Any) -> bool:
    return type(value) is types.FunctionType and value.__doc__ is _THEIRS


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda v: tuple(map(decode, v)),
    "dict": lambda v: {decode(key): decode(value) for key, value in v},
    "int": lambda v: int(v, 16),
    "set": lambda v: set(map(decode, v)),
    "frozenset": lambda v: frozenset(map(decode, v)),
    "bytes": lambda v: base64.b64decode(v),
    "bytearray": lambda v: bytearray(base64.b64decode(v)),
    "complex": lambda v: complex(*v),
    "range": lambda v: range(*v),
    "decimal": lambda v: decimal.Decimal(v),
    "fraction": lambda v: fractions.Fraction(v),
    "datetime": lambda v: datetime.datetime.fromisoformat(v),
    "date": lambda v: datetime.date.fromisoformat(v),
    "timedelta": lambda v: datetime.timedelta(*v),
    "keys": lambda v: dict.fromkeys(map(decode, v)).keys(),
    "iter": lambda v: iter(list(map(decode, v))),
    "opaque": lambda v: Opaque(str(v[0])[:80], str(v[1])[:200]),
}


def decode(data: Any) -> Any:
    """The value. Data of no known form becomes an Opaque; nothing here runs what was sent."""
    if isinstance(data, list):
        return [decode(item) if isinstance(item, (list, dict)) else item for item in data]
    if not isinstance(data, dict):
        return data
    try:
        return _DECODERS[data["t"]](data["v"])
    except Exception as error:
        return Opaque("malformed value", type(error).__name__)
