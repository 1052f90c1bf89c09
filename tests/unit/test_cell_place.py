"""A task is worked on in its own image where the sandbox is set so and the benchmark has one, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sandboxes import make

from recurve_eval.benchmarks.demo import DemoBenchmark
from recurve_eval.cell import Adapters, place_of

IMAGE = "sha256:" + "1" * 64


@dataclass
class Housed(DemoBenchmark):
    """The demonstration with an image for each task."""

    def image(self, task_id: str) -> str:
        return IMAGE if task_id == "flatten" else ""

    def image_plan(self, task_id: str) -> Any:
        raise NotImplementedError

    def pin_image(self, task_id: str, image_id: str) -> Path:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("benchmark", "sandbox", "own"),
    [
        (Housed(), make("sandbox", "docker", task_image=True), True),
        (Housed(), make("sandbox", "docker"), False),
        (DemoBenchmark(), make("sandbox", "docker", task_image=True), False),
        (Housed(), make("sandbox", "process"), False),
    ],
)
def test_a_tasks_own_image_is_used_where_it_is_asked_for(benchmark: Any, sandbox: Any, own: bool) -> None:
    parts = Adapters(benchmark, None, sandbox, (), None, None)  # type: ignore[arg-type]
    place: Any = place_of(parts, "flatten")
    assert (place is not sandbox) is own
    if own:
        assert place.image == IMAGE and place.offline().image == IMAGE
        assert place.network == sandbox.network
