"""``task list | show | new | check``: nothing held out is printed, a new task is whole, a wrong one is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recurve_eval.__main__ import main
from recurve_eval.benchmarks.demo import DemoBenchmark
from recurve_eval.domain import Submission
from recurve_eval.errors import Leak
from recurve_eval.resources import conf_dir

Say = Callable[..., tuple[int, str, str]]
QUICK = ("oracle=process", "sandbox=process", "calibrate.runs=1")


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECURVE_DATA", raising=False)
    monkeypatch.setenv("RECURVE_CACHE", str(tmp_path / "cache"))

    def call(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_benchmarks_are_listed_ones_own_too_and_what_one_lacks_is_said(say: Say, tmp_path: Path) -> None:
    (tmp_path / "conf/task").mkdir(parents=True)
    (tmp_path / "conf/task/mine.yaml").write_text((conf_dir() / "task/demo.yaml").read_text())
    code, out, _ = say("task", "list", "--config-dir", "conf")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert lines["demo"].split()[1] == lines["mine"].split()[1] == "14"
    assert "task.path has no value" in lines["directory"]
    assert "not on this machine" in lines["humaneval"]  # and nothing was downloaded
    assert "a plan downloads it from https://" in lines["evalplus_mbpp"]


def test_the_tasks_of_one_benchmark_are_listed(say: Say) -> None:
    _, out, _ = say("task", "list", "task=demo", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["task"] for row in rows] == list(DemoBenchmark().task_ids())
    assert all(row["visible_check"] for row in rows)


def test_what_is_shown_is_public(say: Say) -> None:
    bench = DemoBenchmark()
    code, out, _ = say("task", "show", "flatten", "task=demo", "--files")
    job = bench.oracle_job("flatten", Submission.of_reference("none", {}))
    shown = {line.strip() for line in out.splitlines()}
    public = {
        line.strip() for content in bench.task("flatten").public.values() for line in content.decode().splitlines()
    }
    assert code == 0 and bench.task("flatten").statement.strip() in out
    assert {"solution.py, 50 bytes", f"{len(job.expected)} tests"} <= {
        piece for line in out.splitlines() for piece in (line[15:], " ".join(line[15:].split()[:2]).rstrip(","))
    }
    hidden = {line.strip() for content in job.held_out.values() for line in content.decode().splitlines()}
    assert not {line for line in hidden - public if len(line) >= 24} & shown


def test_the_limits_of_a_task_are_shown(say: Say) -> None:
    code, out, _ = say("task", "show", "binary-direction", "task=permutation")
    assert code == 0
    for line in (
        "held out       833 tests, 3 s",
        "agent          180 s, gone 10 s after",
        "network        offline_404",
    ):
        assert line in out


def test_a_statement_that_gives_its_tests_away_is_not_shown(say: Say, tmp_path: Path) -> None:
    say("task", "new", "mine/leaky")
    edited(
        tmp_path / "mine/leaky/task.yaml",
        "statement: |\n",
        "statement: |\n  self.assertEqual(round_price(102, 5), 105)\n",
    )
    code, out, err = say("task", "show", "leaky", "task=directory", "task.path=mine")
    assert (code, out) == (Leak.exit_code, "") and "not shown" in err


def test_an_unknown_task_or_verb_is_named(say: Say) -> None:
    assert say("task", "show", "flaten", "task=demo")[0] == 2
    code, _, err = say("task", "chek")
    assert code == 2 and "Did you mean 'check'" in err


def test_a_new_task_passes_its_check(say: Say) -> None:
    assert say("task", "new", "mine/round-up")[0] == 0
    code, out, err = say("task", "check", "mine/round-up", *QUICK)
    assert code == 0, out + err
    assert "canonical passes 1 of 1; 5 of 5 wrong solutions fail" in out
    assert "proven in both directions" in out
    assert say("task", "check", "mine", *QUICK)[0] == 0


def test_nothing_is_written_over(say: Say, tmp_path: Path) -> None:
    say("task", "new", "mine/one")
    code, _, err = say("task", "new", "mine/one")
    assert code == 3 and "exists and is not empty" in err
    (tmp_path / "file").write_text("")
    assert say("task", "new", "file/one")[0] == 2
    assert say("task", "new", "a name")[0] == 2


def test_every_malformed_task_is_named_by_its_line(say: Say, tmp_path: Path) -> None:
    say("task", "new", "mine/a")
    say("task", "new", "mine/b")
    edited(tmp_path / "mine/a/task.yaml", "timeout_s: 10.0", "timeout_s: soon")
    edited(tmp_path / "mine/b/held_out/test_held_out.py", "class Steps(", "class Steps(:")
    code, out, _ = say("task", "check", "mine", *QUICK)
    assert code == 2
    assert "mine/a/task.yaml:7: 'timeout_s' must be a positive number" in out
    assert "mine/b/held_out/test_held_out.py:22: cannot be read" in out


WEAK = [
    ("held_out/test_held_out.py", "self.assertEqual(round_price(100, 5), 100)", "pass", None),
    ("solution/solution.py", "-(-cents // step) * step", "cents", "the canonical solution is fail"),
    ("known_bad/rounds_down/solution.py", "cents // step * step", "-(-cents // step) * step", "'rounds_down' passes"),
    ("public/solution.py", "raise NotImplementedError", "return 105", "accept the untouched workspace"),
    ("public/test_visible.py", "(101, 5), 105", "(101, 5), 104", "reject the canonical solution"),
]


@pytest.mark.parametrize(("file", "old", "new", "problem"), WEAK, ids=[str(w[3]) for w in WEAK])
def test_a_task_that_proves_nothing_is_refused(
    say: Say, tmp_path: Path, file: str, old: str, new: str, problem: str | None
) -> None:
    say("task", "new", "mine/one")
    edited(tmp_path / "mine/one" / file, old, new)
    code, out, _ = say("task", "check", "mine/one", *QUICK)
    assert code == (3 if problem else 0), out
    assert problem is None or problem in out


def test_words_of_the_verb_are_completed(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    for line, offered in (("recurve-eval task ch", "check"), ("recurve-eval task show fla", "flatten")):
        monkeypatch.setenv("COMP_LINE", line)
        assert say("-sc", "query=bash")[1].strip() == offered
