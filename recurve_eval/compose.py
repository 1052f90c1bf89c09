"""What Hydra composes: overrides to validated configurations, axes to points, its errors to ours."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from recurve_eval import config as cfg
from recurve_eval.axes import Override, Point, spread
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.resources import conf_dir

CONFIG_NAME = "config"
UNREADABLE = (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError, RecursionError)


@contextmanager
def initialised(own: str | Path | None = None) -> Iterator[None]:
    """Hydra initialised on the shipped configuration and the user's own, for use outside its command line.

    ``own`` is searched wherever its command line's ``--config-dir`` is: for what is composed and for what is listed.
    Raises ConfigError where it is not there.
    """
    place = None if own is None else Path(own).resolve()
    if place is not None and not place.is_dir():
        raise ConfigError(f"the directory of your own options, {place}, does not exist: make it, or name another")
    with hydra.initialize_config_dir(str(conf_dir()), version_base="1.3"):
        if place is not None:
            loader: Any = GlobalHydra.instance().config_loader()
            loader.get_search_path().prepend(_OWN, f"file://{place}", SearchPathQuery(provider="schema"))
            loader.repository.initialize_sources(loader.get_search_path())
        yield


_OWN = "command-line"  # what Hydra calls the provider of --config-dir


def own_options() -> Path | None:
    """The user's own directory of options, where Hydra searches one."""
    places = GlobalHydra.instance().config_loader().get_search_path().get_path()
    return next((Path(str(p.path).removeprefix("file://")) for p in places if p.provider == _OWN), None)


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
        raise explain(error, sys.argv[1:]) from None
    except ValueError as error:
        if not str(error).startswith(_NAMELESS):
            raise
        raise explain(error, sys.argv[1:]) from None


