"""The page: headline, figures, tables, and the cells with their evidence, inside it or in files beside it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recurve_eval.analysis.format import Data, Labels
from recurve_eval.analysis.markdown import headline
from recurve_eval.analysis.records import Record
from recurve_eval.analysis.report.evidence import CELL_ID, cell_html
from recurve_eval.analysis.report.visible import plain_text

MOST_INLINE = 2000  # cells whose evidence the page itself may hold
INLINE_BYTES = 12 << 20  # of evidence that it may hold
MOST_DETAILED = 10_000  # cells whose evidence is written out; a larger study links to the cells' directories
DETAILS = "report-cells"
_HERE = Path(__file__).parent


def write_report(
    path: Path,
    data: Data,
    records: Sequence[Record],
    markdown: str,
    figures: Sequence[Path],
    cells: Path | None,
) -> None:
    """Write report.html and, for a larger study, ``report-cells/`` beside it.

    Parameters
    ----------
    path : Path
        Of the page; figures lie below its directory.
    data, markdown : mapping, str
        Of summary.json and summary.md.
    records : sequence of Record
    figures : sequence of Path
        Drawn SVG files.
    cells : Path, optional
        The run's ``cells`` directory; without one the page has no evidence.
    """
    _clear(path.parent / DETAILS)
    details, how = _details(path, records, cells)
    screen = headline(markdown)
    rest = markdown[len(screen) :]
    parts = {
        "title": html.escape(plain_text(f"{data['study']['name']}: who shipped more bad work")),
        "headline": _markdown(screen),
        "figures": "".join(_figure(f) for f in figures),
        "rest": _markdown(rest),
        "table": _json({"how": how, "columns": _columns(data), "rows": [*_rows(records, data, how, path, cells)]}),
        "details": details,
        "style": (_HERE / "page.css").read_text(encoding="utf-8"),
        "script": (_HERE / "page.js").read_text(encoding="utf-8"),
    }
    path.write_bytes(_filled((_HERE / "page.html").read_text(encoding="utf-8"), parts).encode("utf-8", "replace"))


def _filled(template: str, parts: Mapping[str, str]) -> str:
    policy = {"style_hash": _sha256(parts["style"]), "script_hash": _sha256(parts["script"])}
    out = []
    for piece in template.split("{{"):
        name, mark, text = piece.partition("}}")
        out.append({**parts, **policy}[name] + text if mark else piece)
    return "".join(out)


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _markdown(text: str) -> str:
    """HTML of our own Markdown; raw HTML in it stays text, images are left to the page's figures."""
    from markdown_it import MarkdownIt

    lines = [line for line in plain_text_lines(text) if not line.startswith("![") and line != "## Figures"]
    rendered: str = (
        MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link"]).render("\n".join(lines))
    )
    return rendered.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")


def plain_text_lines(text: str) -> Iterator[str]:
    """Lines without what cannot be shown."""
    return (plain_text(line) for line in text.split("\n"))


def _figure(path: Path) -> str:
    name = html.escape(path.stem.replace("_", " "))
    packed = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="{name}" src="data:image/svg+xml;base64,{packed}"></figure>\n'


def _json(value: Any) -> str:
    """JSON that no HTML parser can mistake for markup."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _columns(data: Data) -> list[str]:
    facts = ("arm", "seed", "outcome", "verdict", "stopped by", "gate", "rejections", "tests", "tokens", "dollars")
    return ["task", *Labels(data["study"]).varying, *facts, "wall-clock, s"]


def _rows(records: Sequence[Record], data: Data, how: str, path: Path, cells: Path | None) -> Iterator[list[Any]]:
    """One list a cell: its values under the columns, then its id and, where evidence lies elsewhere, its address."""
    labels = Labels(data["study"])
    up = _relative(path, cells)
    for r in records:
        values = [r.task.task_id, *labels.shown(r.stratum._asdict()), r.arm, r.seed, r.outcome.replace("_", " ")]
        values += [r.verdict + (f" ({r.reason})" if r.reason else ""), r.stop_reason, r.gate_outcome, r.rejections]
        values += [f"{r.tests_passed}/{r.tests_total}", r.tokens, r.cost_usd, r.wall_s]
        where = f"{up}/{r.cell_id}/" if how == "directory" else _detail_name(r.cell_id)
        yield [*(plain_text(v) if isinstance(v, str) else v for v in values), plain_text(r.cell_id), where]


def _relative(path: Path, cells: Path | None) -> str:
    if cells is None:
        return ""
    return "../cells" if cells.resolve() == path.parent.resolve().parent / "cells" else cells.resolve().as_uri()


def _detail_name(cell_id: str) -> str:
    return f"{DETAILS}/{cell_id[:2]}/{cell_id}.html" if CELL_ID.fullmatch(cell_id) else ""


def _details(path: Path, records: Sequence[Record], cells: Path | None) -> tuple[str, str]:
    """The evidence that goes into the page, and where it is: ``inline``, ``file``, ``directory`` or ``none``."""
    if cells is None or not cells.is_dir():
        return "", "none"
    if len(records) > MOST_DETAILED:
        return "", "directory"
    ids = [r.cell_id for r in records if CELL_ID.fullmatch(r.cell_id)]
    if len(records) <= MOST_INLINE:
        found, size = [], 0
        for cell_id in ids:
            found.append(f'<template id="d-{cell_id}">{cell_html(cells / cell_id)}</template>\n')
            size += len(found[-1])
            if size > INLINE_BYTES:
                break
        else:
            return "".join(found), "inline"
    _write_details(path.parent, ids, cells)
    return "", "file"


def _write_details(directory: Path, ids: Iterable[str], cells: Path) -> None:
    template = (_HERE / "cell.html").read_text(encoding="utf-8")
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    for cell_id in ids:
        parts = {"title": cell_id, "style": style, "details": cell_html(cells / cell_id), "script": ""}
        target = directory / _detail_name(cell_id)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_filled(template, parts).encode("utf-8", "replace"))


def _clear(directory: Path) -> None:
    """Remove an earlier report's files, and nothing else."""
    for file in directory.glob("*/*.html"):
        file.unlink()
