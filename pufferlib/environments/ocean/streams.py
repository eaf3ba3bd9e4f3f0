"""Environments with a stream of random numbers of their own."""

from __future__ import annotations

from typing import Any, TypeVar

import gymnasium

from pufferlib.environments.ocean.splitmix import SplitMix64

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")


class StreamEnv(gymnasium.Env[ObsType, ActType]):
    """An environment that draws from SplitMix64, whose twin in C gives the same numbers."""

    _random: SplitMix64 | None = None

    def _draw_from(self, seed: int | None, options: dict[str, Any] | None) -> SplitMix64:
        """The stream to go on with: that of `seed`, else the last one, else an unknown one."""
        if seed is not None:
            super().reset(seed=seed, options=options)
            self._random = SplitMix64(seed)
        elif self._random is None:
            self._random = SplitMix64(int(self.np_random.integers(2**63)))
        return self._random
