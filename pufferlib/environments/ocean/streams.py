"""Environments with a stream of random numbers of their own."""

from __future__ import annotations

import secrets
from typing import Any, TypeVar

import gymnasium

from pufferlib.environments.ocean.splitmix import SplitMix64

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")


def continue_stream(stream: SplitMix64 | None, seed: int | None) -> SplitMix64:
    """The stream to go on with: that of `seed`, else the last one, else an unknown one."""
    if seed is not None:
        return SplitMix64(seed)
    return stream or SplitMix64(secrets.randbits(64))


class StreamEnv(gymnasium.Env[ObsType, ActType]):
    """An environment that draws from SplitMix64, whose twin in C gives the same numbers."""

    _random: SplitMix64 | None = None

    def _draw_from(self, seed: int | None, options: dict[str, Any] | None) -> SplitMix64:
        """The stream of a new episode; `reset` calls this with its arguments."""
        super().reset(seed=seed, options=options)
        self._random = continue_stream(self._random, seed)
        return self._random
