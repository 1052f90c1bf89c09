"""``python -m recurve_eval.gates check WORKSPACE``: the verdict; exit 0 GREEN, 1 RED, 2 BROKEN, 64 wrong usage."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recurve_eval.gates.probes import Limits
from recurve_eval.gates.standalone import admit_workspace, check_workspace

CODES = {"GREEN": 0, "RED": 1, "BROKEN": 2}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(64, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None, *, in_cell: bool = False) -> int:
    """Judge a workspace (with ``in_cell``, that of a cell) and print the verdict; its exit code."""
    parser = _Parser(prog="gate", description="Judge a workspace by its own claims (.recurve/claims.yaml).")
    parser.add_argument("verb", choices=("check", "admit"), help="check: is the work good; admit: may the claims judge")
    parser.add_argument("workspace", nargs="?", default=".", type=Path)
    parser.add_argument("--no-traps", action="store_true", help="leave the traps out")
    parser.add_argument("--ledger", action="store_true", help="print one line for each claim, with its tier")
    parser.add_argument("--timeout", type=float, default=20.0, metavar="S", help="seconds a probe may take")
    chosen = parser.parse_args(argv)
    if not chosen.workspace.is_dir():
        parser.error(f"{chosen.workspace} is no directory")
    judged = {"check": check_workspace, "admit": admit_workspace}[chosen.verb]
    verdict = judged(chosen.workspace, Limits(chosen.timeout), traps=not chosen.no_traps, in_cell=in_cell)
    for line in verdict.lines if chosen.ledger else ():
        print(line)  # noqa: T201 - the verb's output
    print(verdict.message or verdict.verdict.value)  # noqa: T201
    return CODES[verdict.verdict.value]


if __name__ == "__main__":
    sys.exit(main())
