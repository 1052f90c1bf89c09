"""The composition root: from overrides to a study of instantiated parts.

:mod:`recurve_eval.compose` composes and validates, this module instantiates, and nothing else does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import hydra

from recurve_eval import config as cfg
from recurve_eval.axes import Point, labels, reaching
from recurve_eval.calibration.subject import Subject
from recurve_eval.capture import check_paths
from recurve_eval.cell import Adapters
from recurve_eval.commands import command
from recurve_eval.compose import (
    compose,
    compose_each,
    each_choice,
    initialised,
    job_config,
    options_of,
    own_options,
    points_of,
)
from recurve_eval.contamination import refuse_contamination
from recurve_eval.domain import JSON, Coordinates, ModelSpec, OracleEnv, canonical_json
from recurve_eval.errors import ConfigError, NoImage, Refused, UnknownName
from recurve_eval.exclusions import Exclusions, read_exclusions
from recurve_eval.interception.authorship import AgentClaims
from recurve_eval.interception.items import distinct
from recurve_eval.interception.layers import Layer, Layers
from recurve_eval.interception.plan import Interception, ItemPlan
from recurve_eval.interception.stored import task_of_run
from recurve_eval.plan import Condition, Plan, select_tasks
from recurve_eval.ports import (
    Auditor,
    Benchmark,
    Covering,
    GateComponent,
    Imaged,
    ImageGrader,
    OracleBackend,
    Preloading,
    Staged,
)
from recurve_eval.prices import lines_on, pins_of
from recurve_eval.study import (
    Study,
    agreed,
    code_of,
    hold_to_pins,
    interception_code,
    lock_of,
    reviewing,
    subject_of,
)  # fmt: skip

__all__ = [
    "Calibrant",
    "Study",
    "benchmark_of",
    "build_study",
    "calibrants",
    "compose",
    "each_option",
    "initialised",
    "instantiate",
    "interceptions",
    "job_parts",
    "option",
    "options_of",
    "oracle_from",
    "oracle_of",
]


def build_study(overrides: Sequence[str], params: Mapping[str, Any] | None = None) -> Study:
    """Compose, validate, instantiate and pin. Hydra must be initialised; nothing is written or spent.

    Parameters
    ----------
    overrides : sequence of str
        Task overrides as on the command line, axes included.
    params : mapping, optional
        The axes of ``hydra.sweeper.params`` where Hydra has composed them already, the experiment's own
        among them.

    Raises
    ------
    ConfigError, Drift
    """
    points = list(points_of(list(overrides), params))
    maker = _Maker()
    conditions, adapters, envs = [], [], []
    for index, (point, config) in enumerate(zip(points, compose_each(points), strict=True)):
        parts = maker.parts(config)
        conditions.append(maker.condition(index, config, point, parts))
        adapters.append(parts)
        envs.append(maker.env(parts))
    shared = agreed([c.config for c in conditions], points)
    maker.make(shared["tracking"])  # refuses what it cannot be before anything is written; the mirror makes its own
    plan = Plan(conditions, shared["study"], shared["analysis"])
    refuse_contamination(conditions, points)
    hold_to_pins(plan, shared["pins"], envs)
    return Study(plan, shared, tuple(adapters), tuple(envs), tuple(points), own_options())


@dataclass(frozen=True)
class Calibrant:
    """Something to calibrate, and the configuration that asks for it."""

    subject: Subject
    config: Mapping[str, Any]


def calibrants(overrides: Sequence[str]) -> list[Calibrant]:
    """The distinct oracles and benchmarks that the overrides span. Hydra must be initialised.

    Agents, sandboxes and arms are not looked at. Raises ConfigError, also where an oracle cannot run here.
    """
    points = list(points_of(list(overrides)))
    maker = _Maker()
    found: dict[tuple[int, int, tuple[str, ...]], Calibrant] = {}
    for point, config in zip(points, compose_each(points), strict=True):
        benchmark, oracle = maker.make(config["task"]), maker.make(config["oracle"])
        table = maker.exclusions(benchmark, config)
        tasks = maker.select(benchmark, config["task"].get("select", "all"), table)
        key = (id(benchmark), id(oracle), tasks)
        if key not in found:
            problem = oracle.check()
            if problem:
                raise ConfigError(problem)
            maker.hold_images(benchmark, oracle, tasks, reaching(point.overrides, config, ("task",)))
            found[key] = Calibrant(subject_of(benchmark, oracle, maker.env_of(oracle, benchmark), table, tasks), config)
    return list(found.values())


INTERCEPTION = {"source": "known_bad", "claims": "agent", "layers": "ladder"}  # its own groups, and their defaults


def interceptions(overrides: Sequence[str]) -> Iterator[Interception]:
    """Everything that ``intercept`` is asked for, one for each choice on every axis. Hydra must be initialised.

    Raises ConfigError, Drift; nothing is written.
    """
    for words in each_choice(overrides):
        named = words if any(w.startswith("study.name=") for w in words) else ["study.name=interception", *words]
        yield _interception(_Maker(), named)


def _composed(words: Sequence[str]) -> dict[str, Any]:
    """The configuration; work of another run is graded as that run graded it, unless a task is named."""
    config = compose(words, INTERCEPTION)
    if "run" in config["source"] and not any(w.split("=")[0].split(".")[0] == "task" for w in words):
        config["task"] = {**task_of_run(config["source"]["run"]), "select": config["task"].get("select", "all")}
    return config


def _interception(maker: _Maker, words: Sequence[str]) -> Interception:
    config = _composed(words)
    source, claims, ladder = (maker.make(config[key]) for key in INTERCEPTION)
    parts = maker.parts(config)
    if isinstance(claims, AgentClaims):
        claims.refuse_paid(parts.agent)
    base = maker.condition(0, config, Point(tuple(words), ()), replace(parts, components=(), auditors=()))
    named = (("source", source), ("claims", claims), ("layers", ladder))
    extra: dict[str, JSON] = {key: dict(part.pins()) for key, part in named}
    extra["code"] = interception_code(base.pins["code"])
    layers, conditions = [], []
    for index, name in enumerate(_available(ladder)):
        own = _composed(_with_layer(words, ladder.define[name]))
        made = maker.parts(own)
        layers.append(_layer(ladder, name, made.components, own["gate"]))
        gate = {c.name: maker.pins_of(c) for c in made.components}
        pins = {**base.pins, **extra, "gate": gate, "gate_code": code_of(made)}
        labels_ = base.labels._replace(arm=ladder.label(name), agent=source.name, model="")
        conditions.append(
            replace(base, index=index, config=own, counted=cfg.verdict_part(own), pins=pins, labels=labels_,
                    paid=False, simulated=source.simulated)
        )  # fmt: skip
    items = list(distinct(source.items(parts.benchmark, base.task_ids)))
    plan = ItemPlan(conditions, config["study"], config["analysis"], items)
    env = maker.env(parts)
    lock = lock_of([env], {config["task"]["name"]: base.pins["benchmark"]["exclusions_hash"]})
    return Interception(
        plan, config, parts.benchmark, parts.agent, parts.sandbox, parts.oracle, env, source, claims, ladder,
        tuple(layers), lock,
    )  # fmt: skip


def _layer(ladder: Layers, name: str, components: tuple[GateComponent, ...], gate: Mapping[str, JSON]) -> Layer:
    """A layer of components. Raises ConfigError where asking it would cost money, which no spend gate watches here."""
    paid = next((c.name for c in components if getattr(c, "paid", False)), None)
    if paid is not None:
        raise ConfigError(
            f"layer '{name}': its '{paid}' would pay a model for every item, outside any spend gate: leave the layer "
            "out (layers.names), or measure it in a study (arm=A7)"
        )
    simulated = any(getattr(getattr(c, "agent", None), "simulated", False) for c in components)
    return Layer(name, ladder.label(name), components, name in ladder.claims, simulated, gate)


def _available(ladder: Layers) -> list[str]:
    """The chosen layers. Raises UnknownName for one whose options this installation does not have."""
    here = [name for name, words in ladder.define.items() if all(map(_exists, words))]
    if ladder.names is None:
        return [name for name in ladder.chosen() if name in here]
    for name in ladder.chosen():
        if name not in here:
            raise UnknownName("layer", name, here, "this installation")
    return ladder.chosen()


def _exists(word: str) -> bool:
    key, _, value = word.partition("=")
    return "." in key or value in options_of(key)


def _with_layer(words: Sequence[str], define: Sequence[str]) -> list[str]:
    """The overrides with those of a layer, which win."""
    keys = {w.partition("=")[0] for w in define}
    return [*(w for w in words if w.partition("=")[0] not in keys), *define]


def oracle_of(overrides: Sequence[str]) -> OracleBackend:
    """The one oracle that the overrides choose. Hydra must be initialised."""
    backend: OracleBackend = _Maker().make(compose(overrides)["oracle"])
    return backend


def benchmark_of(overrides: Sequence[str]) -> Benchmark:
    """The one benchmark that the overrides choose. Hydra must be initialised."""
    benchmark: Benchmark = _Maker().make(compose(overrides)["task"])
    return benchmark


def oracle_from(node: Mapping[str, Any]) -> OracleBackend:
    """The oracle that a recorded configuration names."""
    backend: OracleBackend = _Maker().make(node)
    return backend


def preload_of(benchmark: Benchmark) -> tuple[str, ...]:
    """What every grading of it is to find imported."""
    return tuple(benchmark.preload) if isinstance(benchmark, Preloading) else ()


def job_parts(text: str, index: int, at: Coordinates) -> tuple[Condition, Adapters, OracleEnv]:
    """The parts of one condition, from the YAML that a launcher's job carries."""
    config = job_config(text)
    maker = _Maker()
    parts = maker.parts(config)
    condition = maker.condition(index, config, Point((), ()), parts)
    return replace(condition, labels=at), parts, maker.env(parts)


