"""Adapters that bring environments of older or other APIs to Gymnasium and parallel PettingZoo."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo.utils.env import AECEnv, ParallelEnv

from pufferlib.exceptions import APIUsageError


def accepts(function: Callable[..., Any], argument: str) -> bool:
    """Whether `function` can be called with the keyword `argument`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature: let the call itself decide
        return True
    keywords = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return keywords or argument in parameters


def to_gymnasium_space(space: Any) -> spaces.Space[Any]:
    """A space of the old `gym` package as the Gymnasium space of the same name.

    Recognised by class name, so `gym` itself is not imported. Gymnasium spaces pass unchanged.

    Raises:
        APIUsageError: the space has no counterpart.
    """
    if isinstance(space, spaces.Space):
        return space
    kind = type(space).__name__
    if kind == "Discrete":
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "Box":
        return spaces.Box(space.low, space.high, tuple(map(int, space.shape)), space.dtype)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(space.nvec))
    if kind == "MultiBinary":
        return spaces.MultiBinary(space.n)
    if kind == "Dict":
        return spaces.Dict({key: to_gymnasium_space(s) for key, s in space.spaces.items()})
    if kind == "Tuple":
        return spaces.Tuple([to_gymnasium_space(s) for s in space.spaces])
    raise APIUsageError(f"expected a Gym or Gymnasium space, got {type(space)!r}: {space}")


class GymToGymnasium(gymnasium.Env[Any, Any]):
    """An environment of the old Gym API (0.21 and before) as a Gymnasium environment.

    `reset()` that returns only the observation, 4-tuples from `step`, `seed()` apart from `reset`
    and old `gym` spaces are adapted. The `TimeLimit.truncated` info becomes a truncation. An
    environment that cannot be seeded at all starts from its own stream, whatever the seed.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space = to_gymnasium_space(env.observation_space)
        self.action_space = to_gymnasium_space(env.action_space)
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
        self._reset_takes_seed = accepts(env.reset, "seed")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first observation; `options` go to the environment if it takes them."""
        super().reset(seed=seed)
        keywords: dict[str, Any] = {}
        if seed is not None:
            if self._reset_takes_seed:
                keywords["seed"] = seed
            elif hasattr(self.env, "seed"):
                self.env.seed(seed)
        if options is not None and accepts(self.env.reset, "options"):
            keywords["options"] = options
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
        return self.env.render()

    def close(self) -> None:
        """Close the environment if it can be closed."""
        if hasattr(self.env, "close"):
            self.env.close()


class PettingZooTruncatedWrapper(ParallelEnv[Any, Any, Any]):
    """A parallel environment of the old PettingZoo API, with `dones`, in today's API.

    4-tuples from `step` get an all-False `truncations`; `reset` that returns only observations
    gets empty infos. Environments of today's API pass unchanged.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.possible_agents = list(env.possible_agents)
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
        # Converted once: PettingZoo wants the same space object at every call.
        self._observation_spaces, self._action_spaces = (
            {
                agent: to_gymnasium_space(_space_of(env, name, agent))
                for agent in env.possible_agents
            }
            for name in ("observation_space", "action_space")
        )

    @property
    def agents(self) -> list[Any]:
        """The agents alive now."""
        return self.env.agents

    def observation_space(self, agent: Any) -> spaces.Space[Any]:
        """The space of `agent`'s observations."""
        return self._observation_spaces[agent]

    def action_space(self, agent: Any) -> spaces.Space[Any]:
        """The space of `agent`'s actions."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """First observations and infos by agent."""
        keywords: dict[str, Any] = {"seed": seed} if accepts(self.env.reset, "seed") else {}
        if not keywords and seed is not None and hasattr(self.env, "seed"):
            self.env.seed(seed)
        if options is not None and accepts(self.env.reset, "options"):
            keywords["options"] = options
        result = self.env.reset(**keywords)
        if isinstance(result, tuple):
            return result
        return result, {agent: {} for agent in result}

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """Observations, rewards, terminals, truncations and infos by agent."""
        result = self.env.step(actions)
        if len(result) == 5:
            return result
        observations, rewards, dones, infos = result
        dones = {agent: done for agent, done in dones.items() if agent != "__all__"}
        return observations, rewards, dones, dict.fromkeys(dones, False), infos

    def render(self) -> Any:
        """What the environment's own `render` gives."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _space_of(env: Any, name: str, agent: Any) -> Any:
    method = getattr(env, name, None)
    return method(agent) if callable(method) else getattr(env, f"{name}s")[agent]


def aec_to_parallel(env: AECEnv[Any, Any, Any]) -> ParallelEnv[Any, Any, Any]:
    """A turn-based PettingZoo environment as a parallel one, by PettingZoo's own conversion.

    Raises:
        APIUsageError: the environment does not say that its turns can be played in parallel.
    """
    from pettingzoo.utils.conversions import aec_to_parallel as convert

    if not env.metadata.get("is_parallelizable", False):
        raise APIUsageError(
            f"{env}: expected metadata['is_parallelizable'] to be True, got "
            f"{env.metadata.get('is_parallelizable')}; its agents act in turns that depend on each "
            "other, use pettingzoo.utils.turn_based_aec_to_parallel if you accept dummy actions"
        )
    return convert(env)