def compose(overrides: Iterable[str], extra: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One validated configuration. Raises ConfigError with the known choices.

    ``extra`` names adapter groups that only some verbs have, each with its default option.
    """
    words = given = list(overrides)
    for group, default in (extra or {}).items():
        chosen = [w for w in words if w.startswith(f"{group}=")]
        words = [f"+{chosen[-1]}" if chosen else f"+{group}={default}", *(w for w in words if w not in chosen)]
    return _validated(_compose(words, given, tuple(extra or ())), tuple(extra or ()))


def each_choice(overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of every point that commas span, the last axis varying fastest."""
    return [list(point) for point in itertools.product(*(o.choices for o in _parse(overrides)))]


def _validated(composed: DictConfig, extra: Collection[str] = ()) -> dict[str, Any]:
    with open_dict(composed):
        runtime = composed.pop("hydra").runtime
    return cfg.validate(composed, {str(k).split("@")[0]: str(v) for k, v in runtime.choices.items()}, extra)


def compose_each(points: Iterable[Point]) -> Iterator[dict[str, Any]]:
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


def _compose(overrides: list[str], given: Sequence[str] | None = None, extra: Sequence[str] = ()) -> DictConfig:
    try:
        return hydra.compose(CONFIG_NAME, overrides, return_hydra_config=True)
    except (*UNREADABLE, ValueError) as error:
        raise explain(error, overrides, given, extra) from None


_NAMELESS = "Config group override must be"  # Hydra's ValueError where a group is given null or a number


def explain(
    error: Exception, overrides: Sequence[str] = (), given: Sequence[str] | None = None, extra: Sequence[str] = ()
) -> ConfigError:
    """Hydra's error as one of ours: what is wrong, the known choices, a guess.

    ``overrides`` are the ones that could not be composed: the options that they choose decide which keys are known.
    ``given`` are those that the user wrote, where a verb adds to them, and ``extra`` the groups that it has besides.
    """
    given = overrides if given is None else given
    groups = (*cfg.GROUPS, *extra)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        besides = (
            "the shipped options; joblib, ray and slurm come with the extras of those names"
            if "launcher" in group
            else ""
        )
        return UnknownName("option", f"{group}={name}", [f"{group}={o}" for o in error.options], besides)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    if isinstance(error, UnicodeDecodeError):
        own = own_among(overrides)
        places = [str(p) for d in (own, conf_dir()) if d is not None for p in _holding(d, error.object)]
        where = ", ".join(places) or "a configuration file"
        return ConfigError(f"{where} cannot be read: {' '.join(lines)[:400]}; save it as UTF-8")
    if isinstance(error, (yaml.YAMLError, RecursionError)):
        return ConfigError(f"a configuration file cannot be read: {' '.join(lines)[:400]}")
    if isinstance(error, OverrideParseException):
        return ConfigError(f"cannot read the override '{error.override}': {message}")
    if message.startswith(_NAMELESS):
        chosen = " ".join(word for word in given if word.partition("=")[0] in groups)
        return ConfigError(f"{message} (in {chosen}). An option has a name: GROUP=none where it may be left out")
    signed = _signed(given, message, groups)
    if signed is not None or not isinstance(error, ConfigCompositionException):
        return signed or ConfigError(message)
    if "Could not override '" in message:
        return _unknown(message.split("'")[1], lines[-1], overrides)
    if re.fullmatch("Could not delete from config.*does not exist.", message):
        return _unknown(message.split("'")[1], "", overrides)
    return ConfigError(message)


_SIGNED = re.compile(r"(?P<sign>\+\+?|~)(?P<key>[\w/.]+)(=(?P<value>.*))?")


def _signed(words: Sequence[str], message: str, groups: Sequence[str]) -> ConfigError | None:
    """Where Hydra cannot compose because something that the configuration has is added, or a group taken away."""
    for word, found in ((word, found) for word in words if (found := _SIGNED.fullmatch(word))):
        key, group = found["key"], found["key"].replace(".", "/")
        if found["sign"] != "~" and (key in groups or f" already at '{key}'" in message):
            return ConfigError(f"'{word}': {key} is there already, so it takes no plus; write {key}={found['value']}")
        if found["sign"] != "~" and key == "gate":
            return ConfigError(f"'{word}': a gate is composed slot by slot; {cfg.instead_of_removing('gate')}")
        lost = message.startswith("Could not delete") or f"'{group.replace('/', '.')}." in message
        if found["sign"] == "~" and lost and group in (*groups, "gate"):
            return ConfigError(f"'{word}': {cfg.instead_of_removing(group, groups[len(cfg.GROUPS) :])}")
    return None


def _unknown(key: str, remedy: str, words: Sequence[str]) -> ConfigError:
    # Hydra's own command line has put its state away before its error arrives here.
    own = own_among(words)
    place = own if own is not None and own.is_dir() else None
    with nullcontext() if GlobalHydra.instance().is_initialized() else initialised(place):
        tree = _composable(words)
    group = key.rpartition(".")[0]
    if group and (isinstance(OmegaConf.select(tree, key), DictConfig) or OmegaConf.select(tree, group) == {}):
        return ConfigError(f"'{key}' has no such entry; a new one takes a plus: {remedy.partition(' use ')[2]}")
    keys = [k for k, _ in cfg.leaves(plain(tree)) if "_target_" not in k]
    known = [*keys, *cfg.GROUPS]
    return UnknownName("key", key, [k for k in known if k.startswith(f"{group}.")] or known, "the configuration")


_CHOICE = re.compile(r"\+?(?P<choice>[a-z_/]+=[\w-]+)(,.*)?")


def _composable(words: Sequence[str]) -> DictConfig:
    """The configuration of the options that are chosen, the first of each axis, as far as it can be had."""
    chosen = [found["choice"] for word in words if (found := _CHOICE.fullmatch(word))]
    try:
        return hydra.compose(CONFIG_NAME, chosen)
    except UNREADABLE:
        return hydra.compose(CONFIG_NAME)


def own_among(words: Sequence[str]) -> Path | None:
    """The user's own directory of options on a command line: the last that it names."""
    found = None
    for word, after in itertools.zip_longest(words, words[1:]):
        flag, equals, value = word.partition("=")
        if flag in ("--config-dir", "-cd") and (equals or after is not None):
            found = Path(value if equals else after)
    return found


def _holding(place: Path, content: bytes) -> list[Path]:
    return [path for path in sorted(place.rglob("*.yaml")) if path.is_file() and content in path.read_bytes()]


def points_of(overrides: list[str], params: Mapping[str, Any] | None = None) -> Iterable[Point]:
    """Every choice on every axis.

    ``params`` are the axes that the composed ``hydra.sweeper.params`` hold for these overrides; where they
    are not at hand they are composed. An experiment that is itself an axis declares its axes choice by choice.
    """
    parsed = _parse(overrides)
    experiments = next((o for o in parsed if o.key == "experiment"), None)
    if experiments is None or not experiments.swept:
        return spread(parsed, _declared_axes(parsed) if params is None else _axes(params))
    rest = [o for o in parsed if o is not experiments]
    every: list[Point] = []
    for choice in experiments.choices:
        fixed = [*rest, Override("experiment", (choice,), swept=False)]
        every += spread(fixed, {**_declared_axes(fixed), **_axes(params or {})})
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
            choices = tuple(f"{key}={v}" for v in item.sweep_string_iterator())
            if not choices:
                raise _empty(key, line)
            out.append(Override(key, choices, swept=True))
        else:
            out.append(Override(item.get_key_element(), (line,), swept=False))
    return out


def _empty(key: str, line: str) -> ConfigError:
    options = options_of(key)
    known = f" Known: {', '.join(f'{key}={o}' for o in options)}" if options else ""
    return ConfigError(f"the axis '{line}' holds no choice, so there would be no cell.{known}")


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


def job_text(composed: DictConfig) -> tuple[str, str]:
    """What a launcher composed for a job: its cell id, and the rest as YAML (the same for a condition's jobs)."""
    cell_id = str(composed.get("cell_id") or "")
    rest = composed.copy()
    with open_dict(rest):
        rest.cell_id = None
    return cell_id, OmegaConf.to_yaml(rest)


def job_config(text: str) -> dict[str, Any]:
    """The validated configuration of :func:`job_text`'s YAML."""
    loaded = OmegaConf.create(text)
    assert isinstance(loaded, DictConfig)
    return cfg.validate(loaded)


def options_of(group: str) -> list[str]:
    """The options of a group that Hydra finds, the user's own included."""
    return list(GlobalHydra.instance().config_loader().get_group_options(group))
