"""``recurve-eval oracle build oracle=instance task=NAME``: the images of single tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from recurve_eval.errors import EXIT_DONE, Refused


def build_tasks(overrides: Sequence[str], own: str | None, place: Path | None, repin: bool) -> int:
    """Build the images of the selected tasks. Raises Refused where the benchmark's tasks have none of their own."""
    from recurve_eval import app
    from recurve_eval.oracle.taskimage import build_task
    from recurve_eval.plan import select_tasks
    from recurve_eval.ports import Imaged

    with app.initialised(own):
        node = app.compose(overrides)["task"]
        benchmark = app.instantiate(node)
    if not isinstance(benchmark, Imaged):
        raise Refused(f"the tasks of {node['name']} have no images of their own; build oracle=NAME of a recipe")
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
    for task_id in select_tasks(list(benchmark.task_ids()), node.get("select", "all")):
        plan = benchmark.image_plan(task_id)
        with tempfile.TemporaryDirectory(prefix="recurve-image-", dir=place) as work:
            identity = build_task(plan, work=Path(work), progress=say, repin=repin)
        if identity == plan.pinned:
            say(f"{task_id}: {identity} is the pinned image")
        else:
            say(f"{task_id}: pinned as {identity} in {benchmark.pin_image(task_id, identity)}")
    return EXIT_DONE


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201
