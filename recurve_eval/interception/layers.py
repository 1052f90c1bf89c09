"""The layers of a gate, in the order in which they are put on, and the components that each adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recurve_eval.domain import JSON
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.ports import GateComponent


@dataclass
class Layers:
    """Which layers are asked, and what each is.

    Attributes
    ----------
    define : dict of str to list of str
        Every known layer, in order: the overrides of the gate that it adds to those before it.
    names : list of str, optional
        The layers that are asked, in the ladder's order; None takes every one whose options exist.
    cumulative : bool
        Whether a layer stands on those before it; else each is a gate by itself (an arm).
    claims : list of str
        The layers that judge by claims, and so need an author of claims.
    """

    name: str = "ladder"
    define: dict[str, list[str]] = field(default_factory=dict)
    names: list[str] | None = None
    cumulative: bool = True
    claims: list[str] = field(default_factory=list)

    def pins(self) -> Mapping[str, JSON]:
        return {}

    def chosen(self) -> list[str]:
        """The names asked for, in order. Raises UnknownName listing the known ones."""
        if self.names is None:
            return list(self.define)
        for name in self.names:
            if name not in self.define:
                raise UnknownName("layer", name, self.define, "layers.names")
        if not self.names:
            raise ConfigError("layers.names is empty: name at least one layer")
        return [name for name in self.define if name in self.names]

    def label(self, name: str) -> str:
        """A layer's name in rows and tables: with a plus where it stands on others."""
        first = self.chosen()[0]
        return f"+{name}" if self.cumulative and name != first else name


@dataclass(frozen=True)
class Layer:
    """One layer: what it adds. ``needs_claims`` layers cannot judge a task without admitted claims."""

    name: str
    label: str
    components: tuple[GateComponent, ...]
    needs_claims: bool
    simulated: bool  # a reviewer of it calls no model
    settings: Mapping[str, JSON]  # its gate slots, verbatim
