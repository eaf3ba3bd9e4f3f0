"""Environments of the old Gym API as Gymnasium environments."""

from __future__ import annotations

from typing import Any

import gymnasium

from pufferlib.wrappers.conversion import accepts, reset_keywords, to_gymnasium_space


class GymToGymnasium(gymnasium.Env[Any, Any]):
    """An environment of the old Gym API (0.21 and before) as a Gymnasium environment.

    `reset()` that returns only the observation, 4-tuples from `step`, `seed()` apart from `reset`
    and old `gym` spaces are adapted. The `TimeLimit.truncated` info becomes a truncation. An
    environment that cannot be seeded at all starts from its own stream, whatever the seed.

    Args:
        env: the environment.
        render_mode: of an environment that wants to hear it when it draws.
    """

    def __init__(self, env: Any, render_mode: str | None = None) -> None:
        self.env = env
        self.observation_space = to_gymnasium_space(env.observation_space)
        self.action_space = to_gymnasium_space(env.action_space)
        self.metadata = getattr(env, "metadata", None) or {}
        self.render_mode = render_mode or getattr(env, "render_mode", None)
        self._is_open = True
        self._reset_takes_seed = accepts(env.reset, "seed")
        inner = getattr(env, "unwrapped", env)  # wrappers take anything
        self._render_takes_mode = hasattr(inner, "render") and accepts(inner.render, "mode")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first observation and its info.

        Raises:
            APIUsageError: options are given, but the environment's `reset` takes none.
        """
        super().reset(seed=seed)
        keywords = reset_keywords(self.env.reset, seed, options)
        if seed is not None and not self._reset_takes_seed:
            del keywords["seed"]
            if hasattr(self.env, "seed"):
                self.env.seed(seed)
        self._is_open = True
        result = self.env.reset(**keywords)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        return result, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A Gymnasium 5-tuple."""
        result = self.env.step(action)
        if len(result) == 5:
            return result
        observation, reward, done, info = result
        truncated = bool(done and info.get("TimeLimit.truncated", False))
        return observation, float(reward), bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        """What the environment's own `render` gives."""
        if self._render_takes_mode and self.render_mode is not None:
            return self.env.render(mode=self.render_mode)
        return self.env.render()

    def close(self) -> None:
        """Close the environment if it can be closed; once, as some fail the second time."""
        if self._is_open and hasattr(self.env, "close"):
            self.env.close()
        self._is_open = False
