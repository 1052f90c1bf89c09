"""The matrix: what it holds, in which order, and what moves its hash."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from recurve_eval import app, config
from recurve_eval.errors import ConfigError, Drift, Refused, UnknownName
from recurve_eval.plan import freeze, select_tasks
from tests.conftest import QUICK

pytestmark = pytest.mark.usefixtures("composing")

SMALL = (*QUICK, "task=demo", "task.select={n: 2, seed: 1}")


def hash_of(*overrides: str) -> str:
    return app.build_study([*SMALL, *overrides]).plan.hash


def test_axes_multiply_and_tasks_come_from_the_benchmark() -> None:
    plan = app.build_study([*SMALL, "arm=A0,A1", "seed=range(3)"]).plan
    assert len(plan.conditions) == 6
    assert len(plan.cells) == 12
    assert len({c.cell_id for c in plan.cells}) == 12


def test_globs_span_an_axis() -> None:
    plan = app.build_study([*SMALL, "arm=glob(A0*)"]).plan
    assert {c.labels.arm for c in plan.conditions} == {"A0", "A0b"}


def test_the_arms_of_one_task_are_neighbours_and_take_turns_going_first() -> None:
    cells = app.build_study([*SMALL, "arm=A0,A0b,A1", "seed=0,1"]).plan.cells
    groups = [cells[i : i + 3] for i in range(0, len(cells), 3)]
    assert all(len({(c.at.task_id, c.at.seed) for c in group}) == 1 for group in groups)
    assert all({c.at.arm for c in group} == {"A0", "A0b", "A1"} for group in groups)
    assert len({group[0].at.arm for group in groups}) > 1


def test_an_experiment_declares_axes_and_the_command_line_wins() -> None:
    labels = {c.labels.arm for c in app.build_study([*SMALL, "experiment=demo", "arm=A0,A1"]).plan.conditions}
    assert labels == {"A0", "A1"}
    assert len(app.build_study([*SMALL, "experiment=demo"]).plan.conditions) == 18


@pytest.mark.parametrize(
    "override",
    [
        "run.log_level=DEBUG",
        "run.workers=7",
        "run.progress=none",
        "run.analyze=false",
        "tracking=memory",
        "study.name=other",
        "study.description=words",
        "analysis.resamples=500",
        "spend.max_usd=9",
        "arm.description=words",
    ],
)
def test_what_cannot_change_a_verdict_keeps_the_hash(override: str) -> None:
    assert hash_of(override) == hash_of()


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, float) and 0 < value < 1:
        return value / 2
    if isinstance(value, int | float):
        return value + 1
    return None


# What cannot be changed by itself: doubled, a probability is none, and a gate wants a check.
BOUND = (
    "model.skill",
    "agent.overconfidence",
    "agent.repair",
    "agent.check_quality",
    "agent.noise",
    "controller.observe",
)


def test_every_counted_number_moves_the_hash() -> None:
    base = app.compose(SMALL)
    before = hash_of()
    moved = {}
    for key, value in config.leaves(config.verdict_part(base)):
        other = _changed(value)
        if other is None or key in BOUND or key.startswith("study."):
            continue
        moved[key] = hash_of(f"{key}={json.dumps(other)}") != before
    assert len(moved) > 10
    assert all(moved.values()), [k for k, v in moved.items() if not v]


@pytest.mark.parametrize(
    "override",
    [
        "model.skill=0.5",
        "agent.overconfidence=0.25",
        "agent.check_quality=0.25",
        "seed=1",
        "arm=A1",
        "arm=A0b",
        "budget=one_shot",
        "task.select={n: 3, seed: 1}",
        "controller=external_ci",
        "study.primary={baseline: A0, treatment: A1}",
        "analysis.alpha=0.01",
        "sandbox=bubblewrap",
        "oracle=bubblewrap",
    ],
)
def test_any_pin_moves_the_hash(override: str) -> None:
    others = ["gate/checks=visible_tests"] if override.startswith("controller") else []
    assert hash_of(override, *others) != hash_of(*others)


def test_the_content_of_a_recording_moves_the_hash(tmp_path: Path) -> None:
    def recorded(solution: str) -> str:
        path = tmp_path / "submissions.jsonl"
        tasks = app.build_study([*SMALL]).plan.conditions[0].task_ids
        lines = [{"task_id": t, "attempt": 0, "model": "m", "solution": solution} for t in tasks]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return hash_of("agent=replay", f"agent.submissions={path}", "model=unnamed")

    assert recorded("x = 1") != recorded("x = 2")


def test_swept_keys_below_an_option_are_part_of_its_label() -> None:
    plan = app.build_study([*SMALL, "agent.overconfidence=0.1,0.9"]).plan
    assert {c.labels.agent for c in plan.conditions} == {
        "scripted[agent.overconfidence=0.1]",
        "scripted[agent.overconfidence=0.9]",
    }


@pytest.mark.parametrize(
    ("names", "shown"),
    [(("here/one.jsonl", "there/two.jsonl"), ("one.jsonl", "two.jsonl")), (("here/s.jsonl", "there/s.jsonl"), None)],
)
def test_labels_show_a_path_by_its_last_part_where_that_is_enough(
    tmp_path: Path, names: tuple[str, str], shown: tuple[str, str] | None
) -> None:
    paths = [tmp_path / name for name in names]
    tasks = app.build_study([*SMALL]).plan.conditions[0].task_ids
    for path in paths:
        path.parent.mkdir()
        lines = [{"task_id": t, "attempt": 0, "model": "m", "solution": path.parent.name} for t in tasks]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    swept = f"agent.submissions={','.join(map(str, paths))}"
    plan = app.build_study([*SMALL, "agent=replay", "model=unnamed", swept]).plan
    labels = {f"replay[agent.submissions={name}]" for name in shown or map(str, paths)}
    assert {c.labels.agent for c in plan.conditions} == labels


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["oracle=process,bubblewrap"], "'oracle' cannot be swept"),
        (["run.workers=1,2"], "cannot be swept"),
        (["arm=A0,A0"], "the same configuration twice"),
        (["task.select=[nothing]"], "unknown task 'nothing'"),
        (["task.select={n: 0}"], "task.select.n"),
        (["task.select={n: 10000}"], "task.select.n"),
        (["task.select={m: 2}"], "task.select"),
        (["task.select=[]"], "empty list"),
        (["controller=external_ci", "gate/checks=none"], "needs a binding check"),
        (["pins.dataset_hash=00"], "pins.dataset_hash expects 00"),
    ],
)
def test_what_cannot_be_planned_is_named(overrides: Sequence[str], said: str) -> None:
    base = QUICK if overrides[0].startswith("task.select") else SMALL
    with pytest.raises((ConfigError, Refused)) as caught:
        app.build_study([*base, *overrides])
    assert said in str(caught.value)


def test_experiments_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    for name, alpha in (("one", 0.05), ("two", 0.01)):
        (tmp_path / "experiment").mkdir(exist_ok=True)
        (tmp_path / "experiment" / f"{name}.yaml").write_text(
            f"# @package _global_\nanalysis:\n  alpha: {alpha}\nseed: {int(alpha * 100)}\n", encoding="utf-8"
        )
    with pytest.raises(ConfigError, match=r"contradict each other on analysis.alpha: 0.05 .* against 0.01"):
        app.build_study([*SMALL, "experiment=one,two", f"hydra.searchpath=[file://{tmp_path}]"])


def test_a_sample_of_tasks_is_nested_and_keeps_the_benchmarks_order() -> None:
    known = [f"t{i}" for i in range(100)]
    few, more = select_tasks(known, {"n": 10, "seed": 7}), select_tasks(known, {"n": 20, "seed": 7})
    assert set(few) < set(more)
    assert list(few) == sorted(few, key=known.index)
    assert select_tasks(known, {"n": 10, "seed": 8}) != few


def test_an_unknown_task_is_refused_with_a_guess() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'HumanEval/12'"):
        select_tasks([f"HumanEval/{i}" for i in range(164)], ["HumanEvl/12"])


def test_duplicate_task_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match="twice: a"):
        select_tasks(["a", "b", "a"], "all")


def test_a_frozen_directory_is_reused_and_refused_when_it_was_altered(tmp_path: Path) -> None:
    study = app.build_study([*SMALL, f"run.outputs={tmp_path}"])
    assert freeze(study.plan, study.run_dir, {}, study.lock())
    assert not freeze(study.plan, study.run_dir, {}, study.lock())
    for name, said in (
        ("matrix.jsonl", "not the matrix"),
        ("plan.yaml", "was altered after it was frozen"),
        ("oracle.lock.json", "oracle"),
    ):
        path = study.run_dir / name
        kept = path.read_bytes()
        path.write_bytes(kept.replace(b"a", b"b"))
        with pytest.raises(Drift, match=said):
            freeze(study.plan, study.run_dir, {}, study.lock())
        path.write_bytes(kept)


def test_a_cells_id_derives_from_its_coordinates_and_configuration() -> None:
    one, other = (app.build_study([*SMALL, f"budget.wall_s={s}"]).plan.cells for s in (10, 20))
    assert {c.at.task_id for c in one} == {c.at.task_id for c in other}
    assert not {c.cell_id for c in one} & {c.cell_id for c in other}
    again = app.build_study([*SMALL, "budget.wall_s=10", "study.name=elsewhere"]).plan.cells
    assert [c.cell_id for c in again] == [c.cell_id for c in one]


def test_shared_compositions_equal_those_that_hydra_makes_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "by_seed.yaml").write_text(
        "name: by_seed\nwall_s: ${sum_with_seed}\n".replace("${sum_with_seed}", "${seed}"), encoding="utf-8"
    )
    for budget in ("small", "by_seed"):
        words = [*SMALL, "arm=A0,A1", "seed=1,2,5", f"budget={budget}", f"hydra.searchpath=[file://{tmp_path}]"]
        study = app.build_study(words)
        assert len(study.points) == 6
        for point, condition in zip(study.points, study.plan.conditions, strict=True):
            assert condition.config == app.compose(point.overrides)


def test_a_real_agent_is_never_reported_under_a_simulated_models_name() -> None:
    words = [*SMALL, "agent=command", 'agent.command="true"', "agent.paid=false"]
    assert app.build_study(words).plan.conditions[0].labels.model == "unnamed"
    assert app.build_study([*words, "model=haiku"]).plan.conditions[0].labels.model == "haiku"
