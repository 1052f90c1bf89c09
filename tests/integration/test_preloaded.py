"""The libraries that a benchmark has imported for its gradings are part of the oracle environment."""

from pathlib import Path

import pytest

from recurve_eval.app import _Maker
from recurve_eval.benchmarks.bigcodebench import BigCodeBench
from recurve_eval.errors import OracleError
from recurve_eval.oracle.process import ProcessOracle


def oracle(place: Path, version: str) -> ProcessOracle:
    place.mkdir()
    (place / "shapes.py").write_text(f"__version__ = '{version}'\n")
    return ProcessOracle(paths=[str(place)], concurrency=1)


def test_another_version_of_a_preloaded_library_is_another_environment(tmp_path: Path) -> None:
    old, new = oracle(tmp_path / "a", "1.0"), oracle(tmp_path / "b", "2.0")
    with_it, without = BigCodeBench(preload=["shapes"]), BigCodeBench()
    maker = _Maker()
    assert maker.env_of(old, with_it).facts["preloaded"] == {"shapes": "1.0"}
    assert maker.env_of(new, with_it).hash != maker.env_of(old, with_it).hash
    assert maker.env_of(new, without).hash == maker.env_of(old, without).hash


def test_a_library_that_the_oracle_lacks_is_named_before_anything_is_graded(tmp_path: Path) -> None:
    lacking = oracle(tmp_path / "a", "1.0")
    with pytest.raises(OracleError, match=r"No module named 'absent'; .*task\.preload"):
        _Maker().env_of(lacking, BigCodeBench(preload=["absent"]))
