"""BigCodeBench: solution and tests in one namespace, as officially, and what that may not be used for."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from recurve_eval.benchmarks.bigcodebench import BigCodeBench
from recurve_eval.domain import CapturedFile, CaptureStatus, Grade, OracleVerdict, Reference, Submission
from recurve_eval.errors import ConfigError, Drift, UnknownName
from recurve_eval.exclusions import read_exclusions
from recurve_eval.oracle.process import ProcessOracle

CODE = "import math\nCONSTANT = 4\n\ndef task_func(x=CONSTANT):\n"
TEST = """
import json
import os
import unittest
from unittest.mock import patch


class Helper:
    value = 5


class TestCases(unittest.TestCase):
    def test_root(self):
        self.assertEqual(task_func(9), 3)

    def test_default(self):
        self.assertEqual(task_func(), 2)
        self.assertEqual(len([task_func()]), 1)

    @patch(__name__ + ".math.isqrt", return_value=7)
    def test_patched(self, isqrt):
        self.assertEqual(math.isqrt(Helper.value), 7)

    def test_place(self):
        self.assertEqual(os.listdir("."), [])

    def test_place(self):
        self.assertEqual([name for name in os.listdir(".")], [])
"""
RECORD: dict[str, Any] = {
    "task_id": "BigCodeBench/0",
    "complete_prompt": CODE + '    """The whole root of x.\n    >>> task_func(9)\n    3\n    """\n',
    "instruct_prompt": "The whole root of x.\nYou should write self-contained code starting with:\n```\n"
    + CODE
    + "```",
    "canonical_solution": "    return math.isqrt(x)\n",
    "code_prompt": CODE,
    "test": TEST,
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['math']",
}
IDS = tuple(f"TestCases.test_{name}" for name in ("root", "default", "patched", "place"))


def made(folder: Path, *records: dict[str, Any], **options: Any) -> BigCodeBench:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records or [RECORD]))
    return BigCodeBench(**{"path": str(path), "sha256": None, "count": len(records) or 1, "timeout_s": 5.0, **options})


def graded(oracle: ProcessOracle, bench: BigCodeBench, text: str) -> Grade:
    job = bench.oracle_job("BigCodeBench/0", Submission.of_reference("test", {"solution.py": text.encode()}))
    return oracle.grade(job)


WHOLE = "import math\n\ndef task_func(x=4):\n    return math.isqrt(x)\n"
RIGHT = {
    "whole": WHOLE,
    "leans on the prompt's import and constant": "def task_func(x=CONSTANT):\n    return math.isqrt(x)\n",
    "leans on the tests' import": "def task_func(x=4):\n    return json.loads(str(math.isqrt(x)))\n",
    "leans on what the harness provides": "def task_func(x=4):\n    return math.isqrt(x) + 0 * len(sys.argv) + 0 * len(environ)\n",
    "body alone": "    return math.isqrt(x)\n",
    "future import": "from __future__ import annotations\n" + WHOLE,
    "byte order mark": "\ufeff" + WHOLE,
    "byte order mark before a body": "\ufeff    return math.isqrt(x)\n",
    "latin-1": "# -*- coding: latin-1 -*-\n" + WHOLE,
    "a star import that replaces built-ins": "from math import *\n" + WHOLE,
    "prints": WHOLE + "print('ok')\n",
}
WRONG = {
    "empty": "",
    "none": "def task_func(x=4):\n    return None\n",
    "raises": "def task_func(x=4):\n    raise NotImplementedError\n",
    "not Python": "def task_func(x=4:\n",
    "exits": "import os\nos._exit(0)\n",
    "its own test class": WHOLE.replace("isqrt(x)", "pi") + "class TestCases: pass\n",
    "skips": "import unittest\ndef task_func(x=4):\n    raise unittest.SkipTest('no')\n",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_officially_is_right_here(oracle: ProcessOracle, tmp_path: Path, name: str) -> None:
    grade = graded(oracle, made(tmp_path), RIGHT[name])
    assert (grade.verdict, grade.detail, grade.tests_passed) == (OracleVerdict.PASS, "", 4)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_fails(oracle: ProcessOracle, tmp_path: Path, name: str) -> None:
    assert graded(oracle, made(tmp_path), WRONG[name]).verdict is OracleVerdict.FAIL


FORGED = {
    "a name of the tests": "import math\ndef task_func(x=4):\n    globals()['Helper'] = None\n    return math.isqrt(x)\n",
    "a method of the tests": (
        "import math\ndef task_func(x=4):\n    TestCases.test_patched = lambda self: None\n    return math.isqrt(x)\n"
    ),
    "a built-in of the tests": "len = lambda things: 1\ndef task_func(x=4):\n    return 0\n",
    "the namespace's built-ins": "import builtins\n__builtins__ = dict(vars(builtins), len=lambda x: 1)\n" + WHOLE,
    "an assertion": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\ndef task_func(x=4):\n    return 0\n",
    "equal to everything": "class E:\n    def __eq__(self, o):\n        return True\ndef task_func(x=4):\n    return E()\n",
}


@pytest.mark.parametrize("name", FORGED)
def test_forgeries_of_the_shared_namespace(oracle: ProcessOracle, tmp_path: Path, name: str) -> None:
    assert graded(oracle, made(tmp_path), FORGED[name]).verdict is OracleVerdict.TAMPERED


def test_a_missing_library_is_never_a_failure(oracle: ProcessOracle, tmp_path: Path) -> None:
    for key, text in (("test", "import no_such_library\n" + TEST), ("code_prompt", "import no_such_library\n" + CODE)):
        grade = graded(oracle, made(tmp_path, {**RECORD, key: text}), WHOLE)
        assert (grade.verdict.value, grade.reason) == ("unscored", "oracle_error")
        assert grade.detail == "this oracle lacks what the task imports: no_such_library"


def test_missing_data_of_the_prompt_is_never_a_failure(oracle: ProcessOracle, tmp_path: Path) -> None:
    code = "import math\nopen('no such corpus')\n\ndef task_func(x=4):\n"
    grade = graded(oracle, made(tmp_path, {**RECORD, "code_prompt": code}), WHOLE)
    assert (grade.verdict.value, grade.reason) == ("unscored", "oracle_error")
    assert grade.detail.startswith("what the task gives does not run on this oracle: FileNotFoundError")


def test_a_missing_submission_fails(oracle: ProcessOracle, tmp_path: Path) -> None:
    absent = Submission(Reference("none"), (CapturedFile("solution.py", CaptureStatus.MISSING),))
    bench = made(tmp_path)
    assert bench.oracle_job("BigCodeBench/0", absent).support == {}
    assert oracle.grade(bench.oracle_job("BigCodeBench/0", absent)).verdict is OracleVerdict.FAIL


def test_class_fixtures_are_set_up_once(oracle: ProcessOracle, tmp_path: Path) -> None:
    test = """
