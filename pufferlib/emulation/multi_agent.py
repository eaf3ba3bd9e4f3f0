"""One parallel PettingZoo environment with flat spaces and constant agents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gymnasium.spaces import Space
from numpy.typing import NDArray
from pettingzoo.utils.env import ParallelEnv

from pufferlib.buffers import Buffers
from pufferlib.emulation.base import API, EmulatedEnv
from pufferlib.emulation.common import Check, name_of
from pufferlib.emulation.multi_agent_rows import PettingZooRows
from pufferlib.emulation.ports import outer_space
from pufferlib.emulation.postprocessing import MakePostprocessor, PostprocessedParallelEnv
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError, InvalidAgentError, SpaceError
from pufferlib.wrappers import TeamEnv


class PettingZooPufferEnv(EmulatedEnv, ParallelEnv[Any, Any, Any]):
    """A parallel PettingZoo environment with flat spaces and a constant number of agents.

    Every call returns an entry for each of `possible_agents`, in that order; agents that are not
    in the game have zero observations and rewards, False flags, and `masks[agent]` False. The
    last row of an agent's life is delivered once, with its flag and mask True.

    Args, attributes and errors are those of `GymnasiumPufferEnv`, and:

    Args:
        teams: agents that act as one: see `pufferlib.wrappers.TeamEnv`.
        pad_agents: False: results have entries for the agents that are present, and `agents` are
            those; there are no rows for vectorization then.

    Attributes:
        possible_agents: all agents, fixed.
        num_agents: how many those are.
        masks: dict from agent to whether it was present in the last result.

    Raises:
        SpaceError: the agents' spaces differ; names the agents.
    """

    api = API(
        "parallel PettingZoo",
        "(observations, infos)",
        "(observations, rewards, terminations, truncations, infos)",
        "PettingZooTruncatedWrapper",
    )

    def __init__(
        self,
        env: Any = None,
        env_creator: Callable[..., Any] | None = None,
        env_args: Sequence[Any] = (),
        env_kwargs: Mapping[str, Any] | None = None,
        check: Check = "first",
        *,
        postprocessor: MakePostprocessor | None = None,
        teams: Mapping[Any, Sequence[Any]] | None = None,
        flatten_observations: bool = True,
        flatten_actions: bool = True,
        pad_agents: bool = True,
        suppress_output: bool = False,
    ) -> None:
        self._teams = teams
        self._pads = pad_agents
        super().__init__(
            env,
            env_creator,
            env_args,
            env_kwargs,
            check,
            postprocessor=postprocessor,
            flatten_observations=flatten_observations,
            flatten_actions=flatten_actions,
            suppress_output=suppress_output,
        )

    def _adapted(self, env: Any, postprocessor: MakePostprocessor | None) -> Any:
        if not getattr(env, "possible_agents", None):
            raise APIUsageError(f"{env}: expected a list of possible_agents, got none")
        if postprocessor is not None:
            env = PostprocessedParallelEnv(env, postprocessor)
        return env if self._teams is None else TeamEnv(env, self._teams)

    def _switched_off(self) -> list[str]:
        return super()._switched_off() + ([] if self._pads else ["pad_agents"])

    def _structured_spaces(self) -> tuple[Space[Any], Space[Any]]:
        self.possible_agents = list(self.env.possible_agents)
        return (
            _shared_space(self.env, "observation_space"),
            _shared_space(self.env, "action_space"),
        )

    @property
    def num_agents(self) -> int:  # type: ignore[override]
        """Rows per environment: the number of possible agents."""
        return len(self.possible_agents)

    @property
    def agents(self) -> list[Any]:
        """All possible agents (without padding: the present ones) while an episode runs."""
        if self._phase != "running":
            return []
        return list(self.possible_agents) if self._pads else self._rows.living()

    @property
    def masks(self) -> dict[Any, bool]:
        """Which agents were present in the last result."""
        if self._rows is None:
            return dict.fromkeys(self.possible_agents, False)
        return dict(zip(self.possible_agents, self._rows.buffers.masks.tolist(), strict=True))

    def observation_space(self, agent: Any) -> Space[Any]:
        """The flat observation space, the same for every agent."""
        self._require_known(agent)
        return outer_space(self.observation_plan)

    def action_space(self, agent: Any) -> Space[Any]:
        """The flat action space, the same for every agent."""
        self._require_known(agent)
        return outer_space(self.action_plan)

    def _require_known(self, agent: Any) -> None:
        if agent not in self.possible_agents:
            raise InvalidAgentError(agent, self.possible_agents)

    def _rows_in(self, buffers: Buffers) -> PettingZooRows:
        return PettingZooRows(self, buffers)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, NDArray[Any]], dict[Any, dict[str, Any]]]:
        """First observations and infos of all possible agents."""
        infos = self._begin(seed, options)
        agents = self._shown()
        return self._rows.observations(agents), _of_each(agents, infos)

    def step(
        self, actions: Mapping[Any, Any] | NDArray[Any]
    ) -> tuple[
        dict[Any, NDArray[Any]],
        dict[Any, float],
        dict[Any, bool],
        dict[Any, bool],
        dict[Any, dict[str, Any]],
    ]:
        """Act with a dict by agent, or an array with a row for each possible agent.

        Actions of absent agents are dropped; present agents need one.

        Raises:
            APIUsageError: before `reset` or after the episode's end, an action is missing, or the
                array has another number of rows.
            InvalidAgentError: an agent that is not among the possible ones.
            SpaceError: an action or observation does not fit its space.
        """
        rows = self._running_rows()
        rows.take_actions(actions)
        infos = rows.step(rows.buffers.actions)
        if rows.ended:
            self._phase = "ended"
        buffers, agents = rows.buffers, self._shown()
        rewards, terminals, truncations = (
            {agent: column[place] for agent, place in agents.items()}
            for column in (
                buffers.rewards.tolist(),
                buffers.terminals.tolist(),
                buffers.truncations.tolist(),
            )
        )
        return (rows.observations(agents), rewards, terminals, truncations, _of_each(agents, infos))

    def _shown(self) -> dict[Any, int]:
        """The agents that results have entries for, and their rows."""
        rows = self._rows
        if self._pads:
            return rows.places
        return {agent: i for agent, i in rows.places.items() if rows.buffers.masks[i]}


def _of_each(agents: Collection[Any], infos: Infos) -> dict[Any, dict[str, Any]]:
    given = infos[0] if infos else {}
    return {agent: given.get(agent, {}) for agent in agents}


def _shared_space(env: Any, name: str) -> Space[Any]:
    """The space that all agents share."""
    method = getattr(env, name)
    first, *others = env.possible_agents
    space = method(first)
    for agent in others:
        if method(agent) != space:
            raise SpaceError(
                f"{name_of(env)}.{name}: expected the same space for all agents, got {space} for "
                f"{first!r} and {method(agent)} for {agent!r}; wrap it in "
                "pufferlib.wrappers.PadAgentSpaces"
            )
    return space
