"""Hooks that featurize observations and shape rewards, in the form of the environment's API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
from gymnasium.spaces import Space
from pettingzoo.utils import BaseParallelWrapper

from pufferlib.ends import flags_of
from pufferlib.wrappers.conversion import reset_keywords


class Transition(NamedTuple):
    """One step of one agent, as the environment gave it.

    Attributes:
        observation: what followed; None for an agent that left without a last one.
        action: what the agent did, in the environment's own action space.
        step: of the episode, from 1.
    """

    observation: Any
    action: Any
    reward: float
    terminal: bool
    truncation: bool
    info: dict[str, Any]
    step: int


class Postprocessor:
    """Featurizes the observations and shapes the rewards of one agent; subclass it.

    There is one object per agent, so it may keep what it needs from one step to the next.

    Args:
        env: the environment, before emulation.
        agent: its name, or None in a Gymnasium environment.

    Attributes:
        observation_space: of what `features` returns; the environment's own unless a subclass
            sets another. It is flattened, and its samples are checked, like any environment's.
    """

    observation_space: Space[Any]

    def __init__(self, env: Any, agent: Any = None) -> None:
        self.env = env
        self.agent = agent
        space = env.observation_space
        self.observation_space = space if agent is None else space(agent)

    def reset(self) -> None:
        """An episode begins; called before its first `features`."""

    def features(self, observation: Any, step: int) -> Any:
        """What the policy sees of `observation`, the one after `step` steps of the episode."""
        return observation

    def reward(self, transition: Transition) -> float:
        """What the policy is paid; called before the `features` of the same observation."""
        return transition.reward


MakePostprocessor = Callable[..., Postprocessor]


class PostprocessedEnv(gymnasium.Env[Any, Any]):
    """A Gymnasium environment seen through a postprocessor."""

    def __init__(self, env: Any, make: MakePostprocessor) -> None:
        self.env = env
        self.postprocessor = make(env)
        self.observation_space = self.postprocessor.observation_space
        self.action_space = env.action_space
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
        self._clock = 0

    @property
    def unwrapped(self) -> Any:
        """The innermost environment."""
        return getattr(self.env, "unwrapped", self.env)

    # A result that is not of the API is refused further out.
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """The first features and the environment's info."""
        result = self.env.reset(**reset_keywords(self.env.reset, seed, options))
        if not (isinstance(result, tuple) and len(result) == 2):
            return result
        self._clock = 0
        self.postprocessor.reset()
        return self.postprocessor.features(result[0], 0), result[1]

    def step(self, action: Any) -> Any:
        """The features and the shaped reward, the rest as it is."""
        result = self.env.step(action)
        if not (isinstance(result, tuple) and len(result) == 5):
            return result
        self._clock += 1
        observation, reward, terminal, truncation, info = result
        transition = Transition(
            observation, action, reward, terminal, truncation, info, self._clock
        )
        reward = self.postprocessor.reward(transition)
        features = self.postprocessor.features(observation, self._clock)
        return features, reward, terminal, truncation, info

    def render(self) -> Any:
        """What the environment's own `render` gives."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment, if it can be closed."""
        if hasattr(self.env, "close"):
            self.env.close()


class PostprocessedParallelEnv(BaseParallelWrapper[Any, Any, Any]):
    """A parallel environment seen through one postprocessor per agent."""

    def __init__(self, env: Any, make: MakePostprocessor) -> None:
        super().__init__(env)
        self.postprocessors = {agent: make(env, agent) for agent in env.possible_agents}
        self._clocks: dict[Any, int] = {}

    def observation_space(self, agent: Any) -> Space[Any]:
        """The space of the features of `agent`."""
        return self.postprocessors[agent].observation_space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """The first features and the environment's infos."""
        result = self.env.reset(**reset_keywords(self.env.reset, seed, options))
        if not (isinstance(result, tuple) and len(result) == 2):
            return result
        self._clocks.clear()
        return {agent: self._see(agent, seen) for agent, seen in result[0].items()}, result[1]

    def step(self, actions: dict[Any, Any]) -> Any:
        """The features and the shaped rewards, the rest as it is."""
        result = self.env.step(actions)
        if not (isinstance(result, tuple) and len(result) == 5):
            return result
        observations, rewards, terminals, truncations, infos = result
        self._clocks = {agent: self._clocks.get(agent, 0) + 1 for agent in actions}
        shaped = {}
        for agent, action in actions.items():
            transition = Transition(
                observations.get(agent),
                action,
                rewards.get(agent, 0.0),
                *flags_of(agent, terminals, truncations),
                infos.get(agent, {}),
                self._clocks[agent],
            )
            shaped[agent] = self.postprocessors[agent].reward(transition)
        features = {agent: self._see(agent, seen) for agent, seen in observations.items()}
        return features, shaped, terminals, truncations, infos

    def _see(self, agent: Any, observation: Any) -> Any:
        """The features of an observation, which may be the first of a life."""
        if agent not in self._clocks:
            self._clocks[agent] = 0
            self.postprocessors[agent].reset()
        return self.postprocessors[agent].features(observation, self._clocks[agent])
