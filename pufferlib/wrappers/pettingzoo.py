"""Environments of other PettingZoo APIs as parallel environments of today's."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from pettingzoo.utils.env import AECEnv, ParallelEnv

from pufferlib.ends import ALL
from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers.conversion import accepts, to_gymnasium_space


class PettingZooTruncatedWrapper(ParallelEnv[Any, Any, Any]):
    """A parallel environment of the old PettingZoo API, with `dones`, in today's API.

    4-tuples from `step` get an all-False `truncations`, and a done `__all__` is everyone's;
    `reset` that returns only observations gets empty infos. Environments of today's API pass
    unchanged.
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
        """First observations and infos by agent.

        `options` go to the environment if it takes them, else nowhere: PettingZoo's own test wants
        unknown ones to pass.
        """
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
        over = bool(dones.get(ALL, False))
        agents = [*actions, *(agent for agent in dones if agent not in (*actions, ALL))]
        dones = {agent: over or bool(dones.get(agent, False)) for agent in agents}
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
            "other; if its observations have masks, use pufferlib.wrappers.TurnsToParallel"
        )
    return convert(env)
