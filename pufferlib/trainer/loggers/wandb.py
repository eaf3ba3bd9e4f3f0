"""Weights & Biases (extra `wandb`)."""

from __future__ import annotations

from collections.abc import Mapping

from pufferlib.trainer.loggers.base import RunInfo, State, require_package

PROJECT = "pufferlib"
_EXIT_CODES: dict[State, int] = {"finished": 0, "interrupted": 130, "crashed": 1}


class WandbLogger:
    """Logs to Weights & Biases, as its own environment variables say.

    `WANDB_MODE=offline` writes into the directory of the run instead, for `wandb sync` later;
    `WANDB_PROJECT` and `WANDB_ENTITY` say where to. A resumed run goes on under its name.
    """

    def __init__(self) -> None:
        self._wandb = require_package("wandb", "wandb")

    def open(self, run: RunInfo) -> None:
        """Begin the run whose id and name are those of the directory."""
        settings = self._wandb.Settings(
            console="off", quiet=True
        )  # the terminal is the dashboard's
        name = run.directory.name
        self._run = self._wandb.init(
            project=self._wandb.setup().settings.project or PROJECT,
            dir=run.directory,
            id=name,
            name=name,
            resume="allow",
            config=dict(run.config),
            settings=settings,
        )
        # W&B's own count of steps only grows; a resumed run goes back to its checkpoint.
        self._run.define_metric("*", step_metric="step")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Hand a row over to W&B's own process."""
        self._run.log({**metrics, "step": step})

    def close(self, state: State) -> None:
        """Wait until everything is written or sent."""
        self._run.finish(exit_code=_EXIT_CODES[state])
