"""Action masks that an environment gives in its infos."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary, MultiDiscrete
from numpy.typing import NDArray

from pufferlib.exceptions import APIUsageError, SpaceError

ACTION_MASK = "action_mask"


class ActionMaskFromInfo(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Moves the mask of the actions from the infos into the observations, where policies find it.

    The observations become a Dict: what they were as `observation`, the mask as `action_mask`,
    one element for each option of a Discrete or MultiDiscrete action space. An info may lack the
    mask, or have it as None, only where an episode ends. For several agents see `PerAgent`.

    Raises:
        SpaceError: the actions are neither Discrete nor MultiDiscrete.
        APIUsageError: an info has no mask, or one of another size.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, Discrete | MultiDiscrete):
            raise SpaceError(
                f"ActionMaskFromInfo: expected Discrete or MultiDiscrete actions, got {space}"
            )
        self.options = int(space.n if isinstance(space, Discrete) else space.nvec.sum())
        self.observation_space = Dict(
            {"observation": env.observation_space, ACTION_MASK: MultiBinary(self.options)}
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first observation with its mask, and the rest of the info."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._moved(observation, info, last=False)

    def step(self, action: Any) -> tuple[dict[str, Any], Any, bool, bool, dict[str, Any]]:
        """A step whose observation has a mask."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        masked, info = self._moved(observation, info, last=terminal or truncation)
        return masked, reward, terminal, truncation, info

    def _moved(
        self, observation: Any, info: dict[str, Any], last: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        rest = {key: value for key, value in info.items() if key != ACTION_MASK}
        mask = info.get(ACTION_MASK)
        if mask is None and last:
            mask = np.zeros(self.options, np.int8)
        return {"observation": observation, ACTION_MASK: self._flat(mask)}, rest

    def _flat(self, mask: Any) -> NDArray[np.int8]:
        parts = mask if isinstance(mask, tuple | list) else [mask]
        flat = np.concatenate([np.ravel(part) for part in parts])
        if flat.shape != (self.options,) or flat.dtype.kind not in "biuf":
            raise APIUsageError(
                f"{self.env}: expected info[{ACTION_MASK!r}] with {self.options} elements, one for "
                f"each option of the actions, got {mask!r:.200}"
            )
        return (flat != 0).astype(np.int8)
