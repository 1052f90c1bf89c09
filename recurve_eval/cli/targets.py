"""Which run directories a verb is about: named, given by a study's overrides, or the newest. And whose options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from recurve_eval.errors import ConfigError

DEFAULT_OUTPUTS = Path("outputs")
TARGETS = "a run directory, or overrides of the study that is meant; default: the newest run below outputs/"


def take_own(parser: argparse.ArgumentParser) -> None:
    """Let a verb find the user's own options: what it parses has them as ``config_dir``."""
    parser.add_argument(
        "--config-dir", "-cd", metavar="DIR", help="a directory of your own options, searched after the shipped ones"
    )


def run_dirs(words: Sequence[str], own: str | None = None) -> list[Path]:
    """The run directories that the words name.

    A word is a run directory, or an override of a study whose directory is meant; no words mean the
    newest run directory below ``outputs``. ``own`` is the directory of the options that are the user's own.

    Raises
    ------
    ConfigError
        A word is neither, a directory holds no run, or there is no run yet.
    """
    named = [Path(w) for w in words if "=" not in w or Path(w).is_dir()]
    overrides = [w for w in words if "=" in w and not Path(w).is_dir()]
    for path in named:
        if not (path / "plan.yaml").is_file():
            raise ConfigError(f"{path} is not a run directory (it has no plan.yaml); known: {_known()}")
    if overrides:
        named.append(_of_study(overrides, own))
    return named or [_newest()]


def _of_study(overrides: list[str], own: str | None) -> Path:
    from recurve_eval import api

    path = api.plan(overrides, config_dir=own).run_dir
    if not (path / "plan.yaml").is_file():
        raise ConfigError(f"that study has not been run: {path} does not exist. Known runs: {_known()}")
    return path


def all_runs(outputs: Path = DEFAULT_OUTPUTS) -> list[Path]:
    """Every run directory below ``outputs``, the newest first."""
    plans = sorted(outputs.glob("*/*/plan.yaml"), key=lambda p: (p.stat().st_mtime, str(p)), reverse=True)
    return [p.parent for p in plans]


def _known() -> str:
    runs = all_runs()
    return (
        ", ".join(map(str, runs[:5])) + (" ..." if len(runs) > 5 else "") if runs else f"none below {DEFAULT_OUTPUTS}/"
    )


def _newest() -> Path:
    runs = all_runs()
    if not runs:
        raise ConfigError(
            f"there is no run below {DEFAULT_OUTPUTS}/ yet: start one, e.g. recurve-eval run experiment=demo"
        )
    return runs[0]