import unittest
class TestCases(unittest.TestCase):
    count = 0
    @classmethod
    def setUpClass(cls):
        cls.count += 1
    def test_a(self):
        self.assertEqual(self.count, 1)
    def test_b(self):
        self.assertEqual(self.count, 1)
"""
    assert graded(oracle, made(tmp_path, {**RECORD, "test": test}), WHOLE).verdict is OracleVerdict.PASS


# -- what an agent is shown, and the job ---------------------------------------------------------


def test_both_prompts(tmp_path: Path) -> None:
    instruct, complete = made(tmp_path), made(tmp_path, prompt="complete")
    shown = instruct.task("BigCodeBench/0")
    assert shown.statement.startswith("The whole root of x.") and shown.public["solution.py"] == CODE.encode()
    assert (shown.visible_check, shown.protected) == (None, ())
    assert complete.task("BigCodeBench/0").public["solution.py"] == RECORD["complete_prompt"].encode()
    assert ">>> task_func(9)" in complete.task("BigCodeBench/0").statement
    assert instruct.pins() == complete.pins()
    with pytest.raises(UnknownName, match="unknown prompt 'chat'"):
        made(tmp_path, prompt="chat").task_ids()


def test_the_job_pins_each_test_once(tmp_path: Path) -> None:
    bench = made(tmp_path, preload=["json"], timeouts_s={"BigCodeBench/0": 9.0})
    job = bench.oracle_job("BigCodeBench/0", Submission.of_reference("x", {"solution.py": b"x"}))
    assert (job.expected, job.convention, job.timeout_s, job.preload) == (IDS, "namespace", 9.0, ("json",))
    with pytest.raises(UnknownName, match="unknown task 'x'"):
        made(tmp_path, timeouts_s={"x": 1.0}).task_ids()


def test_a_part_by_a_list_of_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{**RECORD, "task_id": f"BigCodeBench/{n}"} for n in range(3)]
    listed = tmp_path / "part.json"
    listed.write_text('["BigCodeBench/2", "BigCodeBench/0"]')
    right = hashlib.sha256(listed.read_bytes()).hexdigest()
    part = made(tmp_path, *records, ids=str(listed), ids_sha256=right, count=2)
    assert part.task_ids() == ("BigCodeBench/2", "BigCodeBench/0")
    assert part.pins()["dataset_hash"] != made(tmp_path, *records).pins()["dataset_hash"]
    monkeypatch.setenv("RECURVE_DATA", str(tmp_path))
    assert len(made(tmp_path, *records, ids="part.json", count=2).task_ids()) == 2
    with pytest.raises(Drift, match="the content's sha256 is"):
        made(tmp_path, *records, ids=str(listed), ids_sha256="0" * 64, count=2).task_ids()
    with pytest.raises(Drift, match=r"has 2 tasks, task\.count pins 148"):
        made(tmp_path, *records, ids=str(listed), count=148).task_ids()
    for text, words in (("{}", "expected a JSON list"), ("[", "not JSON"), ('["a", "a"]', "stands twice")):
        listed.write_text(text)
        with pytest.raises(ConfigError, match=words):
            made(tmp_path, *records, ids=str(listed)).task_ids()
    listed.write_text('["BigCodeBench/9"]')
    with pytest.raises(UnknownName, match="unknown task 'BigCodeBench/9'"):
        made(tmp_path, *records, ids=str(listed)).task_ids()


MALFORMED = {
    "code_prompt": ({**RECORD, "code_prompt": "def task_func(:"}, "'code_prompt' is not Python"),
    "entry": ({**RECORD, "entry_point": "other"}, "does not define entry_point 'other'"),
    "test": ({**RECORD, "test": "class TestCases("}, "'test' is not Python"),
    "no tests": ({**RECORD, "test": "class Other:\n    def test_x(self): pass\n"}, "defines no test methods"),
    "missing": ({k: v for k, v in RECORD.items() if k != "test"}, "'test' is missing"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_named_by_line(tmp_path: Path, name: str) -> None:
    record, words = MALFORMED[name]
    with pytest.raises(ConfigError, match=rf"tasks\.jsonl, line 1: .*{words}"):
        made(tmp_path, record).task_ids()


# -- the public file -----------------------------------------------------------------------------


def test_tasks_of_the_standard_library_alone(oracle: ProcessOracle) -> None:
    root = Path(os.environ.get("RECURVE_DATA") or Path(__file__).parents[3] / "shared" / "data") / "bigcodebench"
    if not (root / "stdlib_only_task_ids.json").is_file():
        pytest.skip("BigCodeBench is not below RECURVE_DATA")
    bench = BigCodeBench(
        path=str(root / "BigCodeBench.hf_data.jsonl.gz"), ids=str(root / "stdlib_only_task_ids.json"), count=299
    )
    wrong = []
    numpy_at_run_time, excluded = {"BigCodeBench/541"}, read_exclusions("bigcodebench").reasons
    for task_id in sorted({*bench.task_ids()[2:300:15]} - numpy_at_run_time - set(excluded)):
        solutions = bench.solutions(task_id)
        cases = [("pass", solutions.canonical), *(("fail", bad.files) for bad in solutions.known_bad)]
        for wanted, files in cases:
            grade = oracle.grade(bench.oracle_job(task_id, Submission.of_reference("x", files)))
            if grade.verdict != wanted:
                wrong.append((task_id, wanted, grade.verdict.value, grade.detail))
    assert wrong == []
