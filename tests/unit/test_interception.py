"""What interception makes of items, records, reviews and decisions, without running any."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.agents._authoring import claims_files, fingerprint, probe_text
from recurve_eval.agents.replay import ReplayAgent
from recurve_eval.analysis.encode import plain
from recurve_eval.benchmarks.demo import DemoBenchmark
from recurve_eval.benchmarks.pairs import Pairs
from recurve_eval.cli.intercept import _options
from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.interception.authorship import RecordedChecks, check_files, given_part, hollow
from recurve_eval.interception.blindspots import of_models, of_reviews, read_reviews
from recurve_eval.interception.curves import curves
from recurve_eval.interception.figures import efficacy
from recurve_eval.interception.items import GOOD, RECORDED, SEEDED, Item, distinct, standing
from recurve_eval.interception.layers import Layers
from recurve_eval.interception.matrix import by_layer, matrix
from recurve_eval.interception.rows import Decision
from recurve_eval.interception.sources import KnownBadSource, MutantSource, RecordedSource, operator_of
from recurve_eval.interception.text import _curves
from recurve_eval.mutation.rewrites import rewrites
from recurve_eval.recordings import read_recordings
from recurve_eval.stats import is_defined


def decision(item: str, layer: str = "ci", own: str = "passed", **changes: Any) -> Decision:
    plain: dict[str, Any] = {
        "item": item, "task_id": item.split("/")[0], "layer": layer, "own": own, "outcome": "GREEN", "stopped": own == "blocked",
        "standing": "defect", "role": SEEDED, "kind": "k", "author": "", "attempt": 0, "claims_by": "", "verdict": "fail",
        "why": "", "facts": {}, "wall_s": 0.0, "oracle_wall_s": 0.0,
    }  # fmt: skip
    return Decision(**{**plain, **changes})


# -- items ----------------------------------------------------------------------------------------


def test_the_oracle_alone_says_what_an_item_is() -> None:
    assert [standing(SEEDED, v) for v in ("fail", "tampered", "pass", "unscored")] == [
        "defect", "defect", "equivalent", "unscored",
    ]  # fmt: skip
    assert [standing(GOOD, v) for v in ("pass", "fail")] == ["good", "disputed"]
    assert [standing(RECORDED, v) for v in ("pass", "fail")] == ["good", "defect"]


def test_a_defect_that_is_the_canonical_text_is_no_item_of_its_own() -> None:
    same = {"solution.py": b"x = 1\n"}
    items = [Item("t", GOOD, "canonical", same), Item("t", SEEDED, "number", same), Item("u", SEEDED, "number", same)]
    assert [(i.task_id, i.role) for i in distinct(items)] == [("t", GOOD), ("u", SEEDED)]


def test_two_models_with_the_same_text_are_two_items() -> None:
    files = {"solution.py": b"x = 1\n"}
    items = [Item("t", RECORDED, "a", files, "a"), Item("t", RECORDED, "b", files, "b")]
    assert len(list(distinct(items))) == 2
    assert items[0].id != items[1].id


def test_mutants_are_the_same_every_time_and_named_by_their_operator() -> None:
    benchmark = DemoBenchmark()
    tasks = list(benchmark.task_ids())[:3]
    source = MutantSource(count=6)
    first = list(source.items(benchmark, tasks))
    assert [i.id for i in first] == [i.id for i in source.items(benchmark, tasks)]
    assert {i.role for i in first} == {SEEDED, GOOD}
    assert "other" not in {i.kind for i in first}
    assert operator_of("solution.py:3 Lt to LtE") == "comparison"
    assert operator_of("solution.py:3 If removed on line 4") == "removed statement"


def test_every_kind_of_mutant_of_the_demo_has_a_name() -> None:
    benchmark = DemoBenchmark()
    found = MutantSource(count=500, good=[]).items(benchmark, list(benchmark.task_ids()))
    assert "other" not in {i.kind for i in found}


def test_an_unknown_kind_of_good_work_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="Known: canonical, rewrites"):
        KnownBadSource(good=["rewritten"])


def test_an_unknown_layer_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"unknown layer 'prob' .*Did you mean 'probes'"):
        Layers(define={"ci": [], "probes": []}, names=["prob"]).chosen()


# -- records --------------------------------------------------------------------------------------


def damaged_gzip(path: Path) -> Path:
    packed = bytearray(gzip.compress(b"{}\n" * 50))
    packed[10] ^= 0xFF
    path.write_bytes(packed)
    return path


def lines(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


HALF = "\ud800"  # JSON can say it, and no file can hold it
ROW = {"task_id": "t", "attempt": 0, "model": "m", "solution": "x = 1"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**ROW, "attempt": "0"}], ":1: 'attempt' must be int; got '0'"),
        ([ROW, ROW], ":2: m's attempt 0 at task t stands twice"),
        ([ROW, [1]], ":2: must be an object; got list"),
        ([{**ROW, "authored_checks": "assert"}], ":1: 'authored_checks' must be a list of statements"),
        ([ROW, {**ROW, "model": HALF}], ":2: 'model' is not text (it holds half of a surrogate pair)"),
        ([{**ROW, "task_id": HALF}], ":1: 'task_id' is not text"),
    ],
)
def test_a_bad_record_is_refused_by_its_line(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_recordings([lines(tmp_path / "r.jsonl", *rows)], "source.paths")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "row",
    [{**ROW, "attempt": "0"}, [1], {**ROW, "authored_checks": "assert"}, {**ROW, "model": HALF}, {"task_id": "t"}],
)
def test_the_replay_agent_says_the_same_of_a_bad_record(tmp_path: Path, row: Any) -> None:
    path = lines(tmp_path / "r.jsonl", row)
    with pytest.raises(ConfigError) as error:
        read_recordings([path], "source.paths")
    assert ReplayAgent(submissions=path).check() == str(error.value)


def test_a_file_of_recordings_that_is_not_there_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"source\.paths: cannot read '.*gone': No such file"):
        RecordedSource(paths=[str(tmp_path / "gone")]).pins()
    with pytest.raises(ConfigError, match=r"claims\.path: cannot read '.*gone': No such file"):
        RecordedChecks(path=str(tmp_path / "gone")).pins()


def test_a_damaged_gzip_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"r\.jsonl\.gz is neither UTF-8 JSONL nor a gzip of it"):
        read_recordings([str(damaged_gzip(tmp_path / "r.jsonl.gz"))], "source.paths")


def test_a_file_of_checks_without_checks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no line with authored_checks"):
        RecordedChecks(path=lines(tmp_path / "r.jsonl", ROW)).pins()


def test_checks_lean_on_what_the_prompt_gives_and_their_trap_returns_none() -> None:
    stub = b'from typing import List\n\n\ndef f(x: List) -> int:\n    """Says."""\n'
    assert given_part(stub) == "from typing import List"
    assert b"return None" in hollow(stub)
    benchmark = DemoBenchmark()
    task = benchmark.task(next(iter(benchmark.task_ids())))
    files = check_files(task, ("assert True",))
    assert files[f".recurve/traps/none/{task.capture.paths[0]}"] != task.public[task.capture.paths[0]]


def test_a_scripted_probe_accepts_right_work_that_was_rewritten_twice() -> None:
    benchmark = DemoBenchmark()
    for task_id in benchmark.task_ids():
        answers = benchmark.solutions(task_id)
        probe = probe_text([answers.canonical])
        claims = claims_files(answers, benchmark.task(task_id).public, "honest", lambda bad: True)
        stated = claims[".recurve/probes/solves.py"].decode()
        twice = [again.files for once in rewrites(answers.canonical) for again in rewrites(once.files)]
        prints = [fingerprint(files, sorted(answers.canonical)) for files in twice]
        assert all(each in probe and each in stated for each in prints)


# -- reviewers ------------------------------------------------------------------------------------


def review(item: str, reviewer: str, verdict: str, truth: str = "fail", model: str = "m") -> dict[str, str]:
    return {"item": item, "reviewer": reviewer, "model": model, "verdict": verdict, "truth": truth}


def test_recorded_reviewers_are_correlated_over_bad_items_alone(tmp_path: Path) -> None:
    rows = [review(f"b{n}", "a", "pass" if n < 4 else "fail") for n in range(8)]
    rows += [review(f"b{n}", "z", "pass" if n < 2 or n > 5 else "fail", model="other") for n in range(8)]
    rows += [review("g", "a", "pass", "pass"), review("g", "z", "pass", "pass", "other")]
    pairs = of_reviews(read_reviews([lines(tmp_path / "r.jsonl", *rows)]), 0, 200)
    first = pairs[0]
    assert (first["actor"], first["adversary"], first["same_model"]) == ("a", "z", False)
    assert first["found"].table.n == 8
    assert first["found"].rho.value == pytest.approx((2 / 4) / (4 / 8))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([review("b", "a", "maybe")], "unknown verdict 'maybe'"),
        ([review("b", "a", "pass"), review("b", "a", "fail")], "judges item 'b' twice"),
        ([review("b", "a", "pass"), review("b", "z", "fail", "pass")], "has another truth"),
        ([review("b", "a", "pass"), {**review("b", "z", "fail"), "task": "t"}], "is of another task"),
        ([review("b", HALF, "pass")], "'reviewer' is not text"),
    ],
)
def test_reviews_that_contradict_themselves_are_refused(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_reviews([lines(tmp_path / "r.jsonl", *rows)])
    assert message in str(error.value)


def test_models_are_compared_on_their_first_attempts_at_shared_tasks() -> None:
    def attempt(task: str, author: str, bad: bool, number: int = 0) -> Decision:
        word = "defect" if bad else "good"
        return decision(f"{task}/{author}{number}", role=RECORDED, author=author, attempt=number, standing=word)

    found = of_models(
        [
            attempt("1", "a", True), attempt("1", "b", True), attempt("2", "a", False), attempt("2", "b", False),
            attempt("3", "a", True), attempt("3", "b", False), attempt("4", "a", True), attempt("1", "a", False, 1),
        ],
        0, 200,
    )  # fmt: skip
    assert found[0]["found"].table.n == 3
    assert found[0]["found"].rho.value == pytest.approx((1 / 2) / (1 / 3))


# -- the matrix -----------------------------------------------------------------------------------


def test_a_layers_marginal_rate_counts_what_those_below_let_through() -> None:
    table = by_layer(
        [
            decision("a/1", "ci", "blocked"), decision("b/1", "ci"), decision("c/1", "ci"),
            decision("a/1", "+probes", "passed", stopped=True), decision("b/1", "+probes", "blocked"), decision("c/1", "+probes"),
        ]
    )  # fmt: skip
    ci, probes = matrix(table, 0.95, True)
    assert (ci["tpr"].count, probes["tpr"].count, probes["marginal_tpr"].count) == (1, 2, 1)
    assert (probes["own_tpr"].count, probes["own_tpr"].n) == (1, 3)


def test_what_a_layer_cannot_judge_is_counted_and_neither_stopped_nor_judged() -> None:
    table = by_layer(
        [decision("a/1", own="unable"), decision("b/1", own="blocked"), decision("c/1", standing="unscored")]
    )
    (ci,) = matrix(table, 0.95, True)
    assert (ci["tpr"].count, ci["tpr"].n) == (1, 2)
    assert (ci["own_tpr"].count, ci["own_tpr"].n, ci["unable"], ci["unscored"]) == (1, 1, 1, 1)
    assert not is_defined(ci["fpr"].value)


# -- curves ---------------------------------------------------------------------------------------


def checked(item: str, n: int, failed: list[int], **changes: Any) -> Decision:
    said = " ".join(["RED" if failed else "GREEN", "checks", str(n), "failed", *map(str, failed)])
    facts = {"claims": {"runs": [["checks", "work", "RED", said]]}}
    return decision(item, "+probes", "blocked" if failed else "passed", facts=facts, **changes)


def test_detection_by_k_checks_is_the_mean_over_every_choice_of_k() -> None:
    found = curves([checked("a/1", 5, [0, 3]), checked("b/1", 5, [])], 0, 200)["checks"]
    for point in found:
        k = min(point["k"], 5)
        choices = [bool({0, 3} & set(c)) for c in itertools.combinations(range(5), k)]
        assert point["tpr"].value == pytest.approx((sum(choices) / len(choices) + 0) / 2)


def test_detection_by_traps_is_the_mean_over_every_choice_of_traps_that_admits() -> None:
    verdicts = [True, True, True, False]  # which of a task's defects the probe refuses
    decided = [decision(f"a/{n}", "+probes", "blocked" if v else "passed") for n, v in enumerate(verdicts)]
    found = {p["k"]: p for p in curves(decided, 0, 200)["traps"]}
    for t in (1, 2):
        admitted = [c for c in itertools.combinations(range(4), t) if all(verdicts[i] for i in c)]
        others = [sum(verdicts[i] for i in range(4) if i not in c) / (4 - t) for c in admitted]
        total = len(list(itertools.combinations(range(4), t)))
        assert found[t]["tpr"].value == pytest.approx(sum(others) / len(others))
        assert found[t]["admitted"].value == pytest.approx(len(admitted) / total)


def test_fuzz_finds_weak_claims_out_as_often_as_every_draw_would() -> None:
    verdicts = [True, False, False, True, True, False]
    decided = [decision(f"a/{n}", "+probes", "blocked" if v else "passed") for n, v in enumerate(verdicts)]
    found = {p["k"]: p for p in curves(decided, 0, 200)["fuzz"]}
    for m in (1, 2, 4):
        draws = list(itertools.combinations(verdicts, m))
        refused = [sum(not v for v in d) > 0.25 * m for d in draws]
        assert found[m]["tpr"].value == pytest.approx(sum(refused) / len(draws))


def test_a_curve_says_how_many_tasks_each_point_stands_on_and_counts_in_whole_numbers() -> None:
    decided = [
        decision(f"{task}/{n}", "+probes", "blocked") for task, size in (("a", 3), ("b", 2)) for n in range(size)
    ]
    data = {"benchmark": "b", "source": "s", "curves": plain(curves(decided, 0, 200)), "curves_of": "+probes"}
    points = [line for line in _curves(data) if line.startswith(("| 1 |", "| 2 |"))]
    assert ["2 tasks" in points[0], "1 task" in points[1]] == [True, True]
    for ax in efficacy(data).axes:
        assert all(float(tick).is_integer() for tick in ax.get_xticks())


# -- pairs ----------------------------------------------------------------------------------------


def test_pairs_come_from_a_directory_and_from_lines_alike(tmp_path: Path) -> None:
    right, wrong = "def twice(x):\n    return x * 2\n", "def twice(x):\n    return x + 2\n"
    for name, text in (("buggy", wrong), ("correct", right)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "twice.py").write_text(text)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "twice.json").write_text("[[2], 4]\n[5, 10]\n")
    record = {"id": "twice", "buggy": wrong, "correct": right, "tests": [[[2], 4], [5, 10]]}
    one, two = Pairs(path=str(tmp_path)), Pairs(path=lines(tmp_path / "p.jsonl", record))
    assert one.task_ids() == two.task_ids() == ("twice",)
    assert one.pins() == two.pins()
    assert one.task("twice").visible_check
    assert not Pairs(path=str(tmp_path), visible=0).task("twice").visible_check


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tests": []}, "tests must be pairs"),
        ({"correct": "def other(x):\n    pass\n"}, "does not define twice()"),
        ({"correct": "def twice(:"}, "not Python"),
        ({"buggy": 3}, "buggy"),
        ({"buggy": HALF}, "'buggy' is not text"),
        ({"tests": f"def check(candidate):\n    '{HALF}'\n"}, "'tests' is not text"),
        ({"tests": [[[1], float("nan")]]}, "not finite"),
        ({"entry_point": 5}, "'entry_point' must be a string"),
    ],
)
def test_a_bad_pair_is_refused_by_its_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    record = {"id": "twice", "buggy": "pass\n", "correct": "def twice(x):\n    return x\n", "tests": [[[1], 1]]}
    with pytest.raises(ConfigError) as error:
        Pairs(path=lines(tmp_path / "p.jsonl", {**record, **change})).pins()
    assert message in str(error.value)
    assert "line 1" in str(error.value)


@pytest.mark.parametrize("name", ["twice.json", "twice.py"])
def test_tests_of_a_pair_that_are_no_text_are_refused_by_their_file(tmp_path: Path, name: str) -> None:
    for part in ("buggy", "correct", "tests"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "twice.py").write_text("def twice(x):\n    return x\n")
    (tmp_path / "tests" / "twice.py").unlink()
    (tmp_path / "tests" / name).write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=f"cannot read .*tests/{name}"):
        Pairs(path=str(tmp_path)).pins()


def test_replay_is_short_for_its_choices_but_for_those_that_were_made() -> None:
    assert _options(["replay=RUN", "layers.names=[A0]"])[1] == [
        "source=replay", "source.run=RUN", "claims=stored", "layers=arms", "layers.names=[A0]",
    ]  # fmt: skip
    assert _options(["replay=RUN", "claims=none"])[1] == [
        "source=replay",
        "source.run=RUN",
        "layers=arms",
        "claims=none",
    ]
