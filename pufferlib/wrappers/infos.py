"""Infos whose means over an episode would say nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium


class NoInfo(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Drops the infos, for environments whose infos have no meaning as a mean over an episode.

    `EpisodeStats` would otherwise report such means, of frame counters for example.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        return self.env.reset(seed=seed, options=options)[0], {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        return *self.env.step(action)[:4], {}


class LastInfo(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Drops all infos but the last of an episode, of which it keeps some keys.

    For infos that say how far the episode has come: not their mean, the last one is its summary.

    Args:
        env: the environment.
        keys: what to keep of the last info; it has them all.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], keys: Iterable[str]) -> None:
        super().__init__(env)
        self._keys = tuple(keys)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        return self.env.reset(seed=seed, options=options)[0], {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        kept = {key: info[key] for key in self._keys} if terminal or truncation else {}
        return observation, reward, terminal, truncation, kept
