"""Functions whose bodies were exchanged are told from those whose were not, without an audit event."""

import subprocess
import sys
from pathlib import Path

import pytest

RUNNER_HOME = Path(__file__).resolve().parents[2] / "oracle"
SCRIPT = """
import sys
sys.path.insert(0, {home!r})
from runner.bodies import Bodies

def kept(a=1): pass
def other(a=2): pass

bodies = Bodies([kept, other])
assert bodies._cells, "the layout of functions was not understood"
events = []
sys.addaudithook(lambda event, arguments: events.append(event))
assert bodies.rewritten() is None
assert events == [], events
setattr(other, {attribute!r}, {value})
assert bodies.rewritten() == "other", bodies.rewritten()
setattr(other, {attribute!r}, bodies._parts[1][{index}])
assert bodies.rewritten() is None
"""


@pytest.mark.parametrize(
    ("index", "attribute", "value"),
    [(0, "__code__", "kept.__code__"), (1, "__defaults__", "(3,)"), (1, "__defaults__", "None"),
     (2, "__kwdefaults__", "{'x': 1}")],
)  # fmt: skip
def test_an_exchanged_body_is_named(index: int, attribute: str, value: str) -> None:
    script = SCRIPT.format(home=str(RUNNER_HOME), index=index, attribute=attribute, value=value)
    ran = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
