"""Names that were bound anew are told from those that were not."""

import subprocess
import sys
from pathlib import Path

import pytest

RUNNER_HOME = Path(__file__).resolve().parents[2] / "oracle"
SCRIPT = """
import sys, types
sys.path.insert(0, {home!r})
from runner.bindings import Bindings
from runner.memory import Cells

module = types.ModuleType("module")
class Class:
    def method(self): pass
module.function, old = Class.method, Class.method
bindings = Bindings([(module, dict(vars(module))), (Class, {{"method": Class.method}})])
assert bindings._states or sys.version_info >= (3, 13), "the layout of dictionaries was not understood"
if {slow}:
    bindings._states = Cells([], None)
assert bindings.changed() is None
{change}
assert bindings.changed() == {named!r}, bindings.changed()
{back}
assert bindings.changed() is None
module.another = 1
assert bindings.changed() is None, "no name that was watched"
"""
MODULE, CLASS = "module.function", "Class.method"


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("named", "change"),
    [(MODULE, "module.function = len"), (MODULE, "del module.function"), (MODULE, "vars(module).clear(); module.__name__ = 'module'"),
     (MODULE, "vars(module).update(function=print)"), (CLASS, "Class.method = print"), (CLASS, "del Class.method")],
)  # fmt: skip
def test_a_name_bound_anew_is_named(slow: bool, named: str, change: str) -> None:
    back = f"{named} = old" if "clear" not in change else f"{named} = old; vars(module).update(bindings._places[0][1])"
    script = SCRIPT.format(home=str(RUNNER_HOME), slow=slow, change=change, named=named, back=back)
    ran = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


STILL = """
import sys, types
sys.path.insert(0, {home!r})
from runner.bindings import Bindings

module = types.ModuleType("module")
module.function = len
bindings = Bindings([(module, dict(vars(module)))], still=True)
assert bindings.changed() is None
module.function = print
assert bindings.changed() == "module.function"
module.function = len
assert bindings.changed() == ("a name of module" if bindings._states else None)
"""


def test_where_nothing_is_ever_bound_what_was_put_back_is_seen() -> None:
    script = STILL.format(home=str(RUNNER_HOME))
    ran = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
