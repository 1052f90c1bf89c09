"""The shape of a composed configuration, and the checks that close the holes Hydra leaves open.

Hydra lets ``+extra=1``, ``+model.temprature=0.3`` and ``~task`` past a structured config. So the
composed tree is held against this module's dataclasses (and, below a ``_target_``, against the fields
of the adapter it names): every key known, every value of its type, nothing required missing.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from recurve_eval.errors import ConfigError, UnknownName

MISSING = "???"
VERDICT_FREE = {"verdict": False}  # field metadata: cannot change a verdict, so not part of the plan hash


@dataclass
class ModelConfig:
    name: str = MISSING
    id: str = ""
    simulated: bool = False
    skill: float | None = None

    def __post_init__(self) -> None:
        if self.skill is not None and not 0.0 <= self.skill <= 1.0:
            raise ConfigError(f"model.skill is a probability; got {self.skill}")


@dataclass
class BudgetConfig:
    name: str = MISSING
    wall_s: float = 600.0
    tokens: int | None = None
    usd: float | None = None
    steps: int | None = None
    max_cycles: int = 1
    call_usd: float = 0.0
    match: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.call_usd < math.inf:
            raise ConfigError(f"budget.call_usd must not be negative; got {self.call_usd}")
        if self.match not in (None, "usd"):
            raise UnknownName("unit", self.match, ("usd", "null"), "budget.match")
        if self.match == "usd" and self.usd is None:
            raise ConfigError("budget.match=usd needs budget.usd: the dollars that every cell gets")
        for unit in ("wall_s", "tokens", "usd", "steps"):
            value = getattr(self, unit)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"budget.{unit} must be positive (or null for no bound); got {value}")
        if self.max_cycles < 1:
            raise ConfigError(f"budget.max_cycles must be at least 1; got {self.max_cycles}")


@dataclass
class ArmConfig:
    name: str = MISSING
    description: str = field(default="", metadata=VERDICT_FREE)
    stream: int = 0
    require_model: bool = False


@dataclass
class PriceLine:
    model: str = MISSING
    since: str = MISSING
    input: float = MISSING  # type: ignore[assignment]
    cached: float = MISSING  # type: ignore[assignment]
    output: float = MISSING  # type: ignore[assignment]
    source: str = MISSING
    checked: str = MISSING


@dataclass
class PricesConfig:
    """The price list. Of it, the line of the asked model is pinned by the plan; the rest changes no verdict."""

    name: str = field(default=MISSING, metadata=VERDICT_FREE)
    date: str | None = field(default=None, metadata=VERDICT_FREE)
    lines: list[PriceLine] = field(default_factory=list, metadata=VERDICT_FREE)


@dataclass
class Contrast:
    baseline: str = MISSING
    treatment: str = MISSING


@dataclass
class StudyConfig:
    name: str = field(default="adhoc", metadata=VERDICT_FREE)
    description: str = field(default="", metadata=VERDICT_FREE)
    primary: Contrast | None = None
    contrasts: list[Contrast] = field(default_factory=list)
    noise_floor: Contrast | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", self.name):
            raise ConfigError(f"study.name names a directory: letters, digits, '.', '_' and '-'; got {self.name!r}")


@dataclass
class AnalysisConfig:
    alpha: float = 0.05
    power: float = 0.8
    seed: int = field(default=0, metadata=VERDICT_FREE)
    resamples: int = field(default=10_000, metadata=VERDICT_FREE)
    figures: bool = field(default=True, metadata=VERDICT_FREE)
    report: bool = field(default=True, metadata=VERDICT_FREE)

    def __post_init__(self) -> None:
        for name in ("alpha", "power"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ConfigError(f"analysis.{name} must lie between 0 and 1; got {getattr(self, name)}")
        if self.resamples < 100:
            raise ConfigError(f"analysis.resamples must be at least 100; got {self.resamples}")


@dataclass
class SpendConfig:
    max_usd: float | None = None
    gate: str = "enforce"
    allow_unprotected: bool = False
    probe_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.max_usd is not None and self.max_usd < 0:
            raise ConfigError(f"spend.max_usd must not be negative; got {self.max_usd}")
        if self.gate not in ("enforce", "warn"):
            raise UnknownName("spend gate", self.gate, ("enforce", "warn"), "spend.gate")


@dataclass
class RunConfig:
    outputs: str = "outputs"
    workers: int = 0
    log_level: str = "WARNING"
    progress: str = "auto"
    analyze: bool = True
    mirror_timeout_s: float = 120.0
    stop_after_infra: int = 5

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ConfigError(f"run.workers must not be negative (0 means one for each core); got {self.workers}")
        if self.progress not in ("auto", "rich", "plain", "none"):
            raise UnknownName("progress style", self.progress, ("auto", "rich", "plain", "none"), "run.progress")
        levels = ("DEBUG", "INFO", "WARNING", "ERROR")
        if self.log_level not in levels:
            raise UnknownName("log level", self.log_level, levels, "run.log_level")


@dataclass
class CalibrateConfig:
    """How an oracle is calibrated, and what a study demands of its calibration."""

    runs: int = 3
    mutants: int = 1
    seed: int = 0
    timeout_floor_s: float = 2.0
    timeout_factor: float = 5.0
    exclusions: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("runs", 1), ("mutants", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"calibrate.{name} must be at least {least}; got {getattr(self, name)}")
        for name in ("timeout_floor_s", "timeout_factor"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"calibrate.{name} must be positive; got {getattr(self, name)}")


@dataclass
class PinsConfig:
    """What a study expects to find; a mismatch refuses the plan. ``null`` expects nothing."""

    dataset_hash: str | None = None
    oracle_env_hash: str | None = None
    plan_hash: str | None = None


PLAIN: dict[str, type] = {
    "model": ModelConfig,
    "budget": BudgetConfig,
    "arm": ArmConfig,
    "prices": PricesConfig,
    "study": StudyConfig,
    "analysis": AnalysisConfig,
    "spend": SpendConfig,
    "run": RunConfig,
    "calibrate": CalibrateConfig,
    "pins": PinsConfig,
}
ADAPTERS = ("task", "agent", "sandbox", "controller", "oracle", "tracking")
GATE_SLOTS = ("checks", "traps", "boundary", "hardening", "adversary", "governor")
GROUPS = (
    "task", "model", "agent", "sandbox", "budget", "prices", *(f"gate/{slot}" for slot in GATE_SLOTS), "controller",
    "oracle", "tracking", "analysis", "arm", "experiment",
)  # fmt: skip
KERNEL_KEYS = {"task": ("select",)}  # keys beside an adapter's own that the kernel reads
SCALARS: dict[str, type] = {"seed": int, "cell_id": str}
OPERATIONAL = ("run", "tracking", "spend", "calibrate", "cell_id", "pins")
PLAN_LEVEL = ("study", "analysis", "spend", "run", "calibrate", "tracking", "oracle", "pins", "prices")


def validate(
    composed: DictConfig, choices: Mapping[str, str] | None = None, extra: Collection[str] = ()
) -> dict[str, Any]:
    """The complete, resolved configuration as plain data.

    Parameters
    ----------
    composed : DictConfig
        What Hydra composed, without its own ``hydra`` node.
    choices : mapping of group to option
        For error messages: which option of which group was chosen.
    extra : collection of str
        Further adapter groups, which only some verbs have.

    Raises
    ------
    ConfigError
        An unknown or missing key, a value of the wrong type or out of range, a missing value.
    """
    try:
        tree = OmegaConf.to_container(composed, resolve=True, throw_on_missing=False)
    except OmegaConfBaseException as error:
        raise ConfigError(f"cannot resolve the configuration: {_first_line(error)}") from None
    assert isinstance(tree, dict)
    known = {*PLAIN, *ADAPTERS, *SCALARS, *extra, "gate"}
    for key in tree:
        if key not in known:
            raise UnknownName("key", str(key), known, "the configuration")
    absent = known - set(tree)
    if absent:
        raise ConfigError(f"the configuration lacks '{min(absent)}': {instead_of_removing(min(absent), extra)}")
    chosen = choices or {}
    out: dict[str, Any] = {}
    for key, schema in PLAIN.items():
        out[key] = _plain(key, tree[key], schema, chosen)
    for key in (*ADAPTERS, *extra):
        out[key] = _adapter(key, tree[key], chosen)
    out["gate"] = _gate(tree["gate"], chosen)
    for key, kind in SCALARS.items():
        if tree[key] is not None and (not isinstance(tree[key], kind) or isinstance(tree[key], bool)):
            raise ConfigError(f"{key} must be {kind.__name__}; got {tree[key]!r}")
        out[key] = tree[key]
    if out["seed"] is None or out["seed"] < 0:
        raise ConfigError(f"seed must be a non-negative integer; got {out['seed']!r}")
    for key, value in leaves(out):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{key} must be a finite number; got {value}")
    return out


def instead_of_removing(key: str, extra: Collection[str] = ()) -> str:
    """What to write where somebody took away a part that every configuration has, ``extra`` where a verb has it."""
    groups = (*GROUPS, *extra)
    if key in groups or key == "gate":
        choice = "gate/SLOT=none leaves a slot empty" if key == "gate" else f"choose an option of it, {key}=NAME"
        return f"a group cannot be removed; {choice}. Groups: {', '.join(groups)}"
    return f"it cannot be removed; set {key}=VALUE" if key in SCALARS else f"it cannot be removed; set {key}.KEY=VALUE"


def _gate(tree: Any, choices: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise ConfigError(f"gate must be a mapping of slots ({', '.join(GATE_SLOTS)}); got {tree!r}")
    for slot in tree:
        if slot not in GATE_SLOTS:
            raise UnknownName("gate slot", str(slot), GATE_SLOTS, "gate")
    return {s: None if tree.get(s) is None else _adapter(f"gate.{s}", tree[s], choices) for s in GATE_SLOTS}


def _plain(key: str, node: Any, schema: type, choices: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise ConfigError(f"{key} must be a mapping; got {node!r}{_place(key, choices)}")
    _known_keys(key, node, schema, choices)
    merged = _merge(key, node, schema, choices)
    OmegaConf.to_object(merged)  # runs the range checks of the dataclass
    return _container(merged)


def _adapter(key: str, node: Any, choices: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(node, dict) or "_target_" not in node:
        raise ConfigError(f"{key} must name its adapter with _target_; got {node!r}{_place(key, choices)}")
    schema = adapter_class(key, str(node["_target_"]))
    kernel = {k: node[k] for k in KERNEL_KEYS.get(key, ()) if k in node}
    fields = {k: v for k, v in node.items() if k != "_target_" and k not in kernel}
    _known_keys(key, fields, schema, choices)
    return {"_target_": node["_target_"], **_container(_merge(key, fields, schema, choices)), **kernel}


def adapter_class(key: str, target: str) -> type:
    """The dataclass that a ``_target_`` names. Raises ConfigError where there is none."""
    module, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may do anything when it is imported
        raise ConfigError(f"{key}._target_: cannot load '{target}': {type(error).__name__}: {error}") from None
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise ConfigError(f"{key}._target_: '{target}' is not an adapter (a dataclass)")
    return found


def _known_keys(key: str, node: Mapping[str, Any], schema: type, choices: Mapping[str, str]) -> None:
    known = [f.name for f in dataclasses.fields(schema) if f.init] + list(KERNEL_KEYS.get(key, ()))
    for name in node:
        if name not in known:
            place = _place(key, choices).removeprefix(" (see ").removesuffix(")")
            raise UnknownName("key", f"{key}.{name}", [f"{key}.{k}" for k in known], place)


def _merge(key: str, node: Mapping[str, Any], schema: type, choices: Mapping[str, str]) -> DictConfig:
    try:
        merged = OmegaConf.merge(OmegaConf.structured(schema), dict(node))
    except OmegaConfBaseException as error:
        raise _misfit(error, key, node, choices) from None
    assert isinstance(merged, DictConfig)
    for name, value in _respelt(dict(node), OmegaConf.to_container(merged)):
        said = str(value).lower() if isinstance(value, bool) else value
        raise ConfigError(
            f"{key}.{name} is text, and {said} without quotes is none: quote it, on a command line as "
            f"'\"{said}\"'{_place(key, choices)}"
        )
    # A merge lets an earlier default stand where the option says that a value must be given.
    unset = {name for name, value in leaves(node) if value == MISSING}
    for missing in sorted(unset | OmegaConf.missing_keys(merged)):
        raise ConfigError(f"{key}.{missing} has no value: set it, e.g. {key}.{missing}=...{_place(key, choices)}")
    return merged


def _misfit(
    error: OmegaConfBaseException, key: str, node: Mapping[str, Any], choices: Mapping[str, str]
) -> ConfigError:
    """OmegaConf's account of a value that does not fit, in words of the configuration."""
    full, kind, said = getattr(error, "full_key", None), getattr(error, "object_type", None), _first_line(error)
    name = f"{key}.{full}" if full else key
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and dataclasses.is_dataclass(kind):
        stem = name.rpartition(".")[0]
        return UnknownName("key", name, [f"{stem}.{field.name}" for field in dataclasses.fields(kind)])
    wanted = next((words for part, words in _WANTED.items() if part in said), None)
    value = _at(node, full)
    if wanted and value is not None and not isinstance(value, dict | list):
        said = f"{value!r} is {wanted}" + (f": write {name}=[{value}]" if "list" in wanted else "")
    return ConfigError(f"{name}: {said}{_place(key, choices)}")


