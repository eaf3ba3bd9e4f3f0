"""One parallel PettingZoo environment as a flat row for each possible agent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from pettingzoo.utils.env import ParallelEnv

from pufferlib.buffers import Buffers
from pufferlib.emulation.base import API, EmulatedEnv, Rows
from pufferlib.emulation.common import Check, name_of
from pufferlib.emulation.ports import action_port, observation_port, outer_space
from pufferlib.emulation.postprocessing import MakePostprocessor, PostprocessedParallelEnv
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError, InvalidAgentError, SpaceError
from pufferlib.wrappers import TeamEnv
from pufferlib.wrappers.conversion import ALL


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


class Places(dict[Any, int]):
    """The row of each possible agent; looking up another one is an InvalidAgentError."""

    def __missing__(self, agent: Any) -> int:
        raise InvalidAgentError(agent, list(self))


class PettingZooRows(Rows):
    """A row per possible agent."""

    def __init__(self, env: PettingZooPufferEnv, buffers: Buffers) -> None:
        super().__init__(env, buffers)
        self.places = Places({agent: i for i, agent in enumerate(env.possible_agents)})
        rows = [buffers.observations[i, ...] for i in self.places.values()]
        self._observations = [observation_port(env.observation_plan, row) for row in rows]
        self._writers = [port.put for port in self._observations]
        self._mask_checkers = [self._mask_checker(row) for row in rows]
        self._acting = [
            action_port(env.action_plan, buffers.actions[i, ...], f"action of {agent!r}")
            for agent, i in self.places.items()
        ]
        self._readers = [port.get for port in self._acting]
        # Flagged as ended but still listed by the environment: absent until it takes them away.
        self._lingering: set[Any] = set()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Write the first rows of an episode."""
        observations, infos = self._reset_env(seed, options)
        self._lingering.clear()
        self._clear_outcomes()
        agents = self.env.env.agents
        self._write(observations, agents)
        self.ended = not agents
        self._reset_checked()
        return _some(infos)

    def step(self, actions: NDArray[Any]) -> Infos:
        """Write the rows that follow `actions`, or the first of a new episode."""
        if self.ended:
            return self.reset()
        if actions is not self._actions:
            self._actions[...] = actions
        env = self.env.env
        given = self._actions_of(env.agents)
        result = self._env_step(given)
        try:
            observations, rewards, terminals, truncations, infos = result
        except (TypeError, ValueError):
            raise self._bad_step(result) from None
        after = set(env.agents)
        living = [agent for agent in given if agent not in self._lingering]
        self._clear_outcomes()
        for agent in living:
            self.buffers.rewards[self.places[agent]] = rewards.get(agent, 0.0)
        leaving = self._write_flags(living, after, terminals, truncations)
        spawned = [agent for agent in env.agents if agent not in given]
        self._write(observations, living + spawned, leaving)
        self._lingering = (self._lingering | leaving) & after
        self.ended = not after - self._lingering
        self._step_checked()
        return _some(infos)

    def living(self) -> list[Any]:
        """The agents in the game whose life is not over."""
        return [agent for agent in self.env.env.agents if agent not in self._lingering]

    def get_place(self) -> dict[str, Any]:
        """As of any emulated environment, and which lives are over."""
        return super().get_place() | {"lingering": self._lingering}

    def set_place(self, place: dict[str, Any]) -> None:
        """The inverse of `get_place`."""
        super().set_place(place)
        self._lingering = place["lingering"]

    def _actions_of(self, agents: Sequence[Any]) -> dict[Any, Any]:
        index, readers = self.places, self._readers
        if self._checking:
            for agent in agents:
                self._acting[index[agent]].check()
        return {agent: readers[index[agent]]() for agent in agents}

    def _clear_outcomes(self) -> None:
        buffers = self.buffers
        buffers.rewards.fill(0)
        buffers.terminals.fill(False)
        buffers.truncations.fill(False)

    def _write_flags(
        self,
        living: Sequence[Any],
        after: Collection[Any],
        terminals: Mapping[Any, bool],
        truncations: Mapping[Any, bool],
    ) -> set[Any]:
        """Write the flags of the agents whose life ends, and return these agents.

        Flags of `__all__` hold for whoever has none. One that the environment takes away without a
        flag has come to its end by the task's rules.
        """
        buffers = self.buffers
        leaving = set()
        everyone = terminals.get(ALL, False), truncations.get(ALL, False)
        for agent in living:
            terminal, truncated = terminals.get(agent, False), truncations.get(agent, False)
            if not (terminal or truncated):
                terminal, truncated = everyone
            terminal = terminal or (agent not in after and not truncated)
            if terminal or truncated:
                i = self.places[agent]
                buffers.terminals[i], buffers.truncations[i] = terminal, truncated
                leaving.add(agent)
        return leaving

    def _write(
        self, observations: Mapping[Any, Any], present: Sequence[Any], leaving: Collection[Any] = ()
    ) -> None:
        """Write the rows of `present` agents and zero the others.

        Some environments leave out the last observation of a life, so `leaving` agents may lack
        one; their row is zero then.
        """
        places = []
        for agent in present:
            place = self.places[agent]
            places.append(place)
            if agent in observations:
                self._write_row(agent, place, observations[agent], agent not in leaving)
            elif agent in leaving:
                self._observations[place].clear()
            else:
                raise SpaceError(
                    f"{name_of(self.env)}: expected an observation of the living agent {agent!r}, "
                    f"got only those of {list(observations)}"
                )
        if len(places) == len(self.places):
            self.buffers.masks.fill(True)
            return
        masks = np.zeros(len(self.places), bool)
        masks[places] = True
        for absent in np.flatnonzero(self.buffers.masks & ~masks):
            self._observations[absent].clear()
        self.buffers.masks[:] = masks

    def _write_row(self, agent: Any, place: int, observation: Any, acts: bool) -> None:
        check_mask = self._mask_checkers[place]
        try:
            self._writers[place](observation)
            if acts and check_mask:
                check_mask()
            if self._checking:
                self.env.observation_plan.check(observation)
        except SpaceError as error:
            raise SpaceError(f"agent {agent!r} of {error}") from None

    def take_actions(self, actions: Mapping[Any, Any] | NDArray[Any]) -> None:
        """Copy a user's actions into the bound rows, those of absent agents left out."""
        if not isinstance(actions, Mapping):
            if len(actions) != len(self.places):
                raise APIUsageError(
                    f"actions: expected {len(self.places)} rows, one per possible agent, got "
                    f"{len(actions)}"
                )
            actions = dict(zip(self.places, actions, strict=True))
        present = set(self.env.env.agents)
        for agent, action in actions.items():
            place = self.places[agent]
            if agent in present:
                self._acting[place].put(action)
        missing = [agent for agent in self.env.env.agents if agent not in actions]
        if missing:
            raise APIUsageError(f"actions: expected one for each present agent, missing {missing}")

    def observations(self, agents: Mapping[Any, int]) -> dict[Any, Any]:
        """Copies of the rows of `agents`, given with their places."""
        return {agent: self._observations[place].get() for agent, place in agents.items()}


def _some(infos: dict[Any, Any]) -> Infos:
    """The agents' infos as one entry, without the empty ones."""
    given = {agent: info for agent, info in infos.items() if info}
    return [given] if given else []
