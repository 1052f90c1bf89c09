"""``recurve-eval VERB [overrides]``: the verbs, and what an error costs (exit codes)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from recurve_eval.errors import EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_USAGE, RecurveError

HELP = """\
recurve-eval measures whether a gate around a coding agent makes it ship less bad work.

usage: recurve-eval VERB [overrides]

  run       plan, check the spend gate, run the pending cells, analyze (the verb where overrides stand alone)
  plan      expand and pin the matrix; print cells, cost ceiling and the smallest visible effect
  calibrate grade solutions known good and known bad; paid cells need the oracle proven
  intercept known work, good and bad, before each layer of the gate: what each catches, what it blocks wrongly
  regrade   grade a run's stored submissions again; show every verdict that flips
  oracle    build, lock, verify or attack the grader
  task      list and show tasks; make and check your own
  status    what is sealed, running and spent
  analyze   results to summary.md and summary.json
  mirror    send the tracker what it lacks
  arm       list or show: what each arm is made of, and how it differs from A3
  doctor    what this machine lacks, and the command that mends it

An override chooses an option (task=humaneval), sets a value (budget.wall_s=30) or spans an axis
(arm=A0,A1 seed=0,1,2). `recurve-eval VERB --help` says more. Without arguments for them, status, analyze
and mirror take the newest run directory.

  recurve-eval run experiment=demo
  recurve-eval plan task=demo arm=A0,A1 seed=0,1,2
  recurve-eval calibrate task=demo oracle=bubblewrap
  recurve-eval analyze outputs/demo/*

Exit codes: 0 done, 2 usage or configuration, 3 refused (spend gate, drift, budget, lock), 4 done but some
cells are unscored, 5 (regrade) verdicts flipped, 130 interrupted (the same command resumes).
Tab completion: eval "$(recurve-eval -sc install=bash)"  (also zsh and fish)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["--version"], ["-V"]):
        from recurve_eval import __version__

        print(__version__)  # noqa: T201
        return 0
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(HELP, end="")  # noqa: T201
        return 0
    try:
        return _dispatch(arguments)
    except RecurveError as error:
        print(f"recurve-eval: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        print("recurve-eval: interrupted; the same command resumes", file=sys.stderr)  # noqa: T201
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_USAGE
    except OSError as error:
        print(f"recurve-eval: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_REFUSED


def _dispatch(arguments: list[str]) -> int:
    from recurve_eval.cli import arm, calibrate, completion, hydra_verbs, intercept, oracle, regrade, task, verbs

    table: dict[str, Callable[[list[str]], int]] = {
        "run": hydra_verbs.run,
        "plan": hydra_verbs.plan,
        "calibrate": calibrate.calibrate,
        "intercept": intercept.intercept,
        "regrade": regrade.regrade,
        "oracle": oracle.oracle,
        "task": task.task,
        "status": verbs.status,
        "analyze": verbs.analyze,
        "mirror": verbs.mirror,
        "arm": arm.arm,
        "doctor": verbs.doctor,
    }
    arguments = completion.with_own(arguments)
    offered = completion.answer(arguments, tuple(table))
    if offered is not None:
        print(offered)  # noqa: T201 - what the shell's hook reads
        return 0
    first = arguments[0]
    if first in table:
        return table[first](arguments[1:])
    if first and "=" not in first and not first.startswith(("-", "+", "~")):
        from recurve_eval.errors import UnknownName

        raise UnknownName("verb", first, table)
    return hydra_verbs.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
