"""The native contract: an environment that writes its own rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.exceptions import APIUsageError
from pufferlib.spaces import row_layout

Infos = list[dict[str, Any]]


class PufferEnv(ABC):
    """Base class of environments that step `num_agents` agents at once, in place.

    A subclass sets `single_observation_space`, `single_action_space` (flat spaces, discrete
    actions counted from 0) and `num_agents` and then calls `super().__init__()`. Its `reset` and
    `step` write the bound arrays (`self.observations`, `self.rewards`, …; shapes in
    `pufferlib.buffers.Buffers`) and return a list of info dicts, empty when there is nothing to
    tell. It resets itself when an episode ends:

    * `NEXT_STEP` (the default): the step after a terminal or truncated row ignores its action and
      writes the first row of the next episode with reward 0 and both flags False.
    * `SAME_STEP`: the ending step already writes the next episode's first observation beside the
      flags, and the episode's last observation to `self.final_observations` when it truncates.

    `masks` starts as all True; an environment with a varying number of agents writes it.

    A subclass may have `get_state()` and `set_state(state)`, as `pufferlib.snapshot` says: training
    that is resumed from a checkpoint then goes on in the middle of an episode. The rows are no
    part of the state; the owner of the buffers keeps them.

    Raises:
        APIUsageError: an attribute of the contract is missing or has an impossible value.
    """

    single_observation_space: Space[Any]
    single_action_space: Space[Any]
    num_agents: int
    autoreset_mode = AutoresetMode.NEXT_STEP
    emulated = None
    metadata: ClassVar[dict[str, Any]] = {}
    """As Gymnasium's: with `render_fps`, the steps a second that a viewer should show."""

    observations: NDArray[Any]
    actions: NDArray[Any]
    rewards: NDArray[np.float32]
    terminals: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    masks: NDArray[np.bool_]
    final_observations: NDArray[Any] | None

    def __init__(self) -> None:
        check_contract(self)
        final = self.autoreset_mode == AutoresetMode.SAME_STEP
        self.bind(
            Buffers.allocate(
                self.single_observation_space, self.single_action_space, self.num_agents, final
            )
        )

    def bind(self, buffers: Buffers) -> PufferEnv:
        """Write to `buffers` from now on; returns the object that steps them (here: itself)."""
        for name, array in zip(Buffers.__slots__, buffers.arrays(), strict=True):
            setattr(self, name, array)
        self.masks[:] = True
        return self

    @abstractmethod
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Write the first rows of new episodes; `seed` None continues the random stream."""

    @abstractmethod
    def step(self, actions: NDArray[Any]) -> Infos:
        """Act with `actions` `(num_agents, *action_shape)` and write the rows that follow."""

    def render(self) -> Any:
        """What the environment looks like now: text, an RGB array, or None."""
        return None

    def close(self) -> None:  # noqa: B027 - optional: most environments hold nothing
        """Free what the environment holds."""


def check_contract(env: Any) -> None:
    """Raise unless the attributes that every environment of the native contract has are right.

    Raises:
        APIUsageError: one is missing or has an impossible value.
        SpaceError: a space is not flat.
    """
    for name in ("single_observation_space", "single_action_space", "num_agents"):
        if not hasattr(env, name):
            raise APIUsageError(
                f"{type(env).__name__} must set self.{name} before super().__init__()"
            )
    row_layout(env.single_observation_space)
    row_layout(env.single_action_space)
    if not isinstance(env.num_agents, int) or env.num_agents < 1:
        raise APIUsageError(
            f"{type(env).__name__}.num_agents: expected an int of at least 1, got "
            f"{env.num_agents!r}"
        )
    space = env.single_action_space
    start = space.start if isinstance(space, Discrete | MultiDiscrete) else 0
    if np.any(np.asarray(start) != 0):
        raise APIUsageError(
            f"{type(env).__name__}.single_action_space: expected choices counted from 0, got "
            f"{space}; add the start inside step()"
        )
