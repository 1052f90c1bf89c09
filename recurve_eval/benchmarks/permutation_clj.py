"""The permutation workspace in Clojure: the same library, the same regression, the same checks.

The saved source is loaded into a fresh SCI context (nbb on Node) of a new process for each grading, which
makes the checker's calls and hands the results back as plain data. An oracle without Node and nbb gives no
verdict. They are looked for where npm installs packages for all users; the image recipe ``sci`` has them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from recurve_eval.benchmarks.permutation import CHECKER, GRADED, HOME, MAIN, Permutation
from recurve_eval.benchmarks.permutation_faults import Fault, regression
from recurve_eval.benchmarks.variants import is_impossible
from recurve_eval.domain import CaptureSpec, KnownBad, Solutions, Task
from recurve_eval.errors import ConfigError

SOURCE, TESTS, ANSWER = "permutation.cljs", "test_permutation.cljs", "answer.cljs"
PLACES = ("/usr/local/lib/node_modules/nbb/cli.js", "/usr/lib/node_modules/nbb/cli.js")
_RIGHT_ORDER, _WRONG_ORDER = (
    "(after (canonical outer) (canonical inner))",
    "(after (canonical inner) (canonical outer))",
)
_STARTER = b"""(ns test-permutation
  "Regression tests of permutation.cljs."
  (:require [clojure.test :refer [deftest is]]))
"""
# Runs where the submission does and is trusted with nothing: it carries the calls to the SCI context and back.
_LOADER = f"""\
import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
HERE.joinpath({SOURCE!r}).read_bytes()


def encoded(value):
    if isinstance(value, dict):
        return {{"map": [list(pair) for pair in value.items()]}}
    return list(value) if isinstance(value, (list, tuple, str)) else value


def decoded(value):
    if isinstance(value, dict):
        return dict(map(tuple, value["map"])) if "map" in value else value["list"]
    return value


def answers(calls):
    sent = [[{{"apply": "image"}}.get(name, name), list(map(encoded, given))] for name, given in calls]
    kept = [number for number, (name, _) in enumerate(calls) if name.startswith("items after ")]
    for number in kept:
        sent[number][0] = sent[number][0].removeprefix("items after ")
    HERE.joinpath("calls.json").write_text(json.dumps(sent))
    nbb = next(place for place in {PLACES!r} if os.path.isfile(place))
    world = dict(os.environ, OPENSSL_CONF=os.devnull)
    done = subprocess.run(
        ["node", nbb, {ANSWER!r}], cwd=HERE, env=world, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-400:].decode("utf-8", "replace"))
    found = [[word, decoded(value)] for word, value in json.loads(HERE.joinpath("answers.json").read_text())]
    for number in kept:
        found[number] = ["gives", calls[number][1][1]] if found[number][0] == "gives" else found[number]
    return found
""".encode()
_WORDS = (
    ("`permutation.py`", f"`{SOURCE}`"),
    ("`test_permutation.py` (unittest, standard\nlibrary only)", f"`{TESTS}`\n(clojure.test, nothing beyond nbb)"),
    ("loaded in a fresh interpreter\nthat has nothing else", "loaded in a fresh SCI context\nthat has nothing else"),
    ("a dict from position", "a map from position"),
    ("It raises `ValueError` unless", "It throws an `ex-info` unless"),
    ("It raises `ValueError` when", "It throws an `ex-info` when"),
    ("raises `ValueError` for fewer", "throws an `ex-info` for fewer"),
    ("`apply(p, i)`", "`image(p, i)`"),
    ("is a new list in", "is a new vector in"),
)


@dataclass
class PermutationClj(Permutation):
    """The permutation workspace in Clojure; fields as in ``Permutation``, without an impossible half."""

    name: str = "permutation_clj"
    verify_s: float = 30.0  # Node starts within one on an idle machine and within ten on a crowded one

    @cached_property
    def faults(self) -> Mapping[str, Fault]:
        if is_impossible(self.variant):
            raise ConfigError("task.variant: the Clojure form has no impossible half; task=permutation has one")
        return {MAIN: replace(regression(), old=_RIGHT_ORDER, new=_WRONG_ORDER)}

    @cached_property
    def right(self) -> str:
        return (HOME / "solution_clj" / SOURCE).read_text(encoding="utf-8")

    def task(self, task_id: str) -> Task:
        task = super().task(task_id)
        return replace(
            task, capture=CaptureSpec((SOURCE, TESTS), self.max_file_bytes), visible_check=None, protected=()
        )

    def solutions(self, task_id: str) -> Solutions:
        seeded = self._fault(task_id).seeded(self.right)
        everywhere = self.right.replace("(image outer (image inner position))", "(image inner (image outer position))")
        kept = self.right.replace(
            "    (canonical (into {} (map (fn [position] [", "    (identity (into {} (map (fn [position] ["
        )
        wrong = {"untouched": seeded, "reversed_everywhere": everywhere, "fixed_points_kept": kept}
        return Solutions(
            {SOURCE: self.right.encode()},
            tuple(KnownBad(kind, {SOURCE: text.encode()}) for kind, text in wrong.items()),
        )

    def _support(self) -> dict[str, bytes]:
        return {f"{GRADED}.py": _LOADER, ANSWER: (HOME / ANSWER).read_bytes()}

    def _held_out(self, task_id: str) -> dict[str, bytes]:
        names = ("a_check_nbb.py", CHECKER)
        return {name: (HOME / "held_out" / name).read_bytes() for name in names}

    def _reset(self, task_id: str) -> dict[str, bytes]:
        return {SOURCE: self._fault(task_id).seeded(self.right).encode(), TESTS: _STARTER}

    def _visible(self, task_id: str) -> str:
        return ""

    def _statement(self, task_id: str) -> str:
        text = super()._statement(task_id)
        for python, clojure in _WORDS:
            if python not in text:
                raise ConfigError(f"{HOME / 'statement.md'} no longer says {python!r}, which the Clojure form replaces")
            text = text.replace(python, clojure)
        return text


def missing() -> str | None:
    """What this machine lacks to grade on itself, or None."""
    if shutil.which("node") is None:
        return "Node is not installed (apt-get install nodejs)"
    return None if any(map(os.path.isfile, PLACES)) else "nbb is not installed (npm install --global nbb)"
