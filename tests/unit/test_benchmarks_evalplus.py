"""EvalPlus: how records become gradings by reference, and that nothing of the reference's own trouble is a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.benchmarks.evalplus import EvalPlus
from recurve_eval.benchmarks.mbpp_plus import ALTERNATIVES
from recurve_eval.domain import Grade, Submission
from recurve_eval.errors import ConfigError, Drift, UnknownName
from recurve_eval.oracle.process import ProcessOracle

HALVE: dict[str, Any] = {
    "task_id": "HumanEval/0",
    "prompt": 'import math\n\n\ndef up(x):\n    return math.ceil(x)\n\n\ndef half(n):\n    """Half of n, rounded up.\n    >>> half(3)\n    2\n    """\n',
    "entry_point": "half",
    "canonical_solution": "    return up(n / 2)\n",
    "test": "def check(candidate):\n    assert candidate(3) == 2\n    assert candidate(4) == 2\n",
    "contract": '\n    assert isinstance(n, int) and n >= 0, "invalid inputs" # $_CONTRACT_$\n',
    "base_input": [[3], [4]],
    "plus_input": [[0], [101], [-5], [12345678901234567890]],
    "atol": 0,
}
PAIRS: dict[str, Any] = {
    "task_id": "Mbpp/2",
    "prompt": '"""\nWrite a function to find the shared elements of two lists.\nassert set(similar_elements((3, 4), (4, 5))) == {4}\n"""\n',
    "entry_point": "similar_elements",
    "canonical_solution": "\ndef similar_elements(test_tup1, test_tup2):\n    return tuple(set(test_tup1) & set(test_tup2))\n",
    "assertion": "assert set(similar_elements((3, 4), (4, 5))) == {4}",
    "contract": "\n    assert isinstance(test_tup1, tuple)\n",
    "base_input": [[[3, 4], [4, 5]]],
    "plus_input": [[[], []], [[1, 2], [2, 1]]],
    "atol": 0,
}


def task(body: str, *inputs: Any, **changes: Any) -> dict[str, Any]:
    """A record of one function ``f`` whose base inputs are given as argument lists."""
    return {
        "task_id": "Own/1", "prompt": '"""\nWrite f.\n"""\n', "entry_point": "f", "canonical_solution": body,
        "assertion": "assert True", "contract": "", "base_input": list(inputs), "plus_input": {}, "atol": 0, **changes,
    }  # fmt: skip


def made(folder: Path, *records: dict[str, Any], **options: Any) -> EvalPlus:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return EvalPlus(**{"path": str(path), "sha256": None, "count": None, "timeout_s": 5.0, **options})


def graded(oracle: ProcessOracle, bench: EvalPlus, text: str, task_id: str = "Own/1") -> Grade:
    return oracle.grade(bench.oracle_job(task_id, Submission.of_reference("test", {"solution.py": text.encode()})))


def summary(grade: Grade) -> tuple[str, tuple[str, ...]]:
    return grade.verdict.value, grade.failed


# -- what is graded ------------------------------------------------------------------------------


HALVES = {
    "right": ("def half(n):\n    return -(-n // 2)\n", "pass", ()),
    "leans on the given helper": ("def half(n):\n    return up(n / 2) if n < 2**50 else -(-n // 2)\n", "pass", ()),
    "right on base alone": ("def half(n):\n    return {3: 2, 4: 2}.get(n, 0)\n", "fail", ("plus",)),
    "wrong on base": ("def half(n):\n    return n // 2\n", "fail", ("base", "plus")),
    "empty": ("", "fail", ("base", "plus")),
    "raises": ("def half(n):\n    raise ValueError(n)\n", "fail", ("base", "plus")),
    "exits": ("import os\ndef half(n):\n    os._exit(0)\n", "fail", ("base", "plus")),
    "exits at import": ("import os\nos._exit(0)\n", "fail", ("base", "plus")),
    "equal to everything": (
        "class E(int):\n    def __eq__(self, o):\n        return True\n    __hash__ = int.__hash__\ndef half(n):\n    return E(7)\n",
        "fail", ("base", "plus"),
    ),
    "never ends outside of the contract": (
        "def half(n):\n    while n < 0:\n        pass\n    return -(-n // 2)\n", "pass", ()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HALVES)
def test_base_and_plus_are_told_apart(oracle: ProcessOracle, tmp_path: Path, name: str) -> None:
    text, verdict, failed = HALVES[name]
    exact = {**HALVE, "canonical_solution": "    return -(-n // 2)\n"}
    assert summary(graded(oracle, made(tmp_path, exact), text, "HumanEval/0")) == (verdict, failed)


def test_the_first_wrong_input_is_named(oracle: ProcessOracle, tmp_path: Path) -> None:
    grade = graded(oracle, made(tmp_path, HALVE), "def half(n):\n    return 2\n", "HumanEval/0")
    assert grade.detail == "plus failed: input 0: got 2, not 0"
    assert (grade.tests_passed, grade.tests_total) == (1, 2)


VALUES: dict[str, tuple[str, list[Any]]] = {
    "a tuple": ("return tuple(x)", [[1, 2]]),
    "nested": ("return {'a': [(1, x), {2, 3}, None, True]}", [[1]]),
    "None": ("return None", [[1]]),
    "bytes and complex": ("return b'x' * len(x), 1j", [[1]]),
    "a large int": ("return x ** 200", [12345]),
    "nan": ("return float('nan')", [1]),
    "deep": ("for _ in range(60):\n        x = [x]\n    return x", [1]),
    "text": ("return x + '\\U0001f600\\ud800'", ["é"]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_survive_the_way_between_the_processes(oracle: ProcessOracle, tmp_path: Path, name: str) -> None:
    body, arguments = VALUES[name]
    text = f"def f(x):\n    {body}\n"
    bench = made(tmp_path, task(text, arguments))
    assert summary(graded(oracle, bench, text)) == ("pass", ())
    other = text.replace("return ", "return 'other', ")
    assert summary(graded(oracle, bench, other)) == ("fail", ("base",))


def test_a_deep_input_survives(oracle: ProcessOracle, tmp_path: Path) -> None:
    def nested(depth: int) -> Any:
        return [nested(depth - 1)] if depth else 0

    text = "def f(x):\n    n = 0\n    while x:\n        x, n = x[0], n + 1\n    return n\n"
    bench = made(tmp_path, task(text, [nested(140)]))
    assert summary(graded(oracle, bench, text)) == ("pass", ())
    assert (
        graded(oracle, bench, text.replace("return n", "return n + 1")).detail
        == "base failed: input 0: got 141, not 140"
    )
    deeper = graded(oracle, made(tmp_path, task(text, [nested(400)])), text)
    assert deeper.verdict == "unscored" and "cannot be handed over" in deeper.detail


def test_changing_an_argument_changes_nobody_elses(oracle: ProcessOracle, tmp_path: Path) -> None:
    canonical = "def f(xs):\n    xs.sort()\n    return xs[0]\n"
    bench = made(tmp_path, task(canonical, [[3, 1]], [[2, 5]]))
    for body in ("return min(xs)", "smallest = min(xs); xs.clear(); return smallest", "xs.sort(); return xs[0]"):
        assert summary(graded(oracle, bench, f"def f(xs):\n    {body}\n")) == ("pass", ()), body
    assert summary(graded(oracle, bench, "def f(xs):\n    return xs[0]\n")) == ("fail", ("base",))


def test_a_tolerance_is_that_of_the_task(oracle: ProcessOracle, tmp_path: Path) -> None:
    near = "def f(x):\n    return [x + 1e-4, 1]\n"
    exact = "def f(x):\n    return [x, 1]\n"
    assert graded(oracle, made(tmp_path, task(exact, [0.5], atol=1e-3)), near).verdict == "pass"
    assert graded(oracle, made(tmp_path, task(exact, [0.5])), near).verdict == "fail"


def test_thousands_of_inputs_and_large_answers(oracle: ProcessOracle, tmp_path: Path) -> None:
    text = "def f(x):\n    return [x] * 20000 if x % 500 == 0 else x\n"
    bench = made(tmp_path, task(text, *([n] for n in range(2000))))
    assert graded(oracle, bench, text).verdict == "pass"
    wrong = graded(oracle, bench, text + "g = f\ndef f(x):\n    return -1 if x == 1999 else g(x)\n")
    assert wrong.detail == "base failed: input 1999: got -1, not 1999"


# -- MBPP+ ---------------------------------------------------------------------------------------


def test_tuples_and_sets_of_mbpp(oracle: ProcessOracle, tmp_path: Path) -> None:
    bench = made(tmp_path, PAIRS)
    good = "def similar_elements(a, b):\n    assert type(a) is tuple\n    return [x for x in b if x in a][::-1]\n"
    assert summary(graded(oracle, bench, good, "Mbpp/2")) == ("pass", ())
    bad = "def similar_elements(a, b):\n    return a\n"
    assert summary(graded(oracle, bench, bad, "Mbpp/2")) == ("fail", ("base", "plus"))


@pytest.mark.parametrize(
    ("entry", "canonical", "inputs", "other"),
    [
        ("sum_div", "return sum(i for i in range(1, n) if n % i == 0)", [[8]], "return 0"),
        ("surface_Area", "return b * b + 2 * b * h", [[3, 4]], "s = (b * b / 4 + h * h) ** .5; return round(b * b + 2 * b * s)"),
        ("digit_distance_nums", "return sum(map(int, str(abs(a - b))))", [[1, 10]], "return 2"),
    ],
)  # fmt: skip
def test_the_other_reading_of_a_statement_is_right_too(
    oracle: ProcessOracle, tmp_path: Path, entry: str, canonical: str, inputs: Any, other: str
) -> None:
    head = {"sum_div": "(n)", "surface_Area": "(b, h)", "digit_distance_nums": "(a, b)"}[entry]
    record = task(f"def {entry}{head}:\n    {canonical}\n", *inputs, task_id="Mbpp/9000", entry_point=entry)
    bench = made(tmp_path, record)
    assert "alternative_mbpp_9000.py" in bench.oracle_job("Mbpp/9000", Submission.of_reference("x", {})).held_out
    for body, verdict in ((canonical, "pass"), (other, "pass"), ("return -1", "fail")):
        assert graded(oracle, bench, f"def {entry}{head}:\n    {body}\n", "Mbpp/9000").verdict == verdict, body
    assert entry in ALTERNATIVES


def test_none_or_not(oracle: ProcessOracle, tmp_path: Path) -> None:
    canonical = "import re\ndef check_str(s):\n    return re.search('a', s)\n"
    record = task(canonical, ["b"], task_id="Mbpp/9001", entry_point="check_str")
    bench = made(tmp_path, record)
    assert graded(oracle, bench, "def check_str(s):\n    return 'a' in s\n", "Mbpp/9001").verdict == "pass"
    assert graded(oracle, bench, "def check_str(s):\n    return True\n", "Mbpp/9001").verdict == "fail"


# -- the reference's own trouble ------------------------------------------------------------------


TROUBLE = {
    "raises": ("def f(x):\n    return 1 // x\n", [[1], [0]], "the reference fails on input 1: ZeroDivisionError"),
    "does not load": ("import no_such_module\ndef f(x):\n    return x\n", [[1]], "the reference cannot be loaded"),
    "gives no plain value": ("def f(x):\n    return object()\n", [[1]], "the reference fails on input 0: NotPlain"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_a_fault_of_the_reference_is_never_the_submissions(oracle: ProcessOracle, tmp_path: Path, name: str) -> None:
    canonical, inputs, words = TROUBLE[name]
    for text in ("def f(x):\n    return 1\n", "def f(x):\n    raise KeyError\n", canonical):
        grade = graded(oracle, made(tmp_path, task(canonical, *inputs)), text)
        if grade.verdict != "fail" or name == "does not load":  # a wrong answer before the fault is a wrong answer
            assert (grade.verdict.value, grade.reason) == ("unscored", "oracle_error") and words in grade.detail


def test_a_contract_that_admits_nothing_is_no_verdict(oracle: ProcessOracle, tmp_path: Path) -> None:
    record = task("def f(x):\n    return x\n", [1], [2], contract="    assert False\n")
    grade = graded(oracle, made(tmp_path, record), "def f(x):\n    return x\n")
    assert grade.verdict == "unscored" and "no input is within the task's contract" in grade.detail


def test_a_rule_that_accepts_anything_is_no_oracle(oracle: ProcessOracle, tmp_path: Path) -> None:
    record = task("def are_equivalent(x):\n    return x\n", [1], task_id="Mbpp/164", entry_point="are_equivalent")
    grade = graded(oracle, made(tmp_path, record), "def are_equivalent(x):\n    return x\n", "Mbpp/164")
    assert grade.verdict == "unscored" and "meaningless answer" in grade.detail


# -- what an agent is shown ----------------------------------------------------------------------


def visible(bench: EvalPlus, task_id: str, text: str, place: Path) -> tuple[int, str]:
    place.mkdir()
    shown = bench.task(task_id)
    assert shown.visible_check is not None
    for path, content in {**shown.public, "solution.py": text.encode()}.items():
        (place / path).write_bytes(content)
    words = [sys.executable if word == "{python}" else word for word in shown.visible_check]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout


def test_the_base_suite_is_the_visible_check(tmp_path: Path) -> None:
    bench = made(tmp_path, HALVE, PAIRS)
    good = visible(bench, "HumanEval/0", "def half(n):\n    return up(n / 2)\n", tmp_path / "a")
    assert good == (0, "GREEN: the visible tests hold\n")
    code, said = visible(bench, "HumanEval/0", "def half(n):\n    return n // 2\n", tmp_path / "b")
    assert (code, said) == (1, "RED: assert candidate(3) == 2 (AssertionError)\n")
    assert visible(bench, "HumanEval/0", "import sys\nsys.exit(0)\n", tmp_path / "c")[0] == 1
    code, said = visible(bench, "Mbpp/2", "def similar_elements(a, b):\n    return a\n", tmp_path / "d")
    assert code == 1 and said.startswith("RED: assert set(similar_elements")


def test_examples_or_nothing_can_be_shown_instead(tmp_path: Path) -> None:
    shown = made(tmp_path, HALVE, PAIRS, visible="examples")
    assert visible(shown, "HumanEval/0", "def half(n):\n    return 2\n", tmp_path / "a") == (
        0,
        "GREEN: 1 examples hold\n",
    )
    assert visible(shown, "Mbpp/2", "def similar_elements(a, b):\n    return a\n", tmp_path / "b")[0] == 1
    bare = made(tmp_path, HALVE, visible="none")
    assert bare.task("HumanEval/0").visible_check is None and set(bare.task("HumanEval/0").public) == {"solution.py"}
    assert bare.pins() == made(tmp_path, HALVE).pins()
    with pytest.raises(UnknownName, match="visible suite 'plus'"):
        made(tmp_path, HALVE, visible="plus").task_ids()


def test_plus_inputs_are_recognised_in_a_workspace(tmp_path: Path) -> None:
    record = {**HALVE, "plus_input": [["a long and telling input, kept from the agent"]]}
    bench = made(tmp_path, record)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes").write_text('["a long and telling input, kept from the agent"]')
    assert bench.scanner("HumanEval/0").scan(tmp_path / "work") != []


# -- how the file is read ------------------------------------------------------------------------


MALFORMED = {
    "atol": ({**HALVE, "atol": "0"}, "'atol' must be a number"),
    "atol true": ({**HALVE, "atol": True}, "'atol' must be a number"),
    "inputs": ({**HALVE, "base_input": [1]}, "'base_input' must be a list of argument lists"),
    "no plus": ({k: v for k, v in HALVE.items() if k != "plus_input"}, "'plus_input' must be a list"),
    "contract": ({**HALVE, "contract": None}, "'contract' must be a string"),
    "contract syntax": ({**HALVE, "contract": "    assert ("}, "'contract' is not Python"),
    "canonical": ({**HALVE, "canonical_solution": "  return ("}, "'canonical_solution' is not Python"),
    "entry": ({**HALVE, "entry_point": "third"}, "does not define entry_point 'third'"),
    "suite": ({**HALVE, "test": "def check("}, "original tests .* is not Python"),
    "nothing to run": ({**HALVE, "base_input": [], "plus_input": {}}, "no inputs"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_named_by_line(tmp_path: Path, name: str) -> None:
    record, words = MALFORMED[name]
    with pytest.raises(ConfigError, match=f"tasks.jsonl, line 2: .*{words}"):
        made(tmp_path, PAIRS, record).task_ids()


def test_pins_and_limits(tmp_path: Path) -> None:
    with pytest.raises(Drift, match=r"has 2 tasks, task\.count pins 3"):
        made(tmp_path, HALVE, PAIRS, count=3).task_ids()
    with pytest.raises(ConfigError, match="line 2: task_id 'Mbpp/2' is already"):
        made(tmp_path, PAIRS, PAIRS).task_ids()
    with pytest.raises(UnknownName, match=r"unknown task 'x' in task.timeouts_s"):
        made(tmp_path, HALVE, timeouts_s={"x": 1.0}).task_ids()
    bench = made(tmp_path, HALVE, PAIRS, timeouts_s={"Mbpp/2": 9.0})
    limits = [bench.oracle_job(t, Submission.of_reference("x", {})).timeout_s for t in bench.task_ids()]
    assert limits == [5.0, 9.0]


def test_the_public_file() -> None:
    root = Path(os.environ.get("RECURVE_DATA") or Path(__file__).parents[3] / "shared" / "data")
    path = root / "humaneval_plus" / "HumanEvalPlus-NoExtreme.jsonl.gz"
    if not path.is_file():
        pytest.skip("HumanEval+ is not below RECURVE_DATA")
    bench = EvalPlus(path=str(path))
    assert len(bench.task_ids()) == 164
    assert {p.groups for p in bench.problems.values()} == {("base", "plus")}
    assert [t for t, p in bench.problems.items() if p.params["rule"] != "equal"] == ["HumanEval/32"]
    assert all(p.params["contract"] for p in bench.problems.values())
