"""``recurve-eval oracle build | lock | verify | attack``: the grader itself."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurve_eval.cli.targets import take_own
from recurve_eval.errors import EXIT_DONE, EXIT_REFUSED, EXIT_USAGE, ConfigError, Drift, Refused, UnknownName

if TYPE_CHECKING:
    from recurve_eval.oracle.attack import AttackResult
    from recurve_eval.ports import OracleBackend

HELP = """\
usage: recurve-eval oracle VERB [oracle=NAME] [overrides]

  build   derive an image from its recipe in oracle/images and compare its digest with the pin (--repin writes it);
          with oracle=instance and a task group, the images of the selected tasks
  lock    resolve a recipe's packages and wheels anew and write its lock files
  verify  is it here, is it the pinned image, does a server start, do its facts equal a run's oracle.lock.json
  attack  grade the shipped battery of hostile submissions; refuses if one of them passes

`recurve-eval oracle VERB --help` says more. Examples:

  recurve-eval oracle build oracle=python-min
  recurve-eval oracle build oracle=instance task=swebench task.repos=clones task.select=[pallets__flask-4992]
  recurve-eval oracle verify oracle=bubblewrap
  recurve-eval oracle verify outputs/demo/0123456789abcdef
  recurve-eval oracle attack oracle=bubblewrap

Exit codes: 0 done, 2 usage or configuration, 3 refused (drift, a missing image, an exploit that passes).
"""


def oracle(arguments: list[str]) -> int:
    """One of the verbs around the oracle."""
    table: dict[str, Callable[[list[str]], int]] = {"build": build, "lock": lock, "verify": verify, "attack": attack}
    first = arguments[0] if arguments else "--help"
    if first in ("--help", "-h", "help"):
        print(HELP, end="")  # noqa: T201
        return EXIT_DONE if arguments else EXIT_USAGE
    if first not in table:
        raise UnknownName("oracle verb", first, table)
    return table[first](arguments[1:])


def _parser(verb: str, text: str, words: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"recurve-eval oracle {verb}", description=text)
    parser.add_argument("words", nargs="*", metavar="WORD", help=words)
    return parser


# -- images ---------------------------------------------------------------------------------------


def build(arguments: list[str]) -> int:
    """Derive an image and compare it with its pin. Raises Drift where it is another one."""
    parser = _parser(
        "build", "Build an oracle image from its recipe and compare it with its pin.",
        "oracle=NAME; or oracle=instance, task=BENCHMARK and its settings, for the images of the selected tasks",
    )  # fmt: skip
    parser.add_argument("--repin", action="store_true", help="write the pin instead of comparing with it")
    parser.add_argument(
        "--work", type=Path, help="where to build (about three times the image); default: a temporary one"
    )
    take_own(parser)
    options = parser.parse_intermixed_args(arguments)
    if any(word.startswith(("task=", "experiment=")) for word in options.words):
        from recurve_eval.cli.task_images import build_tasks

        return build_tasks(options.words, options.config_dir, options.work, options.repin)
    from recurve_eval.oracle import build as images

    with _work(options.work) as work:
        made = images.build(_recipe(options.words), work=Path(work), progress=_say, repin=options.repin)
    if options.repin:
        print(f"{made.recipe}: pinned as {made.image_id}; commit the pin and calibrate again")  # noqa: T201
    else:
        print(f"{made.recipe}: {made.image_id} is the pinned image")  # noqa: T201
    return EXIT_DONE


def lock(arguments: list[str]) -> int:
    """Write a recipe's lock files anew."""
    parser = _parser(
        "lock", "Resolve a recipe's packages and wheels anew; its pin then no longer holds.", "oracle=NAME"
    )
    parser.add_argument("--work", type=Path, help="where to resolve; default: a temporary directory")
    options = parser.parse_intermixed_args(arguments)
    from recurve_eval.oracle import build as images

    name = _recipe(options.words)
    with _work(options.work) as work:
        for path in images.lock(name, work=Path(work), progress=_say):
            print(f"wrote {path}")  # noqa: T201
    print(f"next: recurve-eval oracle build oracle={name} --repin, then calibrate again")  # noqa: T201
    return EXIT_DONE


