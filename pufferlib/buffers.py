"""The flat rows that environments write and policies read: the only data below emulation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from pufferlib.spaces import row_layout

# Fields start on cache lines, so that two processes never write to the same one by accident.
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Buffers:
    """One row per agent in each array.

    Attributes:
        observations: `(N, *observation_shape)` in the observation space's dtype.
        actions: `(N, *action_shape)` in the action space's dtype.
        rewards: float32 `(N,)`.
        terminals: bool `(N,)`, the row is the last of its episode by the task's own rules.
        truncations: bool `(N,)`, the row is the last of its episode by a limit from outside.
        masks: bool `(N,)`, the row's observation belongs to a live agent.
        final_observations: like `observations`; only for environments that reset in the same
            step and so overwrite the last observation of an episode, else None.
    """

    observations: NDArray[Any]
    actions: NDArray[Any]
    rewards: NDArray[np.float32]
    terminals: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    masks: NDArray[np.bool_]
    final_observations: NDArray[Any] | None = None

    @classmethod
    def allocate(
        cls,
        observation_space: Space[Any],
        action_space: Space[Any],
        num_agents: int,
        final: bool = False,
    ) -> Buffers:
        """Zeroed buffers in private memory.

        Raises:
            SpaceError: a space is not flat.
        """
        layout = Layout(observation_space, action_space, num_agents, final)
        return layout.map(np.zeros(layout.nbytes, np.uint8))

    def view(self, start: int, stop: int) -> Buffers:
        """The rows `start … stop - 1` of every array, without a copy."""
        return Buffers(*(None if a is None else a[start:stop] for a in self.arrays()))  # type: ignore[arg-type]

    def arrays(self) -> Iterator[NDArray[Any] | None]:
        """The arrays in the order of the fields."""
        return (getattr(self, name) for name in self.__slots__)

    def write(self, rows: Buffers) -> None:
        """Overwrite all rows with those of another `Buffers` of the same shapes and dtypes."""
        for target, source in zip(self.arrays(), rows.arrays(), strict=True):
            if target is not None and source is not None:
                target[...] = source

    def poison(self) -> None:
        """Fill the rows with values that no environment writes, so that a forgotten one shows."""
        for array in self.arrays():
            if array is None:
                continue
            if array.dtype == np.bool_:
                array.fill(True)
            else:
                array.view(np.uint8).fill(0x5A)
        self.rewards.fill(np.nan)


class Layout:
    """Where each array of a `Buffers` lies within one block of bytes.

    The block may be private or shared memory; `map` makes the arrays on it.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        num_agents: int,
        final: bool = False,
    ) -> None:
        observation, action = row_layout(observation_space), row_layout(action_space)
        flag = ((), np.dtype(np.bool_))
        rows = [observation, action, ((), np.dtype(np.float32)), flag, flag, flag]
        if final:
            rows.append(observation)
        self._fields = []
        self.nbytes = 0
        for shape, dtype in rows:
            self._fields.append((self.nbytes, (num_agents, *shape), dtype))
            size = num_agents * math.prod(shape) * dtype.itemsize
            self.nbytes += -(-size // ALIGNMENT) * ALIGNMENT

    def map(self, block: Any) -> Buffers:
        """Arrays over `block`, any writable buffer of at least `nbytes` bytes."""
        arrays = (
            np.ndarray(shape, dtype, buffer=block, offset=offset)
            for offset, shape, dtype in self._fields
        )
        return Buffers(*arrays)
