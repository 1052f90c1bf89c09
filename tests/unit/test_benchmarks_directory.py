"""Task directories: what is read, and that every way of writing one wrongly is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recurve_eval.benchmarks.demo import DemoBenchmark
from recurve_eval.benchmarks.directory import DirectoryBenchmark
from recurve_eval.domain import Submission
from recurve_eval.errors import ConfigError, Drift, UnknownName

SHEET = """\
schema: 1
id: double
title: Double a number
statement: Write double(n) in solution.py.
capture: [solution.py]
module: solution
faults: [adds]
"""
HELD_OUT = """\
import unittest

from solution import double


class Double(unittest.TestCase):
    def test_three(self):
        self.assertEqual(double(3), 6)

    def test_none(self):
        self.assertEqual(double(0), 0)
"""
FILES = {
    "task.yaml": SHEET,
    "public/solution.py": "def double(n):\n    raise NotImplementedError\n",
    "public/table.txt": "1 2\n",
    "public/test_visible.py": "import unittest\n\n\nclass V(unittest.TestCase):\n    pass\n",
    "held_out/test_held_out.py": HELD_OUT,
    "solution/solution.py": "def double(n):\n    return 2 * n\n",
    "known_bad/adds/solution.py": "def double(n):\n    return n + 2\n",
    "known_bad/adds/why.txt": "Adds.\n",
}


def write(root: Path, name: str = "double", **changes: str | None) -> Path:
    """A valid task, with files replaced (or, by None, left out)."""
    files: dict[str, str | None] = {**FILES, **changes}
    for path, text in files.items():
        if text is not None:
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text, encoding="utf-8")
    return root


def opened(root: Path, sha256: str | None = None) -> DirectoryBenchmark:
    return DirectoryBenchmark(path=str(root), sha256=sha256)


def test_a_task_is_read_whole(tmp_path: Path) -> None:
    bench = opened(write(tmp_path))
    task, solutions = bench.task("double"), bench.solutions("double")
    assert bench.task_ids() == ("double",)
    assert set(task.public) == {"solution.py", "table.txt", "test_visible.py"}
    assert task.visible_check is not None
    assert task.visible_check[:3] == ("{python}", "-I", "-B")
    assert task.visible_check[-1] == "test_visible.py"
    assert task.protected == ("test_visible.py",)
    assert solutions.canonical == {"solution.py": b"def double(n):\n    return 2 * n\n"}
    assert [(bad.kind, set(bad.files)) for bad in solutions.known_bad] == [("adds", {"solution.py"})]


def test_the_oracle_job_carries_what_grading_needs(tmp_path: Path) -> None:
    bench = opened(write(tmp_path))
    job = bench.oracle_job("double", Submission.of_reference("canonical", bench.solutions("double").canonical))
    assert job.expected == ("Double.test_three", "Double.test_none")
    assert job.held_out == {"test_held_out.py": HELD_OUT.encode()}
    assert job.support == {"table.txt": b"1 2\n"}
    assert (job.convention, job.params, job.timeout_s) == ("unittest", {"module": "solution"}, 10.0)


def test_no_visible_tests_no_visible_check(tmp_path: Path) -> None:
    task = opened(write(tmp_path, **{"public/test_visible.py": None})).task("double")
    assert (task.visible_check, task.protected) == (None, ())


def test_tasks_are_listed_by_directory_name(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        write(tmp_path, name, **{"task.yaml": SHEET.replace("id: double", f"id: z-{name}")})
    (tmp_path / "README.md").write_text("about\n")
    (tmp_path / ".git").mkdir()
    assert opened(tmp_path).task_ids() == ("z-a", "z-b", "z-c")


def test_the_hash_covers_every_file_and_nothing_else(tmp_path: Path) -> None:
    base = opened(write(tmp_path / "base")).pins()["dataset_hash"]
    same = write(tmp_path / "same")
    (same / "double" / "public" / "__pycache__").mkdir()
    (same / "double" / "public" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert opened(same).pins()["dataset_hash"] == base
    for number, path in enumerate(FILES):
        changed = write(tmp_path / str(number), **{path: FILES[path] + "\n"})
        assert opened(changed).pins()["dataset_hash"] != base, path


def test_a_pinned_hash_is_enforced(tmp_path: Path) -> None:
    root = write(tmp_path)
    found = str(opened(root).pins()["dataset_hash"])
    assert opened(root, sha256=found.upper()).task_ids() == ("double",)
    write(root, **{"held_out/test_held_out.py": HELD_OUT.replace("double(0), 0", "double(0), 1")})
    with pytest.raises(Drift) as refused:
        opened(root, sha256=found).task_ids()
    assert all(part in str(refused.value) for part in (str(root), found, "task.sha256"))


def test_the_shipped_demo_refuses_an_edit() -> None:
    with pytest.raises(Drift, match="reinstall the package"):
        DemoBenchmark(sha256="0" * 64).task_ids()


def test_an_unknown_task_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'double'"):
        opened(write(tmp_path)).task("duoble")


Case = tuple[dict[str, str | None], str]
WRONG: dict[str, Case] = {
    "misspelt key": ({"task.yaml": SHEET + "time_out_s: 3\n"}, r"task\.yaml.*Did you mean 'timeout_s'.*Known: capture"),
    "missing key": (
        {"task.yaml": SHEET.replace("title: Double a number\n", "")},
        r"task\.yaml: key 'title' is missing",
    ),
    "key twice": ({"task.yaml": SHEET + "title: again\n"}, r"key 'title' is given twice.*line 8"),
    "not YAML": ({"task.yaml": "a: [1\n"}, r"task\.yaml:\d+: not valid YAML.*line"),
    "not a mapping": ({"task.yaml": "- a\n"}, "expected a mapping"),
    "code in YAML": ({"task.yaml": SHEET + "tags: !!python/object/apply:os.getcwd []\n"}, "not valid YAML"),
    "other schema": (
        {"task.yaml": SHEET.replace("schema: 1", "schema: 2")},
        r"task\.yaml:1: schema is 2, this version reads schema 1",
    ),
    "blank statement": (
        {"task.yaml": SHEET.replace("Write double(n) in solution.py.", '" "')},
        "'statement' must be non-empty",
    ),
    "number for an id": ({"task.yaml": SHEET.replace("id: double", "id: 7")}, "'id' must be non-empty text; got 7"),
    "id with spaces": ({"task.yaml": SHEET.replace("id: double", "id: a b")}, "'id' may hold letters"),
    "capture escapes": (
        {"task.yaml": SHEET.replace("[solution.py]", "[solution.py, ../x.py]")},
        "'capture' must stay inside",
    ),
    "capture absolute": ({"task.yaml": SHEET.replace("[solution.py]", "[/etc/passwd]")}, "'capture' must stay inside"),
    "capture empty": ({"task.yaml": SHEET.replace("[solution.py]", "[]")}, "'capture' must be a non-empty list"),
    "module not captured": (
        {"task.yaml": SHEET.replace("module: solution", "module: other")},
        r"capture must name other\.py",
    ),
    "module no name": (
        {"task.yaml": SHEET.replace("module: solution", "module: 2x")},
        "'module' must be a Python name",
    ),
    "tests captured": (
        {"task.yaml": SHEET.replace("[solution.py]", "[solution.py, test_visible.py]")},
        "capture names test_visible.py, a visible test",
    ),
    "no time": ({"task.yaml": SHEET + "timeout_s: 0\n"}, "'timeout_s' must be a positive number"),
    "endless time": ({"task.yaml": SHEET + "timeout_s: .inf\n"}, "'timeout_s' must be a positive number"),
    "bytes as text": ({"task.yaml": SHEET + "max_file_bytes: 1e3\n"}, "'max_file_bytes' must be a whole number"),
    "difficulty": ({"task.yaml": SHEET + "difficulty: hrad\n"}, "Did you mean 'hard'"),
    "tags": ({"task.yaml": SHEET + "tags: text\n"}, "'tags' must be a list"),
    "fault without directory": (
        {"task.yaml": SHEET.replace("[adds]", "[adds, late]")},
        "known_bad/late is named in faults",
    ),
    "directory without fault": ({"known_bad/off/solution.py": "x = 1\n"}, "known_bad/off is not among faults"),
    "known-bad without files": ({"known_bad/adds/solution.py": None}, "known_bad/adds holds no solution"),
    "no canonical": ({"solution/solution.py": None}, r"no canonical solution: solution/ must hold solution\.py"),
    "blank canonical": ({"solution/solution.py": "\n"}, "no canonical solution"),
    "canonical not captured": ({"solution/extra.py": "x = 1\n"}, r"solution/extra\.py would never be captured"),
    "canonical is public": (
        {"public/solution.py": FILES["solution/solution.py"]},
        "public/ already holds the canonical",
    ),
    "no held-out tests": ({"held_out/test_held_out.py": None}, "has no held-out tests"),
    "no test methods": ({"held_out/test_held_out.py": "import solution\n"}, "has no held-out tests"),
    "held-out syntax": (
        {"held_out/test_held_out.py": "def (:\n"},
        r"held_out/test_held_out\.py:1: cannot be read.*line 1",
    ),
    "a test twice": (
        {"held_out/test_held_out.py": HELD_OUT.replace("test_none", "test_three")},
        "Double.test_three is defined twice",
    ),
    "a test in two files": ({"held_out/test_more.py": HELD_OUT + "\n"}, "test Double.test_three stands both in"),
    "held-out is public by name": ({"public/test_held_out.py": "x = 1\n"}, r"also stands in public/test_held_out\.py"),
    "held-out is public by content": ({"public/notes.txt": HELD_OUT}, r"also stands in public/notes\.txt"),
    "held-out data": ({"held_out/cases.json": "[]"}, r"held_out/cases\.json: only Python modules"),
    "held-out shadows": (
        {"held_out/solution.py": "x = 1\n", "public/solution.py": None},
        "has the name of the submission's module",
    ),
    "misspelt part": ({"heldout/test_x.py": "x = 1\n"}, "unknown entry 'heldout'.*Did you mean 'held_out'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_task_is_refused(name: str, tmp_path: Path) -> None:
    changes, message = WRONG[name]
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        opened(write(tmp_path, **changes)).task_ids()


def test_every_refusal_rests_on_the_change_alone(tmp_path: Path) -> None:
    assert opened(write(tmp_path)).task_ids() == ("double",)


def test_an_id_may_be_used_once(tmp_path: Path) -> None:
    write(tmp_path, "one")
    write(tmp_path, "two")
    with pytest.raises(ConfigError, match=r"two/task\.yaml: id 'double' is already the id of .*one"):
        opened(tmp_path).task_ids()


def test_links_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "double" / "public" / "link").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="links are refused"):
        opened(tmp_path).task_ids()


def empty(root: Path) -> DirectoryBenchmark:
    return opened(root)


def stray(root: Path) -> DirectoryBenchmark:
    (root / "drafts").mkdir()
    return opened(write(root))


PLACES: dict[str, tuple[Callable[[Path], DirectoryBenchmark], str]] = {
    "absent": (lambda root: opened(root / "nowhere"), r"task\.path: .*nowhere is not a directory"),
    "not set": (lambda root: DirectoryBenchmark(), r"task\.path has no value"),
    "empty": (empty, "holds no task"),
    "without task.yaml": (stray, r"drafts has no task\.yaml"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_wrong_place_is_refused(name: str, tmp_path: Path) -> None:
    make, message = PLACES[name]
    with pytest.raises(ConfigError, match=message):
        make(tmp_path).task_ids()
