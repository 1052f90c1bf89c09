"""A container that somebody else is removing at the same moment is waited for, and is no trouble of the machinery."""

from types import SimpleNamespace

import pytest

from recurve_eval.errors import SandboxError
from recurve_eval.sandbox import _container


class Removing:
    """As a daemon answers while a removal is under way: there, and not to be had."""

    def __init__(self, asked: int) -> None:
        self.left = asked

    def remove(self, names: list[str]) -> int:
        self.left -= 1
        return 0

    def exists(self, name: str) -> bool:
        return self.left > 0


def child(engine: Removing) -> _container.ContainerChild:
    made = object.__new__(_container.ContainerChild)
    made._engine, made._name = engine, "c"  # type: ignore[assignment]
    made._process = SimpleNamespace(wait=lambda seconds=None: 0)  # type: ignore[assignment]
    return made


def test_one_that_goes_in_a_moment_is_waited_for() -> None:
    engine = Removing(5)
    child(engine)._gone()
    assert engine.left == 0


def test_one_that_stays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_container, "END_SECONDS", 0.2)
    with pytest.raises(SandboxError, match="container c cannot be removed"):
        child(Removing(10**6))._gone()
