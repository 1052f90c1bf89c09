"""Where the shipped data lies: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _data(name: str) -> Path:
    shipped = _PACKAGE / "_data" / name
    return shipped if shipped.is_dir() else _PACKAGE.parent / name


def conf_dir() -> Path:
    """The directory of the shipped Hydra config groups."""
    return _data("conf")


def oracle_dir() -> Path:
    """The directory of what runs inside the quarantine: runner, image recipes, exploits."""
    return _data("oracle")


def schema_path(name: str) -> Path:
    """A JSON Schema shipped with the package, such as ``row-1``."""
    return _PACKAGE / "schemas" / f"{name}.json"
