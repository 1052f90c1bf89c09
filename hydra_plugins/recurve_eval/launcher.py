"""The local launcher: cells on a pool of threads, sharing what their condition composed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class LocalLauncher(Launcher):
    """Takes whole cells instead of override lists, so nothing is composed a second time."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from recurve_eval.errors import ConfigError

        raise ConfigError("hydra/launcher=local runs cells and needs hydra/sweeper=recurve (the default)")

    def launch_cells(self, run: Any, watch: Callable[[], Any], say: Callable[[str], Any]) -> None:
        from recurve_eval.execute.local import run_pool

        run_pool(run, watch, say)
