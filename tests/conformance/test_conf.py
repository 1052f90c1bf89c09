"""Every option in conf/ is whole: it names an adapter, documents each of its fields, and keeps its port's contract."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from recurve_eval import app, config, ports
from recurve_eval.interception import items
from recurve_eval.resources import conf_dir

PORTS: dict[str, Any] = {
    "task": ports.Benchmark,
    "agent": ports.Agent,
    "controller": ports.Controller,
    "gate/checks": ports.GateComponent,
    "gate/traps": ports.GateComponent,
    "gate/boundary": ports.GateComponent,
    "gate/hardening": None,
    "gate/adversary": ports.Reviewing,
    "gate/governor": ports.GateComponent,
    "oracle": ports.OracleBackend,
    "tracking": ports.Tracker,
    "sandbox": None,
    "source": items.Source,
    "claims": items.Claims,
    "layers": None,
}
NEEDS = {
    "task=directory": ["task.path=tasks"],
    "task=harbor": ["task.path=tasks"],
    "agent=replay": ["agent.submissions=file"],
}
NEEDS |= {"gate/checks=ci": ['gate.checks.command=["true"]'], "task=pairs": ["task.path=pairs"]}
NEEDS |= {"source=recorded": ["source.paths=[file]"], "source=replay": ["source.run=run"]}
NEEDS |= {"claims=recorded": ["claims.path=file"], "claims=stored": ["source=replay", "source.run=run"]}
OPTIONS = sorted(p for p in conf_dir().rglob("*.yaml") if p.parent != conf_dir())
ADAPTERS = [p for p in OPTIONS if "_target_" in yaml.safe_load(p.read_text()) and "hydra" not in p.parts]


def name_of(path: Path) -> str:
    group = path.parent.relative_to(conf_dir()).as_posix()
    return f"{group}={path.stem}"


@pytest.mark.parametrize("path", OPTIONS, ids=name_of)
def test_an_option_says_what_it_is(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("# @package")]
    assert lines[0].startswith("# "), "the first line of an option says what it is"


@pytest.mark.parametrize("path", ADAPTERS, ids=name_of)
def test_an_adapters_yaml_documents_every_field(path: Path) -> None:
    tree = yaml.safe_load(path.read_text())
    schema = config.adapter_class(name_of(path), tree["_target_"])
    fields = {f.name for f in dataclasses.fields(schema) if f.init}
    kernel = {"select"} if path.parent.name == "task" else set()
    assert set(tree) - {"_target_"} == fields | kernel
    for line in path.read_text().splitlines():
        key = line.split(":")[0]
        if key in fields - {"name"}:
            assert "#" in line, f"{key} has no comment"


@pytest.mark.usefixtures("composing")
@pytest.mark.parametrize("path", ADAPTERS, ids=name_of)
def test_an_option_composes_and_keeps_its_port(path: Path) -> None:
    option = name_of(path)
    group = option.split("=")[0]
    composed = app.compose([option, *NEEDS.get(option, [])], app.INTERCEPTION if group in app.INTERCEPTION else None)
    node = composed["gate"][group.removeprefix("gate/")] if group.startswith("gate/") else composed[group]
    part = app.instantiate(node)
    port = PORTS[group]
    assert port is None or all(hasattr(part, member) for member in _members(port)), port
    assert part.name


def _members(port: Any) -> list[str]:
    return [m for m in vars(port) if not m.startswith("_")] + list(getattr(port, "__annotations__", {}))


@pytest.mark.usefixtures("composing")
@pytest.mark.parametrize("arm", sorted(p.stem for p in (conf_dir() / "arm").glob("*.yaml")))
def test_every_arm_plans(arm: str) -> None:
    words = ["sandbox=process", "oracle=process", "task.select={n: 1}", f"arm={arm}"]
    assert app.build_study(words).plan.conditions[0].labels.arm == arm


STUDIES = sorted(p.stem for p in (conf_dir() / "experiment").glob("*.yaml"))


@pytest.mark.usefixtures("composing")
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_composes_and_fixes_its_question(name: str) -> None:
    study = app.compose([f"experiment={name}"])["study"]
    assert study["name"] == name
    if name != "budget_probe":  # asks whether a budget holds, not which arm is better
        assert study["primary"]
        assert study["noise_floor"] == {"baseline": "A0", "treatment": "A0b"}
