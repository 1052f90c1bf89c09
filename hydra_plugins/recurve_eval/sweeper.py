"""The sweeper: plans the study, and hands its pending cells to a launcher."""

from __future__ import annotations

from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict


class RecurveSweeper(Sweeper):
    """Composes each condition once, expands tasks itself, and freezes the plan before any cell.

    Parameters
    ----------
    params : mapping, optional
        Axes: override key to choices, as ``hydra.sweeper.params`` has them. The command line wins.
    """

    def __init__(self, params: Any = None) -> None:
        self.params = params
        self.launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config, self.hydra_context, self.task_function = config, hydra_context, task_function

    def sweep(self, arguments: list[str]) -> Any:
        from recurve_eval.compose import plain
        from recurve_eval.execute import conduct

        params = plain(self.params) if self.params else {}
        return conduct.from_command_line(arguments, params, self._launcher)

    def _launcher(self, run_dir: str) -> Launcher:
        """The configured launcher, its jobs' own files beside their cells."""
        assert self.config is not None and self.hydra_context is not None and self.task_function is not None
        with open_dict(self.config):
            self.config.hydra.sweep.dir = run_dir
            self.config.hydra.sweep.subdir = "cells/${cell_id}"
            quoted = run_dir.replace("\\", "\\\\").replace("'", "\\'")
            self.config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{quoted}'")
            self.config.hydra.overrides.hydra.append("hydra.sweep.subdir='cells/${cell_id}'")
        return Plugins.instance().instantiate_launcher(
            config=self.config, hydra_context=self.hydra_context, task_function=self.task_function
        )