def instantiate(node: Mapping[str, Any]) -> Any:
    """One adapter from its validated node. Raises ConfigError where its fields are out of range."""
    return _Maker().make(node)


def option(group: str, name: str) -> Any:
    """One option of an adapter group, instantiated as the configuration has it. Raises ConfigError."""
    return instantiate(compose([f"{group}={name}"])[group])


def each_option(group: str) -> Iterator[tuple[str, Any]]:
    """Every option of an adapter group, instantiated as the configuration has it."""
    for name in options_of(group):
        yield name, option(group, name)


class _Maker:
    """Instantiates each distinct node once; conditions that share a node share the part."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._of_node: dict[int, tuple[Mapping[str, Any], Any]] = {}
        self._pins: dict[int, Mapping[str, JSON]] = {}
        self._tasks: dict[tuple[int, str, str], tuple[str, ...]] = {}
        self._tables: dict[tuple[int, str | None], Exclusions] = {}
        self._envs: dict[tuple[int, tuple[str, ...]], Future[OracleEnv]] = {}
        self._asking = ThreadPoolExecutor(thread_name_prefix="oracle-env")
        self._admitted: set[tuple[int, int, tuple[str, ...]]] = set()

    def make(self, node: Mapping[str, Any]) -> Any:
        known = self._of_node.get(id(node))
        if known is not None:
            return known[1]
        made = self._new(node)
        self._of_node[id(node)] = node, made  # holding the node keeps its id its own
        return made

    def _new(self, node: Mapping[str, Any]) -> Any:
        fields = {k: v for k, v in node.items() if k != "select"}
        key = canonical_json(fields)
        if key not in self._made:
            try:
                self._made[key] = hydra.utils.instantiate(fields, _convert_="all")
            except hydra.errors.InstantiationException as error:
                cause = error.__cause__
                raise (cause if isinstance(cause, ConfigError) else ConfigError(str(error))) from None
        return self._made[key]

    def parts(self, config: Mapping[str, Any]) -> Adapters:
        made = [self.make(node) for node in config["gate"].values() if node is not None]
        components = tuple(part for part in made if not isinstance(part, Auditor))
        parts = Adapters(
            benchmark=self.make(config["task"]),
            agent=self.make(config["agent"]),
            sandbox=self.make(config["sandbox"]),
            components=components,
            controller=self.make(config["controller"]),
            oracle=self.make(config["oracle"]),
            auditors=tuple(part for part in made if isinstance(part, Auditor)),
        )
        if parts.controller.runs_gate and not any(c.binding for c in components):
            arm, controller = config["arm"]["name"], config["controller"]["name"]
            raise ConfigError(f"arm {arm}: controller '{controller}' needs a binding check; choose gate/checks=...")
        problem = _misfit(config["gate"], parts, ModelSpec(**config["model"]))
        if problem:
            raise ConfigError(f"arm {config['arm']['name']}: {problem}")
        self._ask(parts.oracle, parts.benchmark)
        return parts

    def env(self, parts: Adapters) -> OracleEnv:
        """Of their oracle with their benchmark's libraries; a server is asked once."""
        return self.env_of(parts.oracle, parts.benchmark)

    def env_of(self, oracle: OracleBackend, benchmark: Benchmark) -> OracleEnv:
        return self._ask(oracle, benchmark).result()

    def _ask(self, oracle: OracleBackend, benchmark: Benchmark) -> Future[OracleEnv]:
        """A grading server takes a moment to start and answer, in which the tasks can be read."""
        key = id(oracle), preload_of(benchmark)
        if key not in self._envs:
            self._envs[key] = self._asking.submit(oracle.env, key[1])
        return self._envs[key]

    def exclusions(self, benchmark: Benchmark, config: Mapping[str, Any]) -> Exclusions:
        """The benchmark's exclusion table, read and checked once."""
        key = (id(benchmark), config["calibrate"]["exclusions"])
        if key not in self._tables:
            table = read_exclusions(benchmark.name, key[1])
            table.check(benchmark.task_ids(), benchmark.name)
            self._tables[key] = table
        return self._tables[key]

    def condition(self, index: int, config: dict[str, Any], point: Point, parts: Adapters) -> Condition:
        table = self.exclusions(parts.benchmark, config)
        tasks = self.select(parts.benchmark, config["task"].get("select", "all"), table)
        self._admit(parts, tasks, config["seed"], reaching(point.overrides, config, ("task",)))
        pins: dict[str, JSON] = {
            name: self.pins_of(getattr(parts, name)) for name in ("benchmark", "agent", "sandbox", "controller")
        }
        pins["benchmark"] = {**pins["benchmark"], "exclusions_hash": table.hash}
        pins["gate"] = {c.name: self.pins_of(c) for c in _gate_of(parts)}
        pins["oracle"] = self.env(parts).hash
        pins["code"] = code_of(parts)
        paid = parts.agent.paid or any(reviewer.paid for reviewer in reviewing(parts))
        prices = lines_on(config["prices"]) if paid else ()
        if parts.agent.paid:
            pins["price"] = pins_of(prices, config["model"]["id"])
        return Condition(
            index, config, cfg.verdict_part(config), pins, labels(config, point.swept, parts.agent.simulated), tasks,
            paid=paid, simulated=parts.agent.simulated,
            excluded=table.reasons, prices=prices,
        )  # fmt: skip

    def pins_of(self, part: Any) -> Mapping[str, JSON]:
        if id(part) not in self._pins:
            self._pins[id(part)] = dict(part.pins())
        return self._pins[id(part)]

    def select(self, benchmark: Benchmark, select: Any, table: Exclusions) -> tuple[str, ...]:
        key = (id(benchmark), canonical_json(select), table.hash)
        if key not in self._tasks:
            self._tasks[key] = select_tasks(list(benchmark.task_ids()), select, table.reasons)
        return self._tasks[key]

    def _admit(self, parts: Adapters, tasks: tuple[str, ...], seed: int, of_task: Sequence[str]) -> None:
        """Find what would stop a cell, before any cell runs. ``of_task`` are the overrides that chose the benchmark."""
        if isinstance(parts.agent, Covering):
            missing = parts.agent.covers(tasks, [seed])
            if missing:
                raise ConfigError(f"agent '{parts.agent.name}' has nothing for {', '.join(map(str, missing[:5]))}")
        self.hold_images(parts.benchmark, parts.oracle, tasks, of_task)
        for part in (None, *_gate_of(parts)):
            key = (id(parts.benchmark), id(part), tasks)
            if key in self._admitted:
                continue
            self._admitted.add(key)
            for task_id in tasks:
                task = parts.benchmark.task(task_id)
                problem = part.admits(task) if part is not None else check_paths(task.capture)
                if problem:
                    raise ConfigError(problem)

    def hold_images(
        self, benchmark: Benchmark, oracle: OracleBackend, tasks: tuple[str, ...], of_task: Sequence[str]
    ) -> None:
        """Where tasks are graded in images of their own, hold each to being here. Raises ConfigError, Refused."""
        key = (id(benchmark), id(oracle), tasks)
        if key in self._admitted or not isinstance(benchmark, Imaged):
            return
        self._admitted.add(key)
        if not isinstance(oracle, ImageGrader):
            raise ConfigError(
                f"the tasks of {benchmark.name} are each graded in an image of their own, which oracle '{oracle.name}' "
                "does not do: choose oracle=instance"
            )
        for task_id in tasks:
            try:
                problem = oracle.lacks(benchmark.image(task_id))
            except NoImage as error:
                raise Refused(f"{error}: {_building(task_id, of_task, '--repin')}") from None
            if problem:
                raise Refused(f"task {task_id}: {problem}: {_building(task_id, of_task)}")


