"""``--config-dir``: every verb that lists options or composes them finds the user's own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from recurve_eval import api, app
from recurve_eval.__main__ import main
from recurve_eval.cli.doctor import examine_options
from recurve_eval.errors import EXIT_DONE, EXIT_REFUSED, EXIT_USAGE
from recurve_eval.execute.spending import unproven
from recurve_eval.frozen import sealed
from recurve_eval.resources import conf_dir
from tests import harbor_tasks

Say = Callable[..., tuple[int, str]]
STUDY = ("task=mine", "task.select=[slugify]", "sandbox=process", "oracle=mine", "tracking=none", "run.progress=none",
         "analysis.figures=false")  # fmt: skip


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an option of the user's own in several groups, beside where the user works."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECURVE_DATA", raising=False)
    monkeypatch.setenv("RECURVE_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "my conf"
    for shipped in ("task/demo", "arm/A1", "sandbox/process", "oracle/process", "gate/checks/visible_tests"):
        target = place / Path(shipped).parent / "mine.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (conf_dir() / f"{shipped}.yaml").read_text(encoding="utf-8")
        target.write_text(text.replace("name: A1", "name: mine"), encoding="utf-8")
    (place / "sandbox" / "unfinished.yaml").write_text("_target_: recurve_eval.sandbox.nothing.Nothing\nname: u\n")
    return place


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    GlobalHydra.instance().clear()

    def call(*words: str) -> tuple[int, str]:
        code = main(words)
        out = capfd.readouterr()
        return code, out.out + out.err

    return call


def test_tasks_of_a_benchmark_are_listed_and_shown(say: Say, own: Path) -> None:
    assert "slugify " in say("task", "list", "task=mine", "--config-dir", str(own))[1]
    assert "task           slugify" in say("task", "show", "slugify", "task=mine", "--config-dir", str(own))[1]


def test_arms_are_listed_and_shown_beside_the_shipped_ones(say: Say, own: Path) -> None:
    assert "A9, A10, mine" in say("arm", "show", f"--config-dir={own}")[1]
    assert "name: mine" in say("arm", "show", "mine", "--config-dir", "my conf")[1]
    assert say("arm", "show", "mine")[0] == EXIT_USAGE


def test_the_doctor_examines_them_and_says_of_one_what_is_wrong(own: Path) -> None:
    found = {f.part: f.state for f in examine_options("sandbox", own)}
    assert found["sandbox=mine"] == "usable"
    assert "cannot load" in found["sandbox=unfinished"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("recurve-eval run --config-dir mine task=mi", "task=mine"),
        ("recurve-eval plan --config-dir=mine arm=A0 arm=m", "arm=mine"),
        ("recurve-eval calibrate task=demo --config-dir mine oracle=mi", "oracle=mine"),
        ("recurve-eval oracle verify --config-dir mine oracle=mi", "oracle=mine"),
        ("recurve-eval task show --config-dir mine task=mine slug", "slugify"),
        ("recurve-eval task show --config-dir=mine task=mine slug", "slugify"),
    ],
)
def test_tab_completes_them(say: Say, own: Path, monkeypatch: pytest.MonkeyPatch, line: str, offered: str) -> None:
    own.rename(own.parent / "mine")
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert offered in say("-sc", "query=bash")[1].split()


def test_a_layer_may_be_made_of_them(own: Path) -> None:
    (own / "layers").mkdir()
    text = (conf_dir() / "layers" / "ladder.yaml").read_text(encoding="utf-8")
    (own / "layers" / "mine.yaml").write_text(text.replace("gate/checks=visible_tests", "gate/checks=mine"))
    with app.initialised(own):
        (asked,) = app.interceptions([*STUDY, "layers=mine", "layers.names=[ci]"])
    assert [layer.name for layer in asked.layers] == ["ci"]


def test_a_run_is_looked_at_by_the_study_that_is_meant(say: Say, own: Path) -> None:
    for verb in ("status", "analyze", "mirror"):
        code, out = say(verb, *STUDY, "arm=mine", "--config-dir", str(own))
        assert code == EXIT_USAGE
        assert "that study has not been run" in out


def test_a_run_is_graded_again_by_one(say: Say, own: Path) -> None:
    run_dir = Path("outputs/study/0123456789abcdef")
    run_dir.mkdir(parents=True)
    (run_dir / "plan.yaml").write_text(sealed("plan_hash: 0123456789abcdef\n"))
    code, out = say("regrade", str(run_dir), "oracle=mine", "--config-dir", str(own))
    assert code == EXIT_DONE, out


def test_an_oracle_is_verified(say: Say, own: Path) -> None:
    code, out = say("oracle", "verify", "oracle=mine", "--config-dir", str(own))
    assert code == EXIT_DONE, out


def named(out: str, verb: str) -> list[str]:
    """The words of the command that a message tells the user to run, without the program."""
    (line,) = re.findall(rf"recurve-eval ({verb} .*)", out)
    return shlex.split(line)


def test_the_command_that_a_plan_names_finds_them(say: Say, own: Path) -> None:
    out = say("plan", *STUDY, "arm=mine", "study.primary=null", "--config-dir", "my conf")[1]
    words = named(out, "calibrate")
    assert words[-2:] == ["--config-dir", "my conf"]
    code, out = say(*words, "calibrate.runs=1")
    assert code == EXIT_DONE, out


def test_the_command_that_the_python_api_names_finds_them(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own)
    ((_, command),) = unproven(api.plan([*STUDY, "arm=mine"], config_dir=own))
    assert shlex.split(command)[-2:] == ["--config-dir", "."]


def test_the_command_that_builds_a_tasks_image_finds_its_benchmark(say: Say, own: Path) -> None:
    shipped = (conf_dir() / "task" / "harbor.yaml").read_text(encoding="utf-8")
    place = json.dumps(str(harbor_tasks.write(own.parent / "the tasks")))
    (own / "task" / "mine.yaml").write_text(shipped.replace("path: ???", f"path: {place}"), encoding="utf-8")
    study = ("task=mine", "task.select=all", "task.threshold=0.5", "oracle=instance", "sandbox=process", "arm=A0")
    code, out = say("plan", *study, "--config-dir", str(own))
    assert (code, "sort has no image" in out) == (EXIT_REFUSED, True), out
    words = named(out, "oracle build")
    assert {"task=mine", "task.threshold=0.5", "task.select=[sort]", "oracle=instance", "--repin"} <= set(words)
    code, out = say(*words)
    assert (code, "base image" in out or "Docker" in out) == (EXIT_REFUSED, True), out


def test_a_path_in_a_command_is_one_word_of_it(say: Say, own: Path) -> None:
    out = say("task", "new", "my tasks/one")[1]
    assert named(out, "task check") == ["task", "check", "my tasks/one"]
    assert "recurve-eval task check 'my tasks/one'" in Path("my tasks/one/README.md").read_text(encoding="utf-8")
