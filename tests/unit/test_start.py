"""What a command line loads before its first cell: a start that imports the analysis is a second slower."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"numpy", "scipy", "pandas", "matplotlib", "mlflow", "sqlalchemy", "anthropic", "openai", "docker"}


def test_starting_a_study_imports_neither_the_analysis_nor_the_tracker() -> None:
    script = (
        "import sys, recurve_eval.app, recurve_eval.execute.conduct, recurve_eval.cli.hydra_verbs\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
