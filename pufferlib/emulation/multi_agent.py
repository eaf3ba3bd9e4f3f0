"""One parallel PettingZoo environment as a flat row for each possible agent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from pettingzoo.utils.env import ParallelEnv

from pufferlib.buffers import Buffers
from pufferlib.emulation.base import API, EmulatedEnv, Rows, copy_of
from pufferlib.emulation.common import fill_row, name_of
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError, InvalidAgentError, SpaceError


class PettingZooPufferEnv(EmulatedEnv, ParallelEnv[Any, Any, Any]):
    """A parallel PettingZoo environment with flat spaces and a constant number of agents.

    Every call returns an entry for each of `possible_agents`, in that order; agents that are not
    in the game have zero observations and rewards, False flags, and `masks[agent]` False. The
    last row of an agent's life is delivered once, with its flag and mask True.

    Args, attributes and errors are those of `GymnasiumPufferEnv`, and:

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

    def _structured_spaces(self) -> tuple[Space[Any], Space[Any]]:
        self.possible_agents = list(getattr(self.env, "possible_agents", ()))
        if not self.possible_agents:
            raise APIUsageError(f"{self.env}: expected a list of possible_agents, got none")
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
        """All possible agents while an episode runs, none after its end."""
        return list(self.possible_agents) if self._phase == "running" else []

    @property
    def masks(self) -> dict[Any, bool]:
        """Which agents were present in the last result."""
        if self._rows is None:
            return dict.fromkeys(self.possible_agents, False)
        return dict(zip(self.possible_agents, self._rows.buffers.masks.tolist(), strict=True))

    def observation_space(self, agent: Any) -> Space[Any]:
        """The flat observation space, the same for every agent."""
        self._require_known(agent)
        return self.single_observation_space

    def action_space(self, agent: Any) -> Space[Any]:
        """The flat action space, the same for every agent."""
        self._require_known(agent)
        return self.single_action_space

    def _require_known(self, agent: Any) -> None:
        if agent not in self.possible_agents:
            raise InvalidAgentError(agent, self.possible_agents)

    def bind(self, buffers: Buffers) -> PettingZooRows:
        """What vectorization steps: writes to `buffers` (a row per agent) and resets itself."""
        return PettingZooRows(self, buffers)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, NDArray[Any]], dict[Any, dict[str, Any]]]:
        """First observations and infos of all possible agents."""
        infos = self._begin(seed, options)
        return self._rows.observations(), self._padded(infos)

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
        infos = self._padded(rows.step(rows.buffers.actions))
        if rows.ended:
            self._phase = "ended"
        buffers, agents = rows.buffers, self.possible_agents
        rewards, terminals, truncations = (
            dict(zip(agents, column.tolist(), strict=True))
            for column in (buffers.rewards, buffers.terminals, buffers.truncations)
        )
        return rows.observations(), rewards, terminals, truncations, infos

    def _padded(self, infos: Infos) -> dict[Any, dict[str, Any]]:
        given = infos[0] if infos else {}
        return {agent: given.get(agent, {}) for agent in self.possible_agents}


def _shared_space(env: Any, name: str) -> Space[Any]:
    """The space that all agents share."""
    method = getattr(env, name)
    first, *others = env.possible_agents
    space = method(first)
    for agent in others:
        if method(agent) != space:
            raise SpaceError(
                f"{name_of(env)}.{name}: expected the same space for all agents, got {space} for "
                f"{first!r} and {method(agent)} for {agent!r}; pad them to one space in a wrapper"
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
        self._index = Places({agent: i for i, agent in enumerate(env.possible_agents)})
        places = range(len(self._index))
        self._observation_rows = [buffers.observations[i, ...] for i in places]
        self._action_rows = [buffers.actions[i, ...] for i in places]
        self._readers = [env.action_plan.reader(row) for row in self._action_rows]
        self._writers = [env.observation_plan.writer(row) for row in self._observation_rows]
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
        result = env.step(given)
        try:
            observations, rewards, terminals, truncations, infos = result
        except (TypeError, ValueError):
            raise self._bad_step(result) from None
        after = set(env.agents)
        living = [agent for agent in given if agent not in self._lingering]
        self._clear_outcomes()
        for agent in living:
            self.buffers.rewards[self._index[agent]] = rewards.get(agent, 0.0)
        leaving = self._write_flags(living, after, terminals, truncations)
        spawned = [agent for agent in env.agents if agent not in given]
        self._write(observations, living + spawned, leaving)
        self._lingering = (self._lingering | leaving) & after
        self.ended = not after - self._lingering
        self._step_checked()
        return _some(infos)

    def get_state(self) -> dict[str, Any]:
        """As of any emulated environment, and which lives are over."""
        return super().get_state() | {"lingering": self._lingering}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state; the rows are restored by whoever owns the buffers."""
        super().set_state(state)
        self._lingering = state["lingering"]

    def _actions_of(self, agents: Sequence[Any]) -> dict[Any, Any]:
        index, readers = self._index, self._readers
        if self._checking:
            for agent in agents:
                self.env.action_plan.check(self._action_rows[index[agent]])
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

        One that the environment takes away without a flag has come to its end by the task's rules.
        """
        buffers = self.buffers
        leaving = set()
        for agent in living:
            truncated = truncations.get(agent, False)
            terminal = terminals.get(agent, False) or (agent not in after and not truncated)
            if terminal or truncated:
                i = self._index[agent]
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
            place = self._index[agent]
            places.append(place)
            if agent in observations:
                self._write_row(agent, place, observations[agent])
            elif agent in leaving:
                self._observation_rows[place].fill(0)
            else:
                raise SpaceError(
                    f"{name_of(self.env)}: expected an observation of the living agent {agent!r}, "
                    f"got only those of {list(observations)}"
                )
        if len(places) == len(self._index):
            self.buffers.masks.fill(True)
            return
        masks = np.zeros(len(self._index), bool)
        masks[places] = True
        for absent in np.flatnonzero(self.buffers.masks & ~masks):
            self._observation_rows[absent].fill(0)
        self.buffers.masks[:] = masks

    def _write_row(self, agent: Any, place: int, observation: Any) -> None:
        try:
            self._writers[place](observation)
            if self._checking:
                self.env.observation_plan.check(observation)
        except SpaceError as error:
            raise SpaceError(f"agent {agent!r} of {error}") from None

    def take_actions(self, actions: Mapping[Any, Any] | NDArray[Any]) -> None:
        """Copy a user's actions into the bound rows, those of absent agents left out."""
        if not isinstance(actions, Mapping):
            if len(actions) != len(self._index):
                raise APIUsageError(
                    f"actions: expected {len(self._index)} rows, one per possible agent, got "
                    f"{len(actions)}"
                )
            actions = dict(zip(self._index, actions, strict=True))
        present = set(self.env.env.agents)
        for agent, action in actions.items():
            place = self._index[agent]
            if agent in present:
                fill_row(self._action_rows[place], action, f"action of {agent!r}")
        missing = [agent for agent in self.env.env.agents if agent not in actions]
        if missing:
            raise APIUsageError(f"actions: expected one for each present agent, missing {missing}")

    def observations(self) -> dict[Any, NDArray[Any]]:
        """Copies of all rows by agent."""
        rows = zip(self._index, self._observation_rows, strict=True)
        return {agent: copy_of(row) for agent, row in rows}


def _some(infos: dict[Any, Any]) -> Infos:
    """The agents' infos as one entry, without the empty ones."""
    given = {agent: info for agent, info in infos.items() if info}
    return [given] if given else []
