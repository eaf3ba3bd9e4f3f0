"""Infos that say nothing."""

from __future__ import annotations

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
