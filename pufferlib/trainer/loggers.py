"""Where the curves of a run go: one small protocol and its implementations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from pufferlib.exceptions import ConfigError
from pufferlib.trainer.options import did_you_mean


class Logger(Protocol):
    """Receives the numbers of every update."""

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Record `metrics` (slash-separated names) at the agent step `step`."""

    def close(self) -> None:
        """Write what is buffered; calling it again does nothing."""


class NoLogger:
    """Keeps nothing."""

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Ignore the metrics."""

    def close(self) -> None:
        """Do nothing."""


class TensorBoardLogger:
    """Writes TensorBoard event files into `directory`; entries that are no numbers are skipped."""

    def __init__(self, directory: str | Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(directory))

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Write one scalar per numeric entry."""
        for name, value in metrics.items():
            if isinstance(value, (int, float)):
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


_LOGGERS: dict[str, Callable[[str | Path], Logger]] = {
    "tensorboard": TensorBoardLogger,
    "none": lambda directory: NoLogger(),
}


def make_logger(name: str, directory: str | Path) -> Logger:
    """The logger called `name` ('tensorboard' or 'none'), writing into `directory`."""
    if name not in _LOGGERS:
        raise ConfigError(f"train.logger: unknown logger '{name}'{did_you_mean(name, _LOGGERS)}")
    return _LOGGERS[name](directory)
