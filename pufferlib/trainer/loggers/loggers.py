"""All loggers of a run as one, none of which can end the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pufferlib.exceptions import ConfigError, PufferError
from pufferlib.trainer.loggers.base import Logger, RunInfo, State
from pufferlib.trainer.loggers.metrics_file import MetricsFile
from pufferlib.trainer.loggers.mlflow import MlflowLogger
from pufferlib.trainer.loggers.tensorboard import TensorBoardLogger
from pufferlib.trainer.loggers.wandb import WandbLogger
from pufferlib.trainer.options import did_you_mean

NO_LOGGER = "none"
_KINDS: dict[str, Callable[[], Logger]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
    "mlflow": MlflowLogger,
}


class Loggers:
    """Hands everything to several loggers and survives what they raise.

    A logger that fails (a full disk, no network) is warned about once and goes on to be handed what
    follows: the disk may have space again. What it has missed is said at the end.

    Args:
        loggers: by the names that warnings have.
        warn: takes a line of text for the user.
    """

    def __init__(self, loggers: Mapping[str, Logger], warn: Callable[[str], None] = print) -> None:
        self._loggers = dict(loggers)
        self._warn = warn
        self._opened: list[str] = []
        self._logged = 0
        self._missed = dict.fromkeys(loggers, 0)

    def open(self, run: RunInfo) -> None:
        """Open all of them: nothing is lost yet, so that here a failure is an error.

        Raises:
            ConfigError: one cannot be opened; the message has its reason.
        """
        for name, logger in self._loggers.items():
            try:
                logger.open(run)
            except PufferError:
                raise
            except Exception as error:  # every library has its own
                raise ConfigError(
                    f"train.loggers: {name} cannot be opened: {_text(error)}"
                ) from error
            self._opened.append(name)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record `metrics` at the agent step `step`, where that is possible."""
        self._logged += 1
        for name in self._opened:
            try:
                self._loggers[name].log(metrics, step)
            except Exception as error:  # see above
                if not self._missed[name]:
                    self._warn(
                        f"{name}: cannot log at step {step:,}: {_text(error)}; training goes on"
                    )
                self._missed[name] += 1

    def close(self, state: State) -> None:
        """Close those that are open; calling it again does nothing."""
        while self._opened:
            name = self._opened.pop(0)
            if self._missed[name]:
                self._warn(f"{name}: {self._missed[name]} of {self._logged} points are missing")
            try:
                self._loggers[name].close(state)
            except Exception as error:  # see above
                self._warn(f"{name}: its last points may be missing: {_text(error)}")


def make_loggers(names: Iterable[str], warn: Callable[[str], None]) -> Loggers:
    """The run's own `metrics.jsonl`, and the loggers called `names`.

    Raises:
        ConfigError: a name is unknown.
        EnvironmentSetupError: the package of one is not installed.
    """
    loggers: dict[str, Logger] = {"metrics.jsonl": MetricsFile()}
    for name in names:
        if name == NO_LOGGER:
            continue
        if name not in _KINDS:
            known = [*_KINDS, NO_LOGGER]
            raise ConfigError(f"train.loggers: unknown logger '{name}'{did_you_mean(name, known)}")
        loggers[name] = _KINDS[name]()
    return Loggers(loggers, warn)


def _text(error: Exception) -> str:
    """The kind and the first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
