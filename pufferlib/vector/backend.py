"""What each backend has to define; the calls that users make are built on it in `base`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.vector.group import Infos

# Seconds that environments get to close before their process is killed; after a failure, when
# somebody waits for the error, fewer.
CLOSE_TIMEOUT = 5.0
FAILURE_TIMEOUT = 1.0

Creator = Callable[[], Any]


class Backend(ABC):
    """Runs environments in batches, without checks of order or arguments."""

    @abstractmethod
    def _start_reset(
        self, seeds: list[int | None], base: Any, options: dict[str, Any] | None
    ) -> None:
        """Drop what is in flight and begin to reset; `base` is what `seeds` came from."""

    @abstractmethod
    def _start_step(self, actions: NDArray[Any]) -> None:
        """Begin to step the environments of the last batch."""

    @abstractmethod
    def _receive(self) -> tuple[Buffers, Infos, NDArray[np.int64]]:
        """Wait for the next batch: its rows, infos and agent indices."""

    @abstractmethod
    def _on_env(self, index: int, verb: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """`verb`, a method of `EnvGroup`, on environment `index`, wherever it is."""

    @abstractmethod
    def _rows_of_all(self) -> Buffers:
        """The buffers of all environments."""

    @abstractmethod
    def _first_of_workers(self) -> Sequence[int]:
        """The index of each worker process's first environment."""

    @abstractmethod
    def _drop_pending(self) -> None:
        """Finish what is in flight and drop its results."""

    @abstractmethod
    def _deliver_again(self) -> None:
        """Let the rows, as they are, be the next result, where one batch has all environments."""

    @abstractmethod
    def _close(self, timeout: float) -> None:
        """Free everything."""
