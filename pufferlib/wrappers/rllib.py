"""Environments of RLlib's multi-agent API as parallel PettingZoo environments."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Space
from pettingzoo.utils.env import ParallelEnv

from pufferlib.ends import ALL, flags_of
from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers.conversion import reset_keywords


class RLlibToPettingZoo(ParallelEnv[Any, Any, Any]):
    """An RLlib `MultiAgentEnv` as a parallel environment; RLlib itself is not imported.

    The flags of `__all__` become the flags of the agents that have none of their own. An agent is
    in the game from its first observation to its flag. Agents must act at every step: one that is
    in the game but was shown nothing, as in games of turns, is refused by emulation.

    Args:
        env: has `possible_agents`, and `observation_spaces` and `action_spaces` by agent or
            `get_observation_space(agent)` and `get_action_space(agent)`.

    Raises:
        APIUsageError: it has no `possible_agents`.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.possible_agents = list(getattr(env, "possible_agents", None) or ())
        if not self.possible_agents:
            raise APIUsageError(f"{env}: expected a list of possible_agents, got none; set it")
        self.agents: list[Any] = []
        # Asked for once: PettingZoo wants the same space object at every call.
        self._observation_spaces, self._action_spaces = (
            {agent: _space_of(env, name, agent) for agent in self.possible_agents}
            for name in ("observation_space", "action_space")
        )
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)

    def observation_space(self, agent: Any) -> Space[Any]:
        """The space of `agent`'s observations."""
        return self._observation_spaces[agent]

    def action_space(self, agent: Any) -> Space[Any]:
        """The space of `agent`'s actions."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """First observations and infos by agent."""
        observations, infos = self.env.reset(**reset_keywords(self.env.reset, seed, options))
        self.agents = self._sorted(observations)
        return observations, self._infos(self.agents, infos)

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """Observations, rewards, terminals, truncations and infos, without `__all__`."""
        acted = self.agents
        observations, rewards, terminals, truncations, infos = self.env.step(actions)
        flags = {agent: flags_of(agent, terminals, truncations) for agent in acted}
        staying = [agent for agent in acted if not any(flags[agent])]
        over = terminals.get(ALL) or truncations.get(ALL)
        self.agents = [] if over else self._sorted([*staying, *(observations.keys() - flags)])
        return (
            observations,
            {agent: rewards.get(agent, 0.0) for agent in acted},
            {agent: terminal for agent, (terminal, _) in flags.items()},
            {agent: truncated for agent, (_, truncated) in flags.items()},
            self._infos(dict.fromkeys([*acted, *self.agents]), infos),
        )

    def _sorted(self, agents: Any) -> list[Any]:
        return [agent for agent in self.possible_agents if agent in agents]

    def _infos(self, agents: Any, infos: dict[Any, Any]) -> dict[Any, Any]:
        return {agent: infos.get(agent, {}) for agent in agents}

    def render(self) -> Any:
        """What the environment's own `render` gives."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment, if it can be closed."""
        if hasattr(self.env, "close"):
            self.env.close()


def _space_of(env: Any, name: str, agent: Any) -> Space[Any]:
    by_agent = getattr(env, f"{name}s", None)
    return by_agent[agent] if by_agent else getattr(env, f"get_{name}")(agent)
