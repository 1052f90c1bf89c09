"""SWE-bench: issues of real repositories, judged by the repository's own tests.

Source: Jimenez et al., "SWE-bench: Can Language Models Resolve Real-World GitHub Issues?", arXiv:2310.06770.
Rows are those of SWE-bench Lite or Verified; repositories are local clones.

The workspace is the tree at ``base_commit`` in a new repository of one commit, so that nothing later than
the issue exists in it: no commit, tag, reflog or packed object. The submission is what differs from that
tree, test files left out. It is graded in a fresh container of the instance's own image by the test files
of the dataset's test patch, whole, against FAIL_TO_PASS and PASS_TO_PASS.
"""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from recurve_eval.benchmarks import loading
from recurve_eval.benchmarks.common import find
from recurve_eval.benchmarks.pinned import image_of, read_images, write_image
from recurve_eval.benchmarks.swebench_env import Setting, Settings, read_settings
from recurve_eval.benchmarks.swebench_repo import Tree, applied, clone_of, tree_of
from recurve_eval.benchmarks.swebench_rows import Instance, added, row_of, statement_of, test_files
from recurve_eval.domain import (
    JSON,
    CaptureKind,
    CaptureSpec,
    ImagePlan,
    KnownBad,
    OracleJob,
    Solutions,
    Submission,
    Task,
    TreeFile,
    digest,
)  # fmt: skip
from recurve_eval.errors import ConfigError, Drift
from recurve_eval.leak import HeldOutScanner
from recurve_eval.resources import oracle_dir

FILE = "swebench/lite_sample.jsonl"
SHA256 = "63339196d7c5fc0166912d70eeb9ef48912f7516d0a616a7818f9bad12f16812"
TESTS = (
    "test/*", "tests/*", "*/test/*", "*/tests/*", "test_*.py", "*/test_*.py", "*_test.py", "conftest.py",
    "*/conftest.py",
)  # fmt: skip
LITTER = (".recurve/*", "*.pyc", "*__pycache__/*", "*.pytest_cache/*", "*.egg-info/*", "*.orig", "*.rej")