_WANTED = {
    "is not a ListConfig": "no list",
    "could not be converted to Float": "no number",
    "could not be converted to Integer": "no whole number",
    "is not a valid bool": "neither true nor false",
}


def _at(node: Any, path: str | None) -> Any:
    for name in (path or "").split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _respelt(given: Any, kept: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Where text was made of a truth value or a number, whose spelling (`true`, `2.10`, `1_000`) is lost by then.

    A whole number in a list or a mapping is let through: among the words of a command, 5 is what it looks like.
    """
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            yield from _respelt(value, kept.get(name), f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(given, list) and isinstance(kept, list):
        for number, pair in enumerate(zip(given, kept, strict=False)):
            yield from _respelt(*pair, f"{prefix}[{number}]")
    elif isinstance(kept, str) and isinstance(given, bool | int | float):
        alone = prefix.isidentifier()
        if alone or type(given) is not int:
            yield prefix, given


def _container(config: DictConfig) -> dict[str, Any]:
    tree = OmegaConf.to_container(config, resolve=True, enum_to_str=True)
    assert isinstance(tree, dict)
    return {str(k): v for k, v in tree.items()}


def _place(key: str, choices: Mapping[str, str]) -> str:
    group = key.replace(".", "/")
    option = choices.get(group)
    return f" (see {group}/{option}.yaml)" if option else ""


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def verdict_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a validated configuration that can change a verdict: what the plan hash covers.

    Everything counts unless declared otherwise (a field's metadata, or an operational group), so a
    forgotten declaration costs a needless new run directory and never a silent mix of results.
    """
    out: dict[str, Any] = {}
    for key, node in config.items():
        if key in OPERATIONAL:
            continue
        if key == "gate":
            out[key] = {
                slot: part and _counted(part, adapter_class(slot, part["_target_"])) for slot, part in node.items()
            }
        elif isinstance(node, Mapping) and "_target_" in node:
            out[key] = _counted(node, adapter_class(key, node["_target_"]))
        elif key in PLAIN:
            out[key] = _counted(node, PLAIN[key])
        else:
            out[key] = node
    return out


def _counted(node: Mapping[str, Any], schema: type) -> dict[str, Any]:
    free = _verdict_free(schema)
    return {k: v for k, v in node.items() if k not in free and k != "select"}


@cache
def _verdict_free(schema: type) -> frozenset[str]:
    return frozenset(f.name for f in dataclasses.fields(schema) if f.metadata.get("verdict") is False)


def leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of every leaf of plain nested data."""
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from leaves(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree
