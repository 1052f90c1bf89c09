"""The composition root: from overrides to a study of instantiated parts.

Hydra composes, :mod:`recurve_eval.config` validates, this module instantiates, and nothing else does.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from recurve_eval import config as cfg
from recurve_eval import provenance
from recurve_eval.axes import Override, Point, labels, spread
from recurve_eval.calibration.subject import Subject
from recurve_eval.capture import check_paths
from recurve_eval.cell import Adapters
from recurve_eval.domain import JSON, Coordinates, OracleEnv, canonical_json
from recurve_eval.errors import ConfigError, Drift, UnknownName
from recurve_eval.exclusions import Exclusions, read_exclusions
from recurve_eval.locks import locked
from recurve_eval.plan import Condition, Plan, select_tasks
from recurve_eval.ports import Benchmark, Covering, OracleBackend
from recurve_eval.resources import conf_dir

CONFIG_NAME = "config"
UNREADABLE = (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError, RecursionError)
KERNEL = ("domain", "ports", "cell", "capture", "leak", "workspace", "testids", "results", "plan")


@dataclass(frozen=True)
class Study:
    """A plan with its parts, ready to run. ``config`` is what all conditions share."""

    plan: Plan
    config: Mapping[str, Any]
    adapters: tuple[Adapters, ...]
    envs: tuple[OracleEnv, ...]
    points: tuple[Point, ...]

    @property
    def run_dir(self) -> Path:
        return self.plan.directory(Path(self.config["run"]["outputs"]))

    def lock(self) -> dict[str, JSON]:
        """oracle.lock.json: every distinct oracle environment of the plan."""
        envs = {e.hash: e for e in self.envs}
        return {
            "schema": 1,
            "environments": {h: locked(e) for h, e in sorted(envs.items())},
            "exclusions": {
                c.config["task"]["name"]: c.pins["benchmark"]["exclusions_hash"] for c in self.plan.conditions
            },
            "host": provenance.host_facts(),
        }

    def subjects(self, paid: bool | None = None) -> list[tuple[Subject, Point]]:
        """What must be calibrated for the conditions (those that are paid, or are not, where asked), each once.

        Beside each stands a point whose overrides compose it.
        """
        tasks: dict[tuple[str, str, str], dict[str, None]] = {}
        parts: dict[tuple[str, str, str], int] = {}
        for c, env in zip(self.plan.conditions, self.envs, strict=True):
            if paid is not None and c.paid is not paid:
                continue
            key = (c.config["task"]["name"], canonical_json(c.pins["benchmark"]), env.hash)
            tasks.setdefault(key, {}).update(dict.fromkeys(c.task_ids))
            parts.setdefault(key, c.index)
        out = []
        for key, index in parts.items():
            c, adapters = self.plan.conditions[index], self.adapters[index]
            table = Exclusions(c.excluded)
            subject = _subject(adapters.benchmark, adapters.oracle, self.envs[index], table, tuple(tasks[key]))
            out.append((subject, self.points[index]))
        return out


@dataclass(frozen=True)
class Calibrant:
    """Something to calibrate, and the configuration that asks for it."""

    subject: Subject
    config: Mapping[str, Any]


def calibrants(overrides: Sequence[str]) -> list[Calibrant]:
    """The distinct oracles and benchmarks that the overrides span. Hydra must be initialised.

    Agents, sandboxes and arms are not looked at. Raises ConfigError, also where an oracle cannot run here.
    """
    points = list(_points(list(overrides), {}))
    maker = _Maker()
    found: dict[tuple[int, int, tuple[str, ...]], Calibrant] = {}
    for config in _composed(points):
        benchmark, oracle = maker.make(config["task"]), maker.make(config["oracle"])
        table = maker.exclusions(benchmark, config)
        tasks = maker.select(benchmark, config["task"].get("select", "all"), table)
        key = (id(benchmark), id(oracle), tasks)
        if key not in found:
            problem = oracle.check()
            if problem:
                raise ConfigError(problem)
            found[key] = Calibrant(_subject(benchmark, oracle, maker.env(oracle), table, tasks), config)
    return list(found.values())


def _subject(
    benchmark: Benchmark, oracle: OracleBackend, env: OracleEnv, table: Exclusions, tasks: tuple[str, ...]
) -> Subject:  # fmt: skip
    code = {"recurve_eval.domain", "recurve_eval.testids"}
    code |= _siblings(type(benchmark).__module__) | _siblings(type(oracle).__module__)
    return Subject(benchmark, oracle, env, benchmark.pins(), table, provenance.code_hash(sorted(code)), tasks)


def oracle_of(overrides: Sequence[str]) -> OracleBackend:
    """The one oracle that the overrides choose. Hydra must be initialised."""
    backend: OracleBackend = _Maker().make(compose(overrides)["oracle"])
    return backend


def oracle_from(node: Mapping[str, Any]) -> OracleBackend:
    """The oracle that a recorded configuration names."""
    backend: OracleBackend = _Maker().make(node)
    return backend


def build_study(overrides: Sequence[str], params: Mapping[str, Any] | None = None) -> Study:
    """Compose, validate, instantiate and pin. Hydra must be initialised; nothing is written or spent.

    Parameters
    ----------
    overrides : sequence of str
        Task overrides as on the command line, axes included.
    params : mapping, optional
        Axes from ``hydra.sweeper.params`` that win over the experiment's own.

    Raises
    ------
    ConfigError, Drift
    """
    points = list(_points(list(overrides), params or {}))
    maker = _Maker()
    conditions, adapters, envs = [], [], []
    for index, (point, config) in enumerate(zip(points, _composed(points), strict=True)):
        parts, env = maker.parts(config)
        conditions.append(maker.condition(index, config, point, parts, env))
        adapters.append(parts)
        envs.append(env)
    shared = _shared([c.config for c in conditions], points)
    plan = Plan(conditions, shared["study"], shared["analysis"])
    _expect(plan, shared["pins"], envs)
    return Study(plan, shared, tuple(adapters), tuple(envs), tuple(points))


def compose(overrides: Iterable[str]) -> dict[str, Any]:
    """One validated configuration. Raises ConfigError with the known choices."""
    return _validated(_compose(list(overrides)))


def _validated(composed: DictConfig) -> dict[str, Any]:
    with open_dict(composed):
        runtime = composed.pop("hydra").runtime
    return cfg.validate(composed, {str(k).split("@")[0]: str(v) for k, v in runtime.choices.items()})


def _composed(points: Iterable[Point]) -> Iterator[dict[str, Any]]:
    """The validated configuration of each point.

    Seeds are by far the longest axis, and a seed changes nothing but itself unless something refers to
    it by interpolation. So the points of one seed axis share one composition where nothing does.
    """
    shared: dict[tuple[str, ...], dict[str, Any] | None] = {}
    for point in points:
        seeds = [o for o in point.overrides if _PLAIN_SEED.fullmatch(o)]
        key = tuple(o for o in point.overrides if o not in seeds)
        known = shared.get(key)
        if known is not None and len(seeds) == 1:
            yield {**known, "seed": int(seeds[0].removeprefix("seed="))}
            continue
        composed = _compose(list(point.overrides))
        alone = key not in shared and not _refers_to_seed(composed)
        config = _validated(composed)
        shared[key] = config if alone else None
        yield config


_PLAIN_SEED = re.compile(r"seed=[0-9]+")


def _refers_to_seed(composed: DictConfig) -> bool:
    raw = OmegaConf.to_container(composed, resolve=False)
    return any(isinstance(v, str) and "${" in v and "seed" in v for _, v in cfg.leaves(raw))


def _compose(overrides: list[str]) -> DictConfig:
    try:
        return hydra.compose(CONFIG_NAME, overrides, return_hydra_config=True)
    except UNREADABLE as error:
        raise explain(error) from None


def explain(error: Exception) -> ConfigError:
    """Hydra's error as one of ours: what is wrong, the known choices, a guess."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        extra = (
            "the shipped options; joblib, ray and slurm come with the extras of those names"
            if "launcher" in group
            else ""
        )
        return UnknownName("option", f"{group}={name}", [f"{group}={o}" for o in error.options], extra)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    if isinstance(error, (yaml.YAMLError, UnicodeDecodeError, RecursionError)):
        return ConfigError(f"a configuration file cannot be read: {' '.join(lines)[:400]}")
    if isinstance(error, OverrideParseException):
        return ConfigError(f"cannot read the override '{error.override}': {message}")
    if isinstance(error, ConfigCompositionException) and "Could not override '" in message:
        key = message.split("'")[1]
        return UnknownName("key", key, _known_keys(), "the configuration")
    return ConfigError(message)


def _known_keys() -> list[str]:
    if not GlobalHydra.instance().is_initialized():
        return [*cfg.PLAIN, *cfg.ADAPTERS, *cfg.SCALARS, "gate", "experiment"]
    tree = OmegaConf.to_container(hydra.compose(CONFIG_NAME), resolve=False)
    keys = [key for key, _ in cfg.leaves(tree) if "_target_" not in key]
    return [*keys, *cfg.ADAPTERS, "model", "budget", "arm", "gate/checks", "analysis", "experiment"]


# -- axes -----------------------------------------------------------------------------------------


def _points(overrides: list[str], params: Mapping[str, Any]) -> Iterable[Point]:
    parsed = _parse(overrides)
    experiments = next((o for o in parsed if o.key == "experiment"), None)
    if experiments is None or not experiments.swept:
        return spread(parsed, {**_declared_axes(parsed), **_axes(params)})
    rest = [o for o in parsed if o is not experiments]
    every: list[Point] = []
    for choice in experiments.choices:
        fixed = [*rest, Override("experiment", (choice,), swept=False)]
        every += spread(fixed, {**_declared_axes(fixed), **_axes(params)})
    return every


def _parse(overrides: Sequence[str]) -> list[Override]:
    try:
        parsed = OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(list(overrides))
    except HydraException as error:
        raise explain(error) from None
    out = []
    for item in parsed:
        line = item.input_line or ""
        if item.is_sweep_override():
            key = item.get_key_element()
            out.append(Override(key, tuple(f"{key}={v}" for v in item.sweep_string_iterator()), swept=True))
        else:
            out.append(Override(item.get_key_element(), (line,), swept=False))
    return out


def _declared_axes(overrides: Sequence[Override]) -> dict[str, Override]:
    fixed = [o.choices[0] for o in overrides if not o.swept]
    params = OmegaConf.select(_compose(fixed), "hydra.sweeper.params")
    return _axes({} if params is None else plain(params))


def plain(node: Any) -> dict[str, Any]:
    """A configuration node as plain data, its interpolations unresolved."""
    tree = OmegaConf.to_container(node, resolve=False)
    assert isinstance(tree, dict)
    return {str(k): v for k, v in tree.items()}


def _axes(params: Mapping[str, Any]) -> dict[str, Override]:
    return {o.key: o for o in _parse([f"{key}={value}" for key, value in params.items()])}


# -- parts ----------------------------------------------------------------------------------------


class _Maker:
    """Instantiates each distinct node once; conditions that share a node share the part."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._pins: dict[int, Mapping[str, JSON]] = {}
        self._tasks: dict[tuple[int, str, str], tuple[str, ...]] = {}
        self._tables: dict[tuple[int, str | None], Exclusions] = {}
        self._envs: dict[int, OracleEnv] = {}
        self._admitted: set[tuple[int, int, tuple[str, ...]]] = set()

    def make(self, node: Mapping[str, Any]) -> Any:
        fields = {k: v for k, v in node.items() if k != "select"}
        key = canonical_json(fields)
        if key not in self._made:
            try:
                self._made[key] = hydra.utils.instantiate(fields, _convert_="all")
            except hydra.errors.InstantiationException as error:
                cause = error.__cause__
                raise (cause if isinstance(cause, ConfigError) else ConfigError(str(error))) from None
        return self._made[key]

    def parts(self, config: Mapping[str, Any]) -> tuple[Adapters, OracleEnv]:
        components = tuple(self.make(node) for node in config["gate"].values() if node is not None)
        parts = Adapters(
            benchmark=self.make(config["task"]),
            agent=self.make(config["agent"]),
            sandbox=self.make(config["sandbox"]),
            components=components,
            controller=self.make(config["controller"]),
            oracle=self.make(config["oracle"]),
        )
        if parts.controller.runs_gate and not any(c.binding for c in components):
            arm, controller = config["arm"]["name"], config["controller"]["name"]
            raise ConfigError(f"arm {arm}: controller '{controller}' needs a binding check; choose gate/checks=...")
        return parts, self.env(parts.oracle)

    def env(self, oracle: OracleBackend) -> OracleEnv:
        """Its environment; a server is asked once."""
        if id(oracle) not in self._envs:
            self._envs[id(oracle)] = oracle.env()
        return self._envs[id(oracle)]

    def exclusions(self, benchmark: Benchmark, config: Mapping[str, Any]) -> Exclusions:
        """The benchmark's exclusion table, read and checked once."""
        key = (id(benchmark), config["calibrate"]["exclusions"])
        if key not in self._tables:
            table = read_exclusions(benchmark.name, key[1])
            table.check(benchmark.task_ids(), benchmark.name)
            self._tables[key] = table
        return self._tables[key]

    def condition(self, index: int, config: dict[str, Any], point: Point, parts: Adapters, env: OracleEnv) -> Condition:
        table = self.exclusions(parts.benchmark, config)
        tasks = self.select(parts.benchmark, config["task"].get("select", "all"), table)
        self._admit(parts, tasks, config["seed"])
        pins: dict[str, JSON] = {
            name: self._pins_of(getattr(parts, name)) for name in ("benchmark", "agent", "sandbox", "controller")
        }
        pins["benchmark"] = {**pins["benchmark"], "exclusions_hash": table.hash}
        pins["gate"] = {c.name: self._pins_of(c) for c in parts.components}
        pins["oracle"] = env.hash
        pins["code"] = _code(parts)
        return Condition(
            index, config, cfg.verdict_part(config), pins, labels(config, point.swept), tasks,
            paid=parts.agent.paid, simulated=parts.agent.simulated, excluded=table.reasons,
        )  # fmt: skip

    def _pins_of(self, part: Any) -> Mapping[str, JSON]:
        if id(part) not in self._pins:
            self._pins[id(part)] = dict(part.pins())
        return self._pins[id(part)]

    def select(self, benchmark: Benchmark, select: Any, table: Exclusions) -> tuple[str, ...]:
        key = (id(benchmark), canonical_json(select), table.hash)
        if key not in self._tasks:
            self._tasks[key] = select_tasks(list(benchmark.task_ids()), select, table.reasons)
        return self._tasks[key]

    def _admit(self, parts: Adapters, tasks: tuple[str, ...], seed: int) -> None:
        """Find what would stop a cell, before any cell runs."""
        if isinstance(parts.agent, Covering):
            missing = parts.agent.covers(tasks, [seed])
            if missing:
                raise ConfigError(f"agent '{parts.agent.name}' has nothing for {', '.join(map(str, missing[:5]))}")
        for part in (None, *parts.components):
            key = (id(parts.benchmark), id(part), tasks)
            if key in self._admitted:
                continue
            self._admitted.add(key)
            for task_id in tasks:
                task = parts.benchmark.task(task_id)
                problem = part.admits(task) if part is not None else check_paths(task.capture)
                if problem:
                    raise ConfigError(problem)


def _code(parts: Adapters) -> str:
    """Hash of the source that produces a verdict: the kernel's, and the package of every adapter in use."""
    used = (parts.benchmark, parts.agent, parts.sandbox, parts.controller, parts.oracle, *parts.components)
    modules = {f"recurve_eval.{name}" for name in KERNEL}
    for part in used:
        modules |= _siblings(type(part).__module__)
    return provenance.code_hash(tuple(sorted(modules)))


@cache
def _siblings(module: str) -> frozenset[str]:
    """A module and, where it is one of ours, its whole package: adapters share helpers within theirs."""
    package, _, _ = module.rpartition(".")
    if not package.startswith("recurve_eval."):
        return frozenset({module})
    found = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    return frozenset({package, *(m.name for m in found if not m.ispkg)})


def _shared(configs: Sequence[Mapping[str, Any]], points: Sequence[Point]) -> dict[str, Any]:
    """What all conditions must agree on. Raises ConfigError naming both sides of a contradiction."""
    first = configs[0]
    for config, point in zip(configs[1:], points[1:], strict=True):
        for group in cfg.PLAN_LEVEL:
            if first[group] is config[group]:
                continue
            mine, other = dict(cfg.leaves(first[group])), dict(cfg.leaves(config[group]))
            for key in sorted(mine.keys() | other.keys()):
                if mine.get(key) != other.get(key):
                    a, b = " ".join(points[0].overrides) or "defaults", " ".join(point.overrides)
                    raise ConfigError(
                        f"the conditions of one plan contradict each other on {group}.{key}: "
                        f"{mine.get(key)!r} ({a}) against {other.get(key)!r} ({b}). Run them as two studies"
                    )
    return {group: first[group] for group in cfg.PLAN_LEVEL}


