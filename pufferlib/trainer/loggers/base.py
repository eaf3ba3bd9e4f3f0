"""The protocol of loggers, and what they are told about a run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from pufferlib.exceptions import EnvironmentSetupError

State = Literal["finished", "interrupted", "crashed"]
"""How a run has ended: to the end, by a signal, by an error."""


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """What a logger is told when it is opened.

    Attributes:
        directory: of the run; its name is the name of the run.
        config: everything that decides the run, nested, ready for JSON.
        first_step: 0, or the agent step that a resumed run goes on from. What was logged beyond it
            belongs to a part that the run has lost.
    """

    directory: Path
    config: Mapping[str, Any]
    first_step: int = 0


class Logger(Protocol):
    """Receives the numbers of a run. Every method may raise what it likes: `Loggers` catches it."""

    def open(self, run: RunInfo) -> None:
        """Begin, or go on with a run of the same name."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record `metrics` (slash-separated names) at the agent step `step`."""

    def close(self, state: State) -> None:
        """Write what is left. Called once, and only after `open`."""


def require_package(name: str, extra: str) -> Any:
    """The imported package of a logger.

    Raises:
        EnvironmentSetupError: it is not installed; the message has the line that installs it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EnvironmentSetupError(
            f"train.loggers: {extra} needs a package that cannot be imported ({error}); install "
            f"it: pip install 'pufferlib[{extra}]', or choose other loggers"
        ) from error