def _work(given: Path | None) -> Any:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="recurve-image-", dir=given)


def _recipe(words: Sequence[str]) -> str:
    from recurve_eval.oracle import recipe

    names = [w.removeprefix("oracle=") for w in words if w.startswith("oracle=")]
    if len(names) != 1 or len(words) != 1:
        raise ConfigError(f"name one recipe, as in oracle=python-min; known: {', '.join(recipe.names())}")
    if names[0] not in recipe.names():
        raise UnknownName("image recipe", names[0], recipe.names())
    return names[0]


# -- verify ---------------------------------------------------------------------------------------


def verify(arguments: list[str]) -> int:
    """Present, pinned, starting, and as a run locked it. Raises Refused or Drift by the name of what is not so."""
    parser = _parser(
        "verify", "Check that an oracle is present, pinned and starts, and that it is the one a run locked.",
        "oracle=NAME and its settings, and perhaps a run directory, whose own oracle is taken where none is named",
    )  # fmt: skip
    take_own(parser)
    options = parser.parse_intermixed_args(arguments)
    words: list[str] = options.words
    run_dirs = [Path(w) for w in words if "=" not in w]
    overrides = [w for w in words if "=" in w]
    backend = _backend(overrides, run_dirs, options.config_dir)
    problem = backend.check()
    if problem:
        raise Refused(f"oracle {backend.name}: {problem}")
    _say(f"present      oracle {backend.name} can run here")
    with closing(backend):
        env = backend.env()
    _pinned(overrides, env.image_digest)
    _say(f"starts       {env.backend} {env.hash[:16]} ({env.isolation})")
    for run_dir in run_dirs:
        _as_locked(run_dir, env)
        _say(f"as locked    every fact equals {run_dir}/oracle.lock.json")
    return EXIT_DONE


def _backend(overrides: Sequence[str], run_dirs: Sequence[Path], own: str | None) -> OracleBackend:
    from recurve_eval import app
    from recurve_eval.tracking.study import read_plan

    for path in run_dirs:
        if not (path / "plan.yaml").is_file():
            raise ConfigError(f"{path} is not a run directory: it has no plan.yaml")
    if overrides or not run_dirs:
        with app.initialised(own):
            return app.oracle_of(overrides)
    return app.oracle_from(read_plan(run_dirs[0])["conditions"][0]["config"]["oracle"])


def _pinned(overrides: Sequence[str], image_digest: str | None) -> None:
    """Hold the image against the pin of the recipe that the option is named for."""
    from recurve_eval.oracle import recipe

    if image_digest is None:
        _say("pinned       no image: this oracle runs on the machine's own interpreter")
        return
    pins = {name: pin.image_id for name in recipe.names() if (pin := recipe.load(name).pin) is not None}
    named = next((w.removeprefix("oracle=") for w in overrides if w.startswith("oracle=")), "")
    if named in pins and pins[named] != image_digest:
        raise Drift(
            f"the oracle runs image {image_digest}, the pin of recipe {named} is {pins[named]}. Build it: "
            f"recurve-eval oracle build oracle={named}"
        )
    holders = [name for name, pinned in pins.items() if pinned == image_digest]
    what = (
        f"is the pin of recipe {holders[0]}"
        if holders
        else "is no recipe's pin: it is pinned by the configuration alone"
    )
    _say(f"pinned       {image_digest} {what}")