def _expect(plan: Plan, pins: Mapping[str, Any], envs: Sequence[OracleEnv]) -> None:
    """Hold the plan against what the study says it expects."""
    found: dict[str, set[Any]] = {
        "dataset_hash": {c.pins["benchmark"].get("dataset_hash") for c in plan.conditions},
        "oracle_env_hash": {e.hash for e in envs},
        "plan_hash": {plan.hash},
    }
    for key, expected in pins.items():
        if expected is not None and found[key] != {expected}:
            got = ", ".join(sorted(map(str, found[key])))
            raise Drift(f"pins.{key} expects {expected} and finds {got}: find out what moved, or set the pin anew")


def initialised(config_dir: Path | None = None) -> Any:
    """Context manager: Hydra initialised on the shipped configuration, for use outside its command line."""
    return hydra.initialize_config_dir(str(config_dir or conf_dir()), version_base="1.3")


def job_text(composed: DictConfig) -> tuple[str, str]:
    """What a launcher composed for a job: its cell id, and the rest as YAML (the same for a condition's jobs)."""
    cell_id = str(composed.get("cell_id") or "")
    rest = composed.copy()
    with open_dict(rest):
        rest.cell_id = None
    return cell_id, OmegaConf.to_yaml(rest)


def job_parts(text: str, index: int, at: Coordinates) -> tuple[Condition, Adapters, OracleEnv]:
    """The parts of one condition, from the YAML of :func:`job_text`."""
    loaded = OmegaConf.create(text)
    assert isinstance(loaded, DictConfig)
    config = cfg.validate(loaded)
    maker = _Maker()
    parts, env = maker.parts(config)
    condition = maker.condition(index, config, Point((), ()), parts, env)
    return replace(condition, labels=at), parts, env


def through_hydra(job: Callable[[Any, Path], None]) -> None:
    """Run ``sys.argv`` through Hydra's own command line; ``job`` is what a stock launcher's job does.

    Raises ConfigError for whatever Hydra cannot compose.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that errors arrive here and not as Hydra's exit

    def task(composed: DictConfig) -> None:
        job(composed, Path(HydraConfig.get().sweep.dir))

    try:
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=CONFIG_NAME)(task)()
    except UNREADABLE as error:
        raise explain(error) from None


def instantiate(node: Mapping[str, Any]) -> Any:
    """One adapter from its validated node. Raises ConfigError where its fields are out of range."""
    return _Maker().make(node)


def each_option(group: str) -> Iterator[tuple[str, Any]]:
    """Every option of an adapter group, instantiated as the shipped configuration has it."""
    maker = _Maker()
    for name in GlobalHydra.instance().config_loader().get_group_options(group):
        yield name, maker.make(compose([f"{group}={name}"])[group])
