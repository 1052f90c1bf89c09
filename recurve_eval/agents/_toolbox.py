"""Runs inside a sandbox, handed to its interpreter as text: an agent's tools, and one interpreter that remembers.

Requests are JSON lines on stdin, answers JSON lines on stdout after a marker. What the tools print is captured.
It needs the standard library alone, because a task's image brings its own interpreter (3.8 or newer).
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import traceback
from typing import Any

LIMIT = 20000  # characters of one answer
SPACE: dict[str, Any] = {"__name__": "__main__"}


def python_eval(code: str) -> str:
    """Statements, then the value of a last expression, in a namespace that lasts."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            tree = ast.parse(code)
            last = tree.body[-1] if tree.body else None
            shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
            tree.body = tree.body[:-1] if shown is not None else tree.body
            exec(compile(tree, "<agent>", "exec"), SPACE)
            value = eval(compile(shown, "<agent>", "eval"), SPACE) if shown is not None else None
            if value is not None:
                out.write(f"{value!r}\n")
        except BaseException:  # noqa: BLE001 - whatever an agent's code raises is its answer
            traceback.print_exc()
    return out.getvalue()


def shell(command: str, timeout_s: float = 120) -> str:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=float(timeout_s), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return (error.output or b"").decode("utf-8", "replace") + "\n[timed out]"
    return done.stdout.decode("utf-8", "replace") + (f"\n[exit {done.returncode}]" if done.returncode else "")


def read_file(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read(LIMIT + 1)


def write_file(path: str, content: str) -> str:
    parent = os.path.dirname(path)  # noqa: PTH120
    if parent:
        os.makedirs(parent, exist_ok=True)  # noqa: PTH103
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(content)
    return f"wrote {len(content)} characters to {path}"


def answer(wanted: dict[str, Any]) -> str:
    tools: dict[str, Any] = {f.__name__: f for f in (python_eval, shell, read_file, write_file)}
    try:
        text = str(tools[wanted["tool"]](**wanted["arguments"]))
    except Exception as error:  # noqa: BLE001 - a mistaken call is told to the model
        text = f"{type(error).__name__}: {error}"
    if len(text) <= LIMIT:
        return text
    half = LIMIT // 2
    return f"{text[:half]}\n[... {len(text) - LIMIT} characters left out ...]\n{text[-half:]}"


def main(marker: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    for line in requests:
        wanted = json.loads(line)
        answers.write("\n" + marker + json.dumps({"id": wanted["id"], "text": answer(wanted)}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
