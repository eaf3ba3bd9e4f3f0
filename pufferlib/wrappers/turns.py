"""Games in which agents take turns, as parallel ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space
from pettingzoo.utils.env import AECEnv, ParallelEnv

from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers.conversion import reset_keywords
from pufferlib.wrappers.masks import ACTION_MASK

WAIT = 0


class TurnsToParallel(ParallelEnv[Any, Any, Any]):
    """A turn-based PettingZoo environment whose agents all observe and act at every step.

    A step is one turn: only the action of the agent whose turn it is counts. Those who wait are
    allowed action 0 alone, so that a policy that obeys the mask learns nothing from waiting.

    Args:
        env: of PettingZoo's AEC interface; its observations are a Dict with `action_mask`, as in
            PettingZoo's classic games.

    Raises:
        APIUsageError: the observations have no mask.
    """

    def __init__(self, env: AECEnv[Any, Any, Any]) -> None:
        self.env = env
        self.possible_agents = list(env.possible_agents)
        self.agents: list[Any] = []
        self.metadata = env.metadata
        self.render_mode = getattr(env, "render_mode", None)
        for agent in self.possible_agents:
            space = self.observation_space(agent)
            if not isinstance(space, Dict) or ACTION_MASK not in space.spaces:
                raise APIUsageError(
                    f"{env}: expected observations with the key {ACTION_MASK!r}, got {space} for "
                    f"{agent!r}; without a mask, agents would learn from turns they do not have"
                )

    def observation_space(self, agent: Any) -> Space[Any]:
        """The space of `agent`'s observations."""
        return self.env.observation_space(agent)

    def action_space(self, agent: Any) -> Space[Any]:
        """The space of `agent`'s actions."""
        return self.env.action_space(agent)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, dict[str, Any]]]:
        """First observations and infos by agent."""
        self.env.reset(**reset_keywords(self.env.reset, seed, options))
        self.agents = list(self.env.agents)
        return self._seen_by(self.agents), self._infos(self.agents)

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """One turn: observations, rewards, terminals, truncations and infos by agent."""
        env, agents = self.env, self.agents
        env.step(actions[env.agent_selection])
        rewards = {agent: float(env.rewards[agent]) for agent in agents}
        terminals = {agent: bool(env.terminations[agent]) for agent in agents}
        truncations = {agent: bool(env.truncations[agent]) for agent in agents}
        infos = self._infos(agents)
        leaving = [agent for agent in agents if terminals[agent] or truncations[agent]]
        observations = self._seen_by(leaving)  # before they are taken away
        self._take_away_the_dead()
        self.agents = list(env.agents)
        return observations | self._seen_by(self.agents), rewards, terminals, truncations, infos

    def render(self) -> Any:
        """What the environment's own `render` gives."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _take_away_the_dead(self) -> None:
        """PettingZoo gives each agent that is dead a turn in which it has to do nothing."""
        env = self.env
        while env.agents and (
            env.terminations[env.agent_selection] or env.truncations[env.agent_selection]
        ):
            env.step(None)

    def _seen_by(self, agents: list[Any]) -> dict[Any, dict[str, Any]]:
        seen = {agent: dict(self.env.observe(agent)) for agent in agents}
        for agent, observation in seen.items():
            if agent != self.env.agent_selection:
                mask = np.zeros_like(observation[ACTION_MASK])
                mask[WAIT] = 1
                observation[ACTION_MASK] = mask
        return seen

    def _infos(self, agents: list[Any]) -> dict[Any, dict[str, Any]]:
        return {agent: self.env.infos[agent] for agent in agents}