def _building(task_id: str, of_task: Sequence[str], *flags: str) -> str:
    """The command that builds one task's image."""
    name = task_id if re.fullmatch(r"[\w./-]+", task_id) else json.dumps(task_id)
    kept = [word for word in of_task if not word.startswith("task.select=")]
    words = ("oracle=instance", *kept, f"task.select=[{name}]", *flags)
    return command("oracle", "build", *words, own=own_options())


def _misfit(gate: Mapping[str, Any], parts: Adapters, model: ModelSpec) -> str | None:
    """Why the parts of a gate do not go together, or None."""
    chosen = [slot for slot, node in gate.items() if node is not None]
    authored = any(isinstance(c, Staged) and c.author_turns > 0 for c in parts.components)
    astray = next((slot for slot in chosen if slot != "checks"), None)
    if astray is not None and not authored:
        return f"gate/{astray} judges claims, and nothing asks for any: choose gate/checks=claims"
    if authored and "boundary" not in chosen:
        return "claims need a write boundary: choose gate/boundary=enforced, or say gate/boundary=open"
    found = (component.suits(model, parts.agent.simulated) for component in reviewing(parts))
    return next((problem for problem in found if problem), None)


def _gate_of(parts: Adapters) -> tuple[GateComponent | Auditor, ...]:
    return (*parts.components, *parts.auditors)
