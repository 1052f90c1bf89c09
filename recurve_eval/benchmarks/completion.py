"""Tasks that complete a function of a prompt: what the prompt gives before it, and how that precedes a submission."""

from __future__ import annotations

import re

from recurve_eval.domain import Submission

SOLUTION = "solution.py"
SUBMITTED = "submitted_solution.py"  # where the captured bytes stand when the given part must precede them

# Imports nothing: what it needed would be imported anew in each grading.
_LOADER = """
with open(__file__.rpartition("/")[0] + "/{name}", "rb") as _file:
    exec(compile(_file.read(), "solution.py", "exec", dont_inherit=True))
"""


def defines(prompt: str, entry_point: str) -> bool:
    """Whether the prompt begins the function itself."""
    return re.search(rf"^def {re.escape(entry_point)}\(", prompt, re.MULTILINE) is not None


def given_part(prompt: str, entry_point: str) -> str:
    """What the prompt holds before the function to complete: imports and helpers, or nothing."""
    start = re.search(rf"^def {re.escape(entry_point)}\(", prompt, re.MULTILINE)
    return prompt[: start.start()].strip("\n") if start is not None else ""


def composed(given: str, submission: Submission) -> dict[str, bytes]:
    """The given part followed by the captured bytes, as two files beside the submission."""
    captured = submission.contents.get(SOLUTION)
    if captured is None or not given:
        return {}
    return {SOLUTION: (given + "\n" + _LOADER.format(name=SUBMITTED)).encode(), SUBMITTED: captured}
