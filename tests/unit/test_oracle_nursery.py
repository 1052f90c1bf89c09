"""The process that forks: what it says when its children cannot live."""

import subprocess
import sys

import pytest

from recurve_eval.errors import ConfigError
from recurve_eval.oracle.process import ProcessOracle
from recurve_eval.resources import oracle_dir

# Each child is waited for until it is dead, so that none is found alive by chance.
_SCRIPT = """
import select, sys
sys.path.insert(0, sys.argv[1])
from runner import children, contain, nursery

def dies(line, keys):
    raise RuntimeError("cannot live")

nursery.Made.gone = lambda self: bool(select.select([self.process], [], [], 5)[0])
limits = {"file_mb": 1, "processes": 64}
place = children.Place("/nowhere", limits, contain.Means(None, False, False, False), None, [], 0)
made = nursery.Nursery(place, children.Role(0, dies), lambda: None)
try:
    made.child()
except contain.Leftover as error:
    print(error)
made.close()
"""


def test_children_that_always_die_are_given_up_with_their_last_words() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(oracle_dir())], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout == "20 children died while they waited: runner: RuntimeError: cannot live\n"


@pytest.mark.parametrize("base", [(1 << 32) - 1, (1 << 32) - 1500])
def test_user_ids_that_the_kernel_does_not_have_are_refused(base: int) -> None:
    with pytest.raises(ConfigError, match=r"oracle\.uid_base=\d+ leaves no room"):
        ProcessOracle(uid_base=base, concurrency=2)
