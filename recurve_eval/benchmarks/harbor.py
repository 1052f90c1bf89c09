"""Harbor: tasks of the Harbor (Terminal-Bench) format, one directory each, from a directory of yours.

The workspace holds the files that a task's Dockerfile copies to its working directory. The submission is
what differs from them. A fresh container of the task's image receives it there; only then are the tests
laid at ``/tests`` and ``tests/test.sh`` run, and the reward that it writes is the verdict. The canonical
solution is a program: it is run in a fresh container before the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from recurve_eval.benchmarks import pinned
from recurve_eval.benchmarks.common import find, set_hash
from recurve_eval.benchmarks.harbor_task import HarborTask, read_tasks
from recurve_eval.domain import (
    JSON,
    CaptureKind,
    CaptureSpec,
    ImagePlan,
    KnownBad,
    OracleJob,
    Reference,
    Solutions,
    Submission,
    Task,
    TreeFile,
    digest,
)  # fmt: skip
from recurve_eval.errors import ConfigError, Drift
from recurve_eval.leak import HeldOutScanner

SOLVE = "solve.sh"
REWARDS = ["/logs/verifier/reward.txt", "/logs/verifier/reward.json"]
LITTER = (".recurve/*", "*.pyc", "*__pycache__/*", "*.pytest_cache/*")


@dataclass
class Harbor:
    """Harbor tasks of one directory.

    Attributes
    ----------
    name : str
        The benchmark's name in plans and rows.
    path : str
        The directory whose sub-directories are the tasks.
    sha256 : str, optional
        Expected hash over every file of every task; ``None`` pins what is found.
    images : str, optional
        JSON of task ids and images by content; ``None`` takes ``images.json`` in ``path``.
    bases : mapping of str to str
        What stands for an image that a Dockerfile's FROM names: ``recipe:NAME``, or a local image.
    build_network : bool
        Whether the steps of a Dockerfile may reach a network when an image is built.
    python : str
        Interpreter of the task's image that supervises a grading.
    threshold : float
        Least reward, 0 to 1, that is a pass.
    max_file_bytes : int
        Largest captured file, bytes.
    """

    path: str
    name: str = "harbor"
    sha256: str | None = None
    images: str | None = field(default=None, metadata={"verdict": False})  # pinned by content
    bases: dict[str, str] = field(default_factory=dict, metadata={"verdict": False})  # so is what they give
    build_network: bool = field(default=False, metadata={"verdict": False})
    python: str = "python3"
    threshold: float = 1.0
    max_file_bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold <= 1.0:
            raise ConfigError(f"task.threshold is a reward above 0 and at most 1; got {self.threshold}")

    # -- the port --------------------------------------------------------------------------------

    def pins(self) -> Mapping[str, JSON]:
        images = {t: image for t, image in self._images.items() if t in self.tasks}
        return {
            "dataset_revision": f"{len(self.tasks)} Harbor tasks",
            "dataset_hash": digest({"tasks": set_hash(self.tasks), "images": images}),
        }

    def task_ids(self) -> Sequence[str]:
        return tuple(self.tasks)

    def task(self, task_id: str) -> Task:
        found = self._find(task_id)
        where = f"The directory that this calls {found.container.workdir} is your current directory.\n\n"
        return Task(
            id=task_id,
            statement=where + found.instruction,
            public=found.workspace,
            capture=CaptureSpec(kind=CaptureKind.DIFF, max_file_bytes=self.max_file_bytes, omit=LITTER),
        )

    def solutions(self, task_id: str) -> Solutions:
        program = self._find(task_id).part("solution")
        if SOLVE not in program:
            raise ConfigError(
                f"task {task_id} has no solution/{SOLVE}, so nothing shows that its verifier can pass: write one, or "
                "leave the task out (task.select)"
            )
        return Solutions(canonical=program, known_bad=(KnownBad("empty", {SOLVE: b""}),), program=SOLVE)

    def scanner(self, task_id: str) -> HeldOutScanner:
        found = self._find(task_id)
        held_out = {f"{part}/{p}": data for part in ("tests", "solution") for p, data in found.part(part).items()}
        return HeldOutScanner(held_out, {**found.workspace, "instruction.md": found.files["instruction.md"]})

    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob:
        found = self._find(task_id)
        params: dict[str, JSON] = {
            "root": found.container.workdir, "argv": found.program("/tests/test.sh"), "tests": "/tests",
            "rewards": REWARDS, "threshold": self.threshold, "env": found.env("verifier"), "python": self.python,
        }  # fmt: skip
        if isinstance(submission.source, Reference) and SOLVE in submission.contents:
            params |= {"solution": "/solution", "solve": found.program(f"/solution/{SOLVE}")}
            params["solve_env"] = found.env("solution")
        return OracleJob(
            task_id=task_id, submission=submission, held_out=found.part("tests"), convention="script", params=params,
            expected=("reward",), timeout_s=found.number("verifier", "timeout_sec", 600.0), image=self.image(task_id),
        )  # fmt: skip

    # -- images ----------------------------------------------------------------------------------

    def image(self, task_id: str) -> str:
        return pinned.image_of(self._find(task_id).id, self._images, self._images_file)

    def image_plan(self, task_id: str) -> ImagePlan:
        found = self._find(task_id)
        made = found.container
        context = {
            path: TreeFile(data, 0o755 if data.startswith(b"#!") else 0o644)
            for path, data in found.part("environment").items()
            if path != "Dockerfile"
        }
        return ImagePlan(
            name=task_id, base=self.bases.get(made.base, made.base), dockerfile=made.steps, context=context,
            network=self.build_network, pinned=self._images.get(task_id),
        )  # fmt: skip

    def pin_image(self, task_id: str, image_id: str) -> Path:
        self._find(task_id)
        self.__dict__.pop("_images", None)
        return pinned.write_image(self._images_file, task_id, image_id)

    # -- reading ---------------------------------------------------------------------------------

    def _find(self, task_id: str) -> HarborTask:
        return find(self.tasks, task_id, self.name)

    @cached_property
    def tasks(self) -> Mapping[str, HarborTask]:
        """Every task by its id. Raises ConfigError where one is malformed, Drift where the set is another one."""
        root = Path(self.path).expanduser()
        found = read_tasks(root)
        if self.sha256 is not None and set_hash(found) != self.sha256.lower():
            raise Drift(
                f"{root}: the tasks' hash is {set_hash(found)}, but {self.sha256} is pinned: restore the tasks, or pin "
                "these (task.sha256)"
            )
        return found

    @property
    def _images_file(self) -> Path:
        return Path(self.images).expanduser() if self.images else Path(self.path).expanduser() / "images.json"

    @cached_property
    def _images(self) -> dict[str, str]:
        return pinned.read_images(self._images_file)
