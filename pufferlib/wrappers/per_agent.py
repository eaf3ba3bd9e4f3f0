"""Gymnasium's wrappers for parallel PettingZoo environments: one around each agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo.utils import BaseParallelWrapper
from pettingzoo.utils.env import ParallelEnv

from pufferlib.exceptions import APIUsageError

Step = tuple[Any, Any, bool, bool, dict[str, Any]]


class AgentView(gymnasium.Env[Any, Any]):
    """One agent as the environment that a Gymnasium wrapper is put around.

    It gives out results that are set before, since all agents of the environment step at once.
    """

    def __init__(self, env: ParallelEnv[Any, Any, Any], agent: Any, number: int) -> None:
        self.env = env
        self.agent = agent
        self.number = number
        self.observation_space = env.observation_space(agent)
        self.action_space = env.action_space(agent)
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
        self.first: tuple[Any, dict[str, Any]] = (None, {})
        self.action: Any = None
        self.result: Step | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The agent's first observation and info; a wrapper's random numbers are its own."""
        if seed is not None:
            self.np_random = np.random.default_rng([seed, self.number])
        return self.first

    def step(self, action: Any) -> Step:
        """What the agent's `action` led to."""
        result, self.result = self.result, None
        if result is None:
            raise self.misfit("one step at a time", "more than one")
        if action is not self.action and not data_equivalence(action, self.action):
            raise self.misfit(f"the action that was taken, {self.action}", str(action))
        return result

    def misfit(self, expected: str, got: str) -> APIUsageError:
        """The error for a wrapper that would need an environment of the agent's own."""
        return APIUsageError(
            f"wrapper of agent {self.agent!r}: expected {expected}, got {got}; PerAgent takes "
            "wrappers that change observations, rewards, infos and spaces, and ActionWrappers that "
            "are not random: wrap the environment itself for anything else"
        )

    def render(self) -> Any:
        """What the environment's own `render` gives."""
        return self.env.render()


class PerAgent(BaseParallelWrapper[Any, Any, Any]):
    """A parallel environment whose agents are each seen through a Gymnasium wrapper.

        env = PerAgent(env, ClipReward, min_reward=-1.0, max_reward=1.0)
        env = PerAgent(env, FrameStackObservation, stack_size=4)

    Every agent has a wrapper of its own, which is reset when a life of the agent begins. An agent
    that leaves without a last observation keeps its last reward as it is.

    Args:
        env: a parallel environment with `possible_agents`.
        wrapper: class or function that puts one wrapper or several around a `gymnasium.Env`. They
            may change observations, rewards, infos and spaces, and actions by `ActionWrapper`.
        args, kwargs: follow the environment in the call of `wrapper`.

    Attributes:
        wrapped: the wrapper of each possible agent.

    Raises:
        APIUsageError: a wrapper skips or repeats steps, ends episodes, or takes other actions than
            those it was given (`MaxAndSkipObservation`, `TimeLimit`, `StickyAction`).
    """

    def __init__(
        self,
        env: ParallelEnv[Any, Any, Any],
        wrapper: Callable[..., gymnasium.Env[Any, Any]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(env)
        self._views = {
            agent: AgentView(env, agent, i) for i, agent in enumerate(env.possible_agents)
        }
        self.wrapped = {
            agent: wrapper(view, *args, **kwargs) for agent, view in self._views.items()
        }

    def observation_space(self, agent: Any) -> gymnasium.Space[Any]:
        """The space of the agent's observations as its wrapper has it."""
        return self.wrapped[agent].observation_space

    def action_space(self, agent: Any) -> gymnasium.Space[Any]:
        """The space of the agent's actions as its wrapper has it."""
        return self.wrapped[agent].action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """First observations and infos by agent."""
        observations, infos = self.env.reset(seed=seed, options=options)
        for agent in observations:
            self._begin(agent, observations, infos, seed)
        return observations, infos

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """Observations, rewards, terminals, truncations and infos by agent."""
        inner = {agent: _inner(self.wrapped[agent], action) for agent, action in actions.items()}
        results = self.env.step(inner)
        observations, rewards, terminals, truncations, infos = results
        for agent in observations:
            if agent not in actions:
                self._begin(agent, observations, infos)
                continue
            flags = bool(terminals.get(agent, False)), bool(truncations.get(agent, False))
            result = observations[agent], rewards.get(agent, 0.0), *flags, infos.get(agent, {})
            view = self._views[agent]
            view.action, view.result = inner[agent], result
            observations[agent], rewards[agent], *own, infos[agent] = self.wrapped[agent].step(
                actions[agent]
            )
            if view.result is not None or tuple(own) != flags:
                raise view.misfit(f"a step with the flags {flags}", f"none, or flags {tuple(own)}")
        return results

    def _begin(
        self,
        agent: Any,
        observations: dict[Any, Any],
        infos: dict[Any, Any],
        seed: int | None = None,
    ) -> None:
        self._views[agent].first = observations[agent], infos.get(agent, {})
        observations[agent], infos[agent] = self.wrapped[agent].reset(seed=seed)


def _inner(env: gymnasium.Env[Any, Any], action: Any) -> Any:
    """The action that reaches the environment within the wrappers `env`."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.ActionWrapper):
            action = env.action(action)
        env = env.env
    return action
