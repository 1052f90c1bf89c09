"""One cell's evidence as HTML: prompt, transcript, gate, submission as a diff, grade."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from recurve_eval.analysis.report.visible import bounded, excerpt, shown

CELL_ID = re.compile(r"[0-9a-f]{16}")
MOST_FILES = 40  # of one kind in one cell
MOST_LINES = 3000  # of a file that is compared line by line; the work grows with the square


def cell_html(cell_dir: Path) -> str:
    """The evidence that a cell's directory holds; says so where there is none."""
    if not CELL_ID.fullmatch(cell_dir.name) or not cell_dir.is_dir():
        return "<p>No evidence of this cell is kept here.</p>"
    parts = [*_texts("Prompt", cell_dir, "prompt*.md"), *_texts("Transcript", cell_dir, "transcript-*.txt")]
    parts += [
        *_gate(cell_dir),
        *_submission(cell_dir),
        *_grade(cell_dir),
        *_texts("Run record", cell_dir, "run-record-*"),
    ]
    parts += [*_texts("Trouble", cell_dir, "trouble.txt")]
    return "\n".join(parts) or "<p>The cell's directory is empty.</p>"


def _files(place: Path, pattern: str) -> Iterator[Path]:
    """Regular files, never through a link, in an order that does not depend on the file system."""
    found = sorted(place.glob(pattern), key=lambda p: [(len(w), w) for w in re.split(r"(\d+)", p.as_posix())])
    regular = [p for p in found if p.is_file() and not p.is_symlink()]
    yield from regular[:MOST_FILES]


def _section(title: str, body: str, open_: bool = True) -> str:
    return f"<details{' open' if open_ else ''}><summary>{title}</summary>{body}</details>"


def _pre(text: str) -> str:
    if not text:
        return "<p>(empty)</p>"
    return f'<pre tabindex="0">{shown(text)}</pre>'


def _texts(title: str, place: Path, pattern: str) -> Iterator[str]:
    paths = list(_files(place, pattern))
    for path in paths:
        name = f"{title}: {shown(path.name)}" if len(paths) > 1 else title
        yield _section(name, _pre(excerpt(path)), open_=title != "Run record")


def _gate(cell_dir: Path) -> Iterator[str]:
    for path in _files(cell_dir / "gate", "**/*"):
        found = _json(path) if path.suffix == ".json" else None
        if not isinstance(found, dict) or "verdict" not in found:
            yield _section(f"Gate: {shown(path.name)}", _pre(excerpt(path)), open_=False)
            continue
        binding = "binding" if found.get("binding", True) else "advisory"
        title = f"Gate: {shown(path.stem)}: {shown(str(found['verdict']))} ({binding})"
        told = f"<p>Told the agent:</p>{_pre(bounded(str(found['message'])))}" if found.get("message") else ""
        evidence = json.dumps(found.get("evidence", {}), indent=1, sort_keys=True, ensure_ascii=False)
        yield _section(title, told + _pre(bounded(evidence)))


def _submission(cell_dir: Path) -> Iterator[str]:
    statuses = _json(cell_dir / "submission.json")
    if isinstance(statuses, dict):
        yield _section("Submission", _table(statuses.get("files") or []))
    for path in _files(cell_dir / "submission", "**/*"):
        name = path.relative_to(cell_dir / "submission")
        before = cell_dir / "base" / name
        yield _section(f"Submitted: {shown(name.as_posix())}", _diff(before, path))


def _table(files: Iterable[Any]) -> str:
    rows = [[f.get("path"), f.get("status"), f.get("size")] for f in files if isinstance(f, dict)]
    cells = ("".join(f"<td>{shown('' if v is None else str(v))}</td>" for v in row) for row in rows[:MOST_FILES])
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><tr><th>path</th><th>status</th><th>bytes</th></tr>{body}</table>"


def _diff(before: Path, after: Path) -> str:
    """A unified diff against the task's own file where there was one, else the file as it was submitted."""
    new = excerpt(after)
    if not before.is_file() or before.is_symlink():
        return f"<p>A new file:</p>{_pre(new)}"
    old = excerpt(before)
    if old == new:
        return "<p>Unchanged: as the task gave it.</p>"
    if max(old.count("\n"), new.count("\n")) > MOST_LINES:
        return f"<p>Too long to compare here; as submitted:</p>{_pre(new)}"
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "as the task gave it", "as submitted", lineterm="")
    kinds = {"+": "ins", "-": "del", "@": "at"}
    marked = "".join(f'<span class="{kinds.get(line[:1], "same")}">{shown(line)}\n</span>' for line in lines)
    return f'<pre class="diff" tabindex="0">{marked}</pre>'


def _grade(cell_dir: Path) -> Iterator[str]:
    grade = _json(cell_dir / "grade.json")
    if not isinstance(grade, dict) or "verdict" not in grade:
        return
    reason = f" ({shown(str(grade['reason']))})" if grade.get("reason") else ""
    passed = f"{shown(str(grade.get('tests_passed')))} of {shown(str(grade.get('tests_total')))} tests passed"
    failed = [str(f) for f in grade.get("failed") or []]
    body = f"<p>{passed}</p>" + (f"<p>Failed:</p>{_pre(bounded(chr(10).join(failed)))}" if failed else "")
    for key in ("detail", "stdout", "stderr"):
        if grade.get(key):
            body += f"<p>{key}:</p>{_pre(bounded(str(grade[key])))}"
    yield _section(f"Grade: {shown(str(grade['verdict']))}{reason}", body)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8", errors="replace")) if not path.is_symlink() else None
    except (OSError, ValueError, RecursionError):
        return None
