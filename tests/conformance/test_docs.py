"""What the documentation says of commands, options, fields and its own pages is held against the things themselves."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from recurve_eval import stats
from recurve_eval.resources import conf_dir

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
REFERENCE = REPOSITORY / "docs/reference"


def commands() -> Iterator[tuple[str, str]]:
    """Page and line of every command of ours in a block of shell."""
    for page in PAGES:
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if line.removeprefix("$ ").startswith("recurve-eval "):
                    yield page.name, line.removeprefix("$ ")


def rows(page: str) -> dict[str, str]:
    """The tables of a page: first cell to second."""
    found = re.findall(r"^\| (.+?) \| (.+?) \|", (REFERENCE / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {name.strip("`"): text for name, text in found}


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_the_overrides_of_a_command_can_be_read(page: str, line: str) -> None:
    words = shlex.split(re.sub(r"\$\w+|<TAB>", "x", line), comments=True)
    OverridesParser.create().parse_overrides([word for word in words if "=" in word and not word.startswith("-")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_pages_and_headings_that_are_there(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        plain = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
        assert not anchor or anchor in plain, link


@pytest.mark.parametrize(
    "group", ["task", "model", "agent", "sandbox", "budget", "controller", "prices", "oracle", "tracking", "analysis",
              "experiment"],
)  # fmt: skip
def test_every_option_of_a_group_is_named(group: str) -> None:
    assert {path.stem for path in (conf_dir() / group).glob("*.yaml")} <= set(
        re.findall(r"`([\w-]+)`", rows("configuration.md")[group])
    )


def test_every_field_of_a_row_is_named() -> None:
    schema = json.loads((REPOSITORY / "recurve_eval/schemas/row-1.json").read_text(encoding="utf-8"))
    named = rows("files.md")
    for group, node in schema["properties"].items():
        assert set(node["properties"]) == set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", named[group]))), group


def test_every_statistic_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", (REFERENCE / "statistics.md").read_text(encoding="utf-8")))
    public = {name for name in stats.__all__ if name[0].islower()} - {"is_defined"}
    assert public <= named
