"""oracle.lock.json: the resolved oracle environments of a plan, and the name of a fact that moved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from recurve_eval.domain import JSON, OracleEnv, digest

_PLACE = re.compile(r"^environments\..*#\d+\.(facts\.)?")


def locked(env: OracleEnv) -> dict[str, JSON]:
    """An oracle environment as oracle.lock.json holds it."""
    return {
        "backend": env.backend,
        "isolation": env.isolation,
        "image_digest": env.image_digest,
        "facts": dict(env.facts),
    }


def lock_moved(lock: JSON, here: Mapping[str, JSON]) -> str | None:
    """The first fact of a lock that is another one here, in words; None where all hold.

    Facts of the host change timings and not verdicts, so they are recorded and not held against anyone.
    """
    if not isinstance(lock, Mapping):
        return "it is not a lock"
    mine, other = ({k: v for k, v in each.items() if k != "host"} for each in (here, lock))
    for name, now, then in facts_moved(_in_order(mine), _in_order(other)):
        return f"the oracle's {_PLACE.sub('', name)} is locked as {then!r} and is {now!r} here"
    return None if digest(mine) == digest(other) else "its environments do not carry their own hashes"


def _in_order(lock: Mapping[str, Any]) -> dict[str, Any]:
    """A lock with its environments numbered instead of under their hashes, so that a moved fact has a name."""
    held = lock.get("environments")
    entries = [e for e in held.values() if isinstance(e, Mapping)] if isinstance(held, Mapping) else []
    return {**lock, "environments": {f"{e.get('backend')}#{n}": e for n, e in enumerate(entries)}}


def facts_moved(here: Mapping[str, Any], there: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted name, value here and value there of every leaf that differs."""
    for name in sorted(here.keys() | there.keys()):
        mine, other = here.get(name), there.get(name)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            yield from facts_moved(mine, other, f"{prefix}{name}.")
        elif mine != other:
            yield f"{prefix}{name}", mine, other
