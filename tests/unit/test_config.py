"""Every way to write a study wrongly gets one error that names the thing and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from recurve_eval import app, config
from recurve_eval.__main__ import main
from recurve_eval.errors import EXIT_USAGE, ConfigError, UnknownName
from recurve_eval.resources import conf_dir

pytestmark = pytest.mark.usefixtures("composing")


def test_the_defaults_compose_to_a_complete_configuration() -> None:
    composed = app.compose([])
    assert composed["task"]["name"] == "demo"
    assert set(composed) == {*config.PLAIN, *config.ADAPTERS, *config.SCALARS, "gate"}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("+extra=1", "unknown key 'extra'"),
        ("+model.temprature=0.3", "unknown key 'model.temprature'"),
        ("+budget.walls=3", "Did you mean 'budget.wall_s'?"),
        ("+agent.skil=1", "unknown key 'agent.skil'"),
        ("~task", "lacks 'task'"),
        ("~budget", "lacks 'budget'"),
        ("~agent", "a group cannot be removed; choose an option of it, agent=NAME. Groups: task, model, agent,"),
        ("~seed", "lacks 'seed': it cannot be removed; set seed=VALUE"),
        ("~gate", "'~gate': a group cannot be removed; gate/SLOT=none leaves a slot empty. Groups: task,"),
        ("~gate.checks", "'~gate.checks': a group cannot be removed; choose an option of it, gate/checks=NAME"),
        ("~agent=command", "'~agent=command': a group cannot be removed"),
        ("+agent=scripted", "'+agent=scripted': agent is there already, so it takes no plus; write agent=scripted"),
        ("+agent=command", "write agent=command"),
        ("++agent=scripted", "write agent=scripted"),
        ("+gate/checks=ci", "write gate/checks=ci"),
        ("+gate=ci", "'+gate=ci': a gate is composed slot by slot"),
        ("task=humanevl", "Did you mean 'task=humaneval'?"),
        ("agent=scriptd", "Did you mean 'agent=scripted'?"),
        ("arm=A99", "unknown option 'arm=A99'"),
        ("budgt.wall_s=3", "unknown key 'budgt.wall_s'"),
        ("budget.wall=3", "Did you mean 'budget.wall_s'?"),
        ("budget.wall_s=soon", "budget.wall_s"),
        ("budget.wall_s=-1", "budget.wall_s must be positive"),
        ("budget.tokens=-5", "budget.tokens must be positive"),
        ("budget.tokens=1.5", "budget.tokens"),
        ("budget.max_cycles=0", "budget.max_cycles must be at least 1"),
        ("seed=-1", "seed must be"),
        ("seed=one", "seed must be"),
        ("model.skill=1.5", "model.skill is a probability"),
        ("analysis.alpha=1", "analysis.alpha must lie between 0 and 1"),
        ("spend.gate=off", "unknown spend gate 'off'"),
        ("run.workers=-2", "run.workers must not be negative"),
        ("run.log_level=LOUD", "unknown log level 'LOUD'"),
        ("agent=replay", "agent.submissions has no value"),
        ("gate/checks=ci", "gate.checks.command has no value"),
        ("agent._target_=recurve_eval.agents.nothing.Nothing", "cannot load"),
        ("agent._target_=recurve_eval.domain.digest", "is not an adapter"),
        ("+gate.probes=1", "unknown gate slot 'probes'"),
        ("study.primary={baseline: A0, treatmnt: A1}", "Did you mean 'study.primary.treatment'?"),
        ("sandbox.pass_env=HOME", "sandbox.pass_env: 'HOME' is no list: write sandbox.pass_env=[HOME]"),
        ("budget.wall_s=fast", "budget.wall_s: 'fast' is no number (see budget/"),
        ("run.workers=many", "run.workers: 'many' is no whole number"),
        ("run.analyze=perhaps", "run.analyze: 'perhaps' is neither true nor false"),
        ("study.name=${nowhere}", "cannot resolve"),
        ("study.description=true", "study.description is text, and true without quotes is none"),
        ("task.sha256=1e3", "task.sha256 is text, and 1000.0 without quotes is none"),
        ("sandbox.pass_env=[HOME,true]", "sandbox.pass_env[1] is text"),
        (
            "tracking.uri=5",
            "tracking.uri is text, and 5 without quotes is none: quote it, on a command line as '\"5\"'",
        ),
        ("study.name=2026_12_01", "study.name is text, and 20261201 without quotes is none"),
        ("model.id=+5", "model.id is text, and 5 without quotes is none"),
    ],
)
def test_wrong_input_is_named(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.compose([override])
    assert said in str(caught.value)


def test_a_number_in_quotes_and_digits_that_are_no_number_are_text() -> None:
    assert app.compose(['study.name="2026_12_01"'])["study"]["name"] == "2026_12_01"
    assert app.compose(["study.name=007"])["study"]["name"] == "007"


def test_a_number_among_the_words_of_a_command_is_the_word_that_it_looks_like() -> None:
    words = ["agent=command", "agent.argv=[my-agent,--steps,5]", "+agent.env={LEVEL: 3}"]
    agent = app.compose(words)["agent"]
    assert (agent["argv"], agent["env"]) == (["my-agent", "--steps", "5"], {"LEVEL": "3"})


def test_an_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName) as caught:
        app.compose(["sandbox=jail"])
    assert "sandbox=process" in caught.value.known


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agent=command", "agent.argvv=[x]"], "Did you mean 'agent.argv'"),
        (["task=swebench", "task.repo=x"], "Did you mean 'task.repos'"),
        (["agent=command", "agent.env={LEVEL: high}"], "a new one takes a plus: +agent.env={LEVEL: high}"),
        (["agent=command", "agent.env.LEVEL=high"], "a new one takes a plus: +agent.env.LEVEL=high"),
        (["task=evalplus_mbpp", "task.timeouts_s={Mbpp/1: 9}"], "a new one takes a plus: +task.timeouts_s={Mbpp/1: 9}"),
    ],
)
def test_known_keys_are_those_of_the_chosen_options(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.compose(words)
    assert said in str(caught.value)


def test_a_new_entry_of_a_mapping_is_added_with_a_plus() -> None:
    words = ["task=harbor", "task.path=x", r"+task.bases={python\:3.11: recipe:python-repo}"]
    assert app.compose(words)["task"]["bases"] == {"python:3.11": "recipe:python-repo"}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed=range(0,0)", "'seed=range(0,0)' holds no choice"),
        ("seed=range(0,5,-1)", "holds no choice"),
        ("arm=glob(Z*)", "Known: arm=A0"),
        ("oracle.runs=-1", "oracle.runs must be positive"),
        ("oracle.runs=0", "oracle.runs must be positive"),
        ("oracle.memory_mb=-1", "oracle.memory_mb must be positive"),
        ("oracle.start_timeout_s=nan", "oracle.start_timeout_s must be a finite number"),
        ("sandbox.grace_s=-1", "sandbox.grace_s must not be negative"),
        ("sandbox.grace_s=inf", "sandbox.grace_s must be a finite number"),
        ("spend.max_usd=nan", "spend.max_usd must be a finite number"),
        ("tracking.uri=htps://tracker.example", "Did you mean 'https'?"),
        ("tracking.timeout_s=-1", "tracking.timeout_s must be above 0"),
        ("tracking.timeout_s=nan", "tracking.timeout_s must be a finite number"),
        ("oracle.restarts=-1", "oracle.restarts must not be negative"),
    ],
)
def test_a_study_that_cannot_run_is_refused_before_it_is_planned(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.build_study([override, "task.select=[slugify]"])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["budget.walls=3"], "Did you mean 'budget.wall_s'?"),
        (["run.worker=2"], "Did you mean 'run.workers'?"),
        (["agent=command", "agent.argvs=[x]"], "Did you mean 'agent.argv'?"),
        (["agent=command,replay", "agent.submission=x"], "unknown key 'agent.submission'"),
        (["gate/check=ci"], "Did you mean 'gate/checks'?"),
    ],
)
def test_the_command_line_guesses_a_misspelt_key(
    overrides: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    GlobalHydra.instance().clear()
    assert main(["plan", *overrides]) == EXIT_USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--config-dir {}", "--config-dir={}"])
def test_an_option_of_the_users_own_is_explained_like_a_shipped_one(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    GlobalHydra.instance().clear()
    (tmp_path / "agent").mkdir()
    shipped = (conf_dir() / "agent" / "command.yaml").read_text()
    (tmp_path / "agent" / "mine.yaml").write_text(shipped)
    (tmp_path / "agent" / "latin.yaml").write_bytes(b"# caf\xe9\n" + shipped.encode())
    flags = flag.format(tmp_path).split()
    assert main(["plan", *flags, "agent=mine", "agent.argvs=[x]"]) == EXIT_USAGE
    assert "Did you mean 'agent.argv'?" in capsys.readouterr().err
    assert main(["plan", *flags, "agent=latin"]) == EXIT_USAGE
    assert f"{tmp_path}/agent/latin.yaml cannot be read" in capsys.readouterr().err


def test_the_users_own_directory_may_have_any_name(tmp_path: Path) -> None:
    place = tmp_path / "a,b 'c (d]"
    (place / "arm").mkdir(parents=True)
    (place / "arm" / "mine.yaml").write_text((conf_dir() / "arm" / "A0.yaml").read_text())
    GlobalHydra.instance().clear()
    with app.initialised(place):
        assert app.compose(["arm=mine"])["arm"]["name"] == "A0"


@pytest.mark.parametrize("verb", ["calibrate", "intercept", "task list"])
def test_a_directory_of_options_that_is_not_there_is_named(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    GlobalHydra.instance().clear()
    assert main([*verb.split(), f"--config-dir={tmp_path}/nowhere"]) == EXIT_USAGE
    assert f"{tmp_path}/nowhere, does not exist" in capsys.readouterr().err


def test_only_keys_of_the_same_group_are_offered() -> None:
    with pytest.raises(UnknownName) as caught:
        app.compose(["agent=command", "agent.argvs=[x]"])
    assert "agent.argv" in caught.value.known
    assert {key.split(".")[0] for key in caught.value.known} == {"agent"}
    assert "agent.skill" not in caught.value.known


def test_an_unreadable_override_is_named() -> None:
    with pytest.raises(ConfigError, match="cannot read the override"):
        app.build_study(["arm=[A0"])


@pytest.mark.parametrize(
    ("verb", "word", "said"),
    [
        (
            "intercept",
            "+source=mutants",
            "'+source=mutants': source is there already, so it takes no plus; write source=mutants",
        ),
        ("intercept", "++layers=arms", "write layers=arms"),
        ("intercept", "+claims=none,agent", "write claims=none"),
        (
            "intercept",
            "~claims",
            "a group cannot be removed; choose an option of it, claims=NAME. Groups: task, model,",
        ),
        ("intercept", "~source=known_bad", "choose an option of it, source=NAME"),
        ("intercept", "~gate/checks", "'~gate/checks': a group cannot be removed"),
        ("intercept", "+replay=outputs/x", "'+replay=outputs/x': replay stands without a sign; write replay=outputs/x"),
        ("intercept", "source=null", "(in source=null). An option has a name"),
        (
            "calibrate",
            "+run.workers=2",
            "'+run.workers=2': run.workers is there already, so it takes no plus; write run.workers=2",
        ),
        ("plan", "+run.workers=2", "write run.workers=2"),
        ("plan", "~run.worker", "unknown key 'run.worker' in the configuration. Did you mean 'run.workers'?"),
        ("plan", "agent=null", "(in agent=null). An option has a name"),
    ],
)
def test_a_sign_or_a_null_is_answered_by_every_verb_with_what_to_write(
    verb: str, word: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    GlobalHydra.instance().clear()
    assert main([verb, word]) == EXIT_USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("word", ["gate/hardening=null", "budget=null", "task=1"])
def test_a_group_without_an_option_is_named(word: str) -> None:
    with pytest.raises(ConfigError, match=f"{word}.* An option has a name"):
        app.build_study(["arm=A3", word])


def test_every_leaf_either_counts_for_the_verdict_or_is_declared_not_to() -> None:
    composed = app.compose([])
    counted = dict(config.leaves(config.verdict_part(composed)))
    every = dict(config.leaves(composed))
    free = {k for k in every if k not in counted}
    assert {k.split(".")[0] for k in free} <= {
        *config.OPERATIONAL,
        "study",
        "analysis",
        "arm",
        "prices",
        "task",
        "agent",
    }
    assert "run.log_level" in free
    assert {"budget.wall_s", "seed", "model.skill", "arm.stream", "controller.name"} <= set(counted)
