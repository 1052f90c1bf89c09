"""Every benchmark of ``conf/task`` keeps the port's promises: pinned, quarantined, and right in both directions."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import harbor_tasks
import pytest
import repositories
import yaml

from recurve_eval.benchmarks import permutation_clj
from recurve_eval.benchmarks.demo import DemoBenchmark
from recurve_eval.config import KERNEL_KEYS, adapter_class
from recurve_eval.domain import CaptureKind, OracleVerdict, Submission
from recurve_eval.errors import ConfigError, Drift, UnknownName
from recurve_eval.exclusions import read_exclusions
from recurve_eval.oracle.process import ProcessOracle
from recurve_eval.ports import Benchmark
from recurve_eval.resources import conf_dir

OPTIONS = sorted(conf_dir().glob("task/*.yaml"))
DEMO_TASKS = DemoBenchmark().root()
# Tasks of a benchmark that are run here; `calibrate` grades all of any.
GRADED = {"demo": 1000, "directory": 3, "permutation": 2, "bigcodebench": 40, "bigcodebench_hard": 40}
SLOW = frozenset({"BigCodeBench/0", "HumanEval/36"})  # more than seconds for one grading

# What an option cannot know: where the user's own data lies.
GIVEN: dict[str, dict[str, Any]] = {"directory": {"path": str(DEMO_TASKS)}}
# Nor which libraries the oracle of this test has: none.
GIVEN |= {name: {"preload": []} for name in ("bigcodebench", "bigcodebench_hard")}


IMAGED = ("swebench", "harbor")  # graded in containers, in tests/integration


@pytest.fixture(scope="module", autouse=True)
def written(tmp_path_factory: pytest.TempPathFactory) -> None:
    GIVEN["swebench"] = repositories.make(tmp_path_factory.mktemp("repository")).fields()
    tasks = harbor_tasks.write(tmp_path_factory.mktemp("harbor"))
    (tasks / "images.json").write_text(json.dumps(dict.fromkeys(("sort", "sort-json"), "sha256:" + "0" * 64)))
    GIVEN["harbor"] = {"path": str(tasks)}
    pair = {
        "id": "twice",
        "buggy": "def twice(x):\n    return x + 2\n",
        "tests": [[[2], 4], [[5], 10], [["ab"], "abab"]],
    }
    corpus = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    corpus.write_text(json.dumps({**pair, "correct": "def twice(x):\n    return x * 2\n"}) + "\n")
    GIVEN["pairs"] = {"path": str(corpus)}


def build(option: Path, **changes: Any) -> Benchmark:
    """The option's adapter as its YAML configures it, never downloading and with paths that this machine has."""
    node: dict[str, Any] = yaml.safe_load(option.read_text(encoding="utf-8"))
    cls = adapter_class("task", node.pop("_target_"))
    plain = {
        key: value
        for key, value in node.items()
        if key not in KERNEL_KEYS["task"] and not (isinstance(value, str) and value.startswith("${"))
    }
    offline = {"url": None} if "url" in plain else {}
    bench = cls(**{**plain, **offline, **GIVEN.get(option.stem, {}), **changes})
    assert isinstance(bench, Benchmark)
    return bench