def _as_locked(run_dir: Path, env: Any) -> None:
    from recurve_eval.locks import lock_moved, locked

    path = run_dir / "oracle.lock.json"
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
        held = {h: e for h, e in lock["environments"].items() if e["backend"] == env.backend} or lock["environments"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Drift(f"{path} cannot be read: {error!r}") from None
    if held.get(env.hash) == json.loads(json.dumps(locked(env))):
        return
    moved = lock_moved({"environments": held}, {"environments": {env.hash: json.loads(json.dumps(locked(env)))}})
    raise Drift(f"{path}: {moved}")


# -- attack ---------------------------------------------------------------------------------------


def attack(arguments: list[str]) -> int:
    """Controls, then the battery. Exit code 3 where an exploit passes, or a control is graded wrongly."""
    parser = _parser(
        "attack", "Grade the shipped battery of hostile submissions through the real backend.",
        "oracle=NAME and its settings",
    )  # fmt: skip
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this exploit; may be repeated")
    take_own(parser)
    options = parser.parse_intermixed_args(arguments)
    from recurve_eval.oracle import attack as battery

    exploits = battery.load_exploits()
    for name in options.only:
        if name not in {e.name for e in exploits}:
            raise UnknownName("exploit", name, [e.name for e in exploits])
    exploits = [e for e in exploits if not options.only or e.name in options.only]
    backend = _backend(options.words, [], options.config_dir)
    problem = backend.check()
    if problem:
        raise ConfigError(problem)
    started = time.monotonic()
    with closing(backend):
        backend.start(1)
        complaints = battery.run_controls(backend)
        for complaint in complaints:
            print(f"control      {complaint}")  # noqa: T201
        results = _watched(battery.run_battery(backend, exploits), len(exploits))
    return _counted(backend.name, results, complaints, len(exploits), time.monotonic() - started)


def _watched(gradings: Any, total: int) -> list[AttackResult]:
    """Print each exploit, once all its tasks are graded, and return every grading."""
    results: list[AttackResult] = []
    current: list[AttackResult] = []
    seen = 0
    for result in gradings:
        if current and current[0].exploit is not result.exploit:
            seen += 1
            _say(f"{seen:>3}/{total} {_line(current)}")
            current = []
        current.append(result)
        results.append(result)
    if current:
        _say(f"{seen + 1:>3}/{total} {_line(current)}")
    return results


def _line(results: Sequence[AttackResult]) -> str:
    """One exploit: its kind and name, its verdicts over its tasks, and the rule that stopped it."""
    exploit = results[0].exploit
    verdicts = Counter(r.grade.verdict.value for r in results)
    words = ", ".join(f"{v} {n}" for v, n in sorted(verdicts.items()))
    rules = list(dict.fromkeys(_first(r.stopped_by) for r in results if not r.passed))
    passed = [r.task for r in results if r.passed]
    told = f"PASSED on {', '.join(passed)}" if passed else " | ".join(rules[:2])
    return f"{exploit.kind:<20} {exploit.name:<24} {words:<28} {told}"


def _first(text: str) -> str:
    lines = text.strip().splitlines()
    return "".join(c if c.isprintable() else "?" for c in lines[0])[:100] if lines else "no rule named"


def _counted(
    name: str, results: Sequence[AttackResult], complaints: Sequence[str], exploits: int, wall_s: float
) -> int:
    passed = sorted({r.exploit.name for r in results if r.passed})
    graded = {r.exploit.name for r in results}
    verdicts = Counter(r.grade.verdict.value for r in results)
    words = ", ".join(f"{n} {v}" for v, n in sorted(verdicts.items()))
    left_out = exploits - len(graded)
    skipped = f"; {left_out} not run, they could harm a machine without containment" if left_out else ""
    controls = f"{len(complaints)} controls wrong" if complaints else "controls right"
    print(  # noqa: T201
        f"oracle {name}: {len(passed)} passed of {len(graded)} exploits in {len(results)} gradings ({words}); "
        f"{controls}{skipped}; {wall_s:.0f} s"
    )
    return EXIT_REFUSED if passed or complaints else EXIT_DONE


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201