@dataclass
class SweBench:
    """SWE-bench instances whose repositories lie on this machine.

    Attributes
    ----------
    name : str
        The benchmark's name in plans and rows.
    path : str, optional
        Rows as JSONL or JSONL.gz. ``None`` takes ``$RECURVE_DATA/swebench/lite_sample.jsonl``.
    sha256 : str, optional
        SHA-256 (hex) of the decompressed rows; ``None`` accepts any.
    count : int, optional
        How many rows there are; ``None`` accepts any number.
    revision : str
        What this version of the dataset is called in rows.
    repos : str, optional
        Directory of local clones: OWNER__NAME, OWNER/NAME or NAME. ``None`` takes ``$RECURVE_REPOS``.
    settings : str, optional
        How repositories are built and tested; ``None`` takes the shipped oracle/swebench/settings.yaml.
    images : str, optional
        JSON of instance ids and images by content; ``None`` takes the shipped oracle/swebench/images.json.
    hints : bool
        Whether the statement carries the dataset's hints (comments on the issue from before the fix).
    timeout_s : float
        Wall-clock seconds for one run of an instance's test files.
    max_file_bytes : int
        Largest captured file, bytes.
    """

    name: str = "swebench"
    path: str | None = field(default=None, metadata={"verdict": False})  # the content is pinned by its hash
    sha256: str | None = SHA256
    count: int | None = 5
    revision: str = "SWE-bench Lite, five instances"
    repos: str | None = field(default=None, metadata={"verdict": False})  # commits name their own content
    settings: str | None = field(default=None, metadata={"verdict": False})  # pinned by content, as are the images
    images: str | None = field(default=None, metadata={"verdict": False})
    hints: bool = False
    timeout_s: float = 900.0
    max_file_bytes: int = 1024 * 1024

    # -- the port --------------------------------------------------------------------------------

    def pins(self) -> Mapping[str, JSON]:
        known = self.instances
        settings = {i: _plain(self._setting(row)) for i, row in known.items() if self._has_setting(row)}
        facts = {
            "rows": self._content_hash,
            "settings": settings,
            "images": {i: image for i, image in self._images.items() if i in known},
            "hints": self.hints,
        }
        return {"dataset_revision": self.revision, "dataset_hash": digest(facts)}

    def task_ids(self) -> Sequence[str]:
        return tuple(self.instances)

    def task(self, task_id: str) -> Task:
        row = self._find(task_id)
        return Task(
            id=task_id,
            statement=statement_of(row, self.hints),
            public=self._tree(row),
            capture=CaptureSpec(
                kind=CaptureKind.DIFF, max_file_bytes=self.max_file_bytes, omit=(*LITTER, *self._tests(row))
            ),
        )

    def solutions(self, task_id: str) -> Solutions:
        row = self._find(task_id)
        tree = self._tree(row)
        gold, _ = applied(tree, row.patch, f"{task_id}: the gold patch")
        untouched = tree.only(sorted(gold)) or tree.only(sorted(tree)[:1])
        return Solutions(canonical=gold, known_bad=(KnownBad("empty", untouched),))

    def scanner(self, task_id: str) -> HeldOutScanner:
        """What the two patches add is held out; the files that they change are public as they were."""
        row = self._find(task_id)
        held_out = {"gold.patch": added(row.patch), "test.patch": added(row.test_patch)}
        return HeldOutScanner(held_out, self._tree(row))

    def oracle_job(self, task_id: str, submission: Submission) -> OracleJob:
        row = self._find(task_id)
        setting, tree = self._setting(row), self._tree(row)
        held_out, removed = applied(tree, row.test_patch, f"{task_id}: the test patch")
        captured = {f.path for f in submission.files}
        sent = {path: tree[path] for path in tree if path not in captured} if setting.tree == "sent" else {}
        return OracleJob(
            task_id=task_id,
            submission=submission,
            held_out=held_out,
            convention="suite",
            params={
                "root": setting.root, "python": setting.python, "runner": setting.runner, "command": setting.command,
                "strip": setting.strip, "env": setting.env, "removed": list(removed),
                "files": test_files(row, held_out),
            },
            expected=row.expected,
            support={path: content for path, content in sent.items() if path not in held_out},
            timeout_s=self.timeout_s,
            image=self.image(task_id),
        )  # fmt: skip

    # -- images ----------------------------------------------------------------------------------

    def image(self, task_id: str) -> str:
        return image_of(self._find(task_id).instance_id, self._images, self._images_file)

    def image_plan(self, task_id: str) -> ImagePlan:
        row = self._find(task_id)
        setting = self._setting(row)
        context: dict[str, TreeFile] = {}
        lines = []
        if setting.tree == "image":
            context = {f"testbed/{path}": file for path, file in self._tree(row).files().items()}
            lines.append(f"COPY testbed {setting.root}")
        variables = "".join(f"export {k}={json.dumps(v)}; " for k, v in sorted(setting.build_env.items()))
        lines += [f"RUN set -e; cd {setting.root}; {variables}{step}" for step in setting.install]
        return ImagePlan(
            name=task_id, base=setting.base, dockerfile="\n".join([*lines, ""]), context=context,
            requirements=tuple(setting.requirements), pinned=self._images.get(task_id),
        )  # fmt: skip

    def pin_image(self, task_id: str, image_id: str) -> Path:
        self._find(task_id)
        self.__dict__.pop("_images", None)
        return write_image(self._images_file, task_id, image_id)

    # -- reading ---------------------------------------------------------------------------------

    def _find(self, task_id: str) -> Instance:
        return find(self.instances, task_id, self.name)

    @cached_property
    def instances(self) -> Mapping[str, Instance]:
        """Every row by its id. Raises ConfigError on a malformed dataset, Drift on another one."""
        found: dict[str, Instance] = {}
        for line, record in loading.records(self._content, str(self._source)):
            row = row_of(record, str(self._source), line)
            if row.instance_id in found:
                raise ConfigError(f"{self._source}, line {line}: instance_id '{row.instance_id}' stands there twice")
            found[row.instance_id] = row
        if self.count is not None and len(found) != self.count:
            raise Drift(f"{self._source} has {len(found)} instances, task.count pins {self.count}")
        return found

    def _tree(self, row: Instance) -> Tree:
        root = self.repos or os.environ.get("RECURVE_REPOS")
        if not root:
            raise ConfigError(
                f"task {row.instance_id}: the clone of {row.repo} is not on this machine as far as is known: set "
                "task.repos (or RECURVE_REPOS) to a directory of clones"
            )
        key = (row.repo, row.base_commit)
        if key not in self._trees:
            self._trees[key] = tree_of(clone_of(Path(root).expanduser(), row.repo), row.base_commit)
        return self._trees[key]

    @cached_property
    def _trees(self) -> dict[tuple[str, str], Tree]:
        return {}

    def _tests(self, row: Instance) -> tuple[str, ...]:
        """Globs of what counts as a test file; one that would hide a file of the gold patch does not count."""
        globs = (*TESTS, *(self._setting(row).tests if self._has_setting(row) else ()))
        gold = [line[6:] for line in row.patch.splitlines() if line.startswith(("--- a/", "+++ b/"))]
        return tuple(glob for glob in globs if not any(fnmatch.fnmatchcase(path, glob) for path in gold))

    @cached_property
    def _settings(self) -> Settings:
        path = Path(self.settings).expanduser() if self.settings else oracle_dir() / "swebench" / "settings.yaml"
        return read_settings(path)

    def _setting(self, row: Instance) -> Setting:
        return self._settings.of(row.instance_id, row.repo, row.version)

    def _has_setting(self, row: Instance) -> bool:
        return self._settings.knows(row.instance_id, row.repo, row.version)

    @property
    def _images_file(self) -> Path:
        return Path(self.images).expanduser() if self.images else oracle_dir() / "swebench" / "images.json"

    @cached_property
    def _images(self) -> dict[str, str]:
        return read_images(self._images_file)

    @cached_property
    def _source(self) -> Path:
        if self.path:
            return Path(self.path).expanduser()
        local = loading.data_file(FILE)
        if local is None:
            raise ConfigError(
                "the SWE-bench rows are not on this machine: set task.path to a JSONL of rows (with task.sha256, "
                f"task.count and task.revision), or RECURVE_DATA to a directory that holds {FILE}"
            )
        return local

    @cached_property
    def _content(self) -> bytes:
        content = loading.read_content(self._source)
        loading.check_hash(
            content, self.sha256, str(self._source),
            f"Replace {self._source} by the pinned file, or pin this one (task.sha256, task.count, task.revision)",
        )  # fmt: skip
        return content

    @cached_property
    def _content_hash(self) -> str:
        return loading.check_hash(self._content, None, str(self._source), "")


def _plain(setting: Setting) -> JSON:
    return {name: getattr(setting, name) for name in Setting.__slots__}