@pytest.fixture(params=OPTIONS, ids=lambda path: path.stem)
def option(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    default = Path(__file__).parents[3] / "shared" / "data"
    if "RECURVE_DATA" not in os.environ and default.is_dir():
        monkeypatch.setenv("RECURVE_DATA", str(default))
    path: Path = request.param
    return path


@functools.cache
def _built(option: Path) -> Benchmark:
    """One object for all tests: reading a thousand records once is enough."""
    return build(option)


@pytest.fixture
def bench(option: Path) -> Benchmark:
    built = _built(option)
    try:
        built.task_ids()
    except ConfigError as error:
        if "not on this machine" in str(error):
            pytest.skip(str(error))
        raise
    return built


def sample(bench: Benchmark) -> list[str]:
    """Some tasks, spread evenly over all that the oracle of this test can grade, in seconds."""
    excluded = {*read_exclusions(bench.name).reasons, *SLOW}
    ids = [task_id for task_id in bench.task_ids() if task_id not in excluded]
    return ids[:: max(1, -(-len(ids) // GRADED.get(bench.name, 20)))]


def laid_out(place: Path, *layers: Any) -> Path:
    for layer in layers:
        for path, content in layer.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
    return place


def test_every_group_option_is_a_benchmark_of_its_name(option: Path) -> None:
    node = yaml.safe_load(option.read_text(encoding="utf-8"))
    assert build(option).name == node["name"] == option.stem


def test_every_key_is_documented_and_every_field_present(option: Path) -> None:
    lines = [line for line in option.read_text(encoding="utf-8").splitlines() if line and line[0].isalpha()]
    assert [line for line in lines if " # " not in line] == []
    written = {line.partition(":")[0] for line in lines}
    fields = set(adapter_class("task", yaml.safe_load(option.read_text("utf-8"))["_target_"]).__dataclass_fields__)
    assert written == fields | {"select"}


def test_listing_and_pins_are_the_same_every_time(option: Path, bench: Benchmark) -> None:
    again = build(option)
    assert list(bench.task_ids()) == list(again.task_ids())
    assert len(set(bench.task_ids())) == len(bench.task_ids()) > 0
    assert bench.pins() == again.pins()
    assert len(str(bench.pins()["dataset_hash"])) == 64


def test_a_tampered_pin_is_refused(option: Path, bench: Benchmark) -> None:
    with pytest.raises(Drift, match=r"0{64}"):
        build(option, sha256="0" * 64).task_ids()


def test_an_unknown_task_is_refused(bench: Benchmark) -> None:
    with pytest.raises(UnknownName):
        bench.task("no such task")


def test_every_task_is_whole(bench: Benchmark) -> None:
    for task_id in bench.task_ids():
        task, solutions = bench.task(task_id), bench.solutions(task_id)
        diff = task.capture.kind is CaptureKind.DIFF
        assert task.id == task_id and task.statement.strip() and bool(task.capture.paths) is not diff
        assert set(task.protected) <= set(task.public)
        assert bool(task.protected) == (task.visible_check is not None)
        for files in (solutions.canonical, *(bad.files for bad in solutions.known_bad)):
            assert files and (diff or set(files) <= set(task.capture.paths))
            assert max(map(len, files.values())) <= task.capture.max_file_bytes
        assert len({bad.kind for bad in solutions.known_bad}) == len(solutions.known_bad) >= 1


def test_nothing_held_out_is_public(bench: Benchmark, tmp_path: Path) -> None:
    for number, task_id in enumerate(bench.task_ids()):
        task = bench.task(task_id)
        workspace = laid_out(tmp_path / str(number), task.public, {"statement": task.statement.encode()})
        assert bench.scanner(task_id).scan(workspace) == [], task_id


def test_the_scanner_knows_what_is_held_out(bench: Benchmark, tmp_path: Path) -> None:
    for number, task_id in enumerate(sample(bench)):
        job = bench.oracle_job(task_id, Submission.of_reference("canonical", bench.solutions(task_id).canonical))
        workspace = laid_out(tmp_path / str(number), {f"copy{n}": c for n, c in enumerate(job.held_out.values())})
        assert bench.scanner(task_id).scan(workspace) != [], task_id


def test_a_job_pins_its_tests_and_carries_the_submission(bench: Benchmark) -> None:
    for task_id in bench.task_ids():
        path = (*bench.task(task_id).capture.paths, "new.py")[0]
        submission = Submission.of_reference("test", {path: b"unmistakable = 1\n"})
        job = bench.oracle_job(task_id, submission)
        assert job.submission is submission and job.task_id == task_id
        assert len(set(job.expected)) == len(job.expected) >= 1
        graded = {**submission.contents, **job.support}
        assert any(content == b"unmistakable = 1\n" for content in graded.values())
        assert not set(job.held_out) & set(graded)


def test_canonical_solutions_pass_and_known_bad_ones_fail(bench: Benchmark, oracle: ProcessOracle) -> None:
    lacking = permutation_clj.missing() if bench.name == "permutation_clj" else None
    if lacking:
        pytest.skip(lacking)
    if bench.name in IMAGED:
        pytest.skip("graded in containers, in tests/integration")
    wrong, graded = [], 0
    for task_id in sample(bench):
        solutions = bench.solutions(task_id)
        if needs_libraries(bench, task_id):
            continue
        graded += 1
        cases = [("canonical", solutions.canonical, OracleVerdict.PASS)]
        cases += [(f"known_bad:{bad.kind}", bad.files, OracleVerdict.FAIL) for bad in solutions.known_bad]
        for origin, files, expected in cases:
            grade = oracle.grade(bench.oracle_job(task_id, Submission.of_reference(origin, files)))
            if grade.verdict is not expected:
                wrong.append((task_id, origin, grade.verdict.value, grade.detail, grade.failed))
    assert wrong == []
    assert graded >= min(3, len(sample(bench)))


def needs_libraries(bench: Benchmark, task_id: str) -> bool:
    """Which the interpreter of this test's oracle does not have."""
    return bool(bench.oracle_job(task_id, Submission.of_reference("none", {})).params.get("libraries"))


def passes_visibly(bench: Benchmark, task_id: str, files: Any, place: Path) -> bool:
    task = bench.task(task_id)
    assert task.visible_check is not None
    laid_out(place, task.public, files, {path: task.public[path] for path in task.protected})
    argv = [sys.executable if word == "{python}" else word for word in task.visible_check]
    return subprocess.run(argv, cwd=place, capture_output=True, timeout=60, check=False).returncode == 0


def test_canonical_solutions_pass_the_visible_check(bench: Benchmark, tmp_path: Path) -> None:
    checked = [task_id for task_id in sample(bench) if bench.task(task_id).visible_check is not None]
    for number, task_id in enumerate(checked):
        canonical = bench.solutions(task_id).canonical
        assert passes_visibly(bench, task_id, canonical, tmp_path / f"good{number}"), task_id
        assert not passes_visibly(bench, task_id, {}, tmp_path / f"untouched{number}"), task_id


# -- what the demonstration promises beyond the port ---------------------------------------------


def test_every_demo_task_has_bad_work_of_both_kinds(tmp_path: Path) -> None:
    """Work that the visible tests let through, and work that they catch: else a gate on them has nothing to show."""
    bench = DemoBenchmark()
    for number, task_id in enumerate(bench.task_ids()):
        verdicts = {
            known.kind: passes_visibly(bench, task_id, known.files, tmp_path / f"{number}-{known.kind}")
            for known in bench.solutions(task_id).known_bad
        }
        assert verdicts["hard_coded"], task_id
        assert set(verdicts.values()) == {True, False}, (task_id, verdicts)


def test_the_demo_is_broad_enough() -> None:
    bench = DemoBenchmark()
    kinds = {bad.kind for task_id in bench.task_ids() for bad in bench.solutions(task_id).known_bad}
    assert len(bench.task_ids()) >= 12
    assert kinds >= {
        "hard_coded", "off_by_one", "empty_input", "tie_order", "aliasing", "locale", "time_zone", "float_rounding",
        "leap_year", "unicode", "negative", "recursion", "integer_division", "stable_sort",
        "unfinished", "wrong_operator", "wrong_type", "inverted_condition", "swapped_arguments", "misread_statement",
    }  # fmt: skip
    for task_id in bench.task_ids():
        canonical = Submission.of_reference("canonical", bench.solutions(task_id).canonical)
        assert len(bench.oracle_job(task_id, canonical).expected) >= 6, task_id
        assert len(bench.solutions(task_id).known_bad) >= 8, task_id
