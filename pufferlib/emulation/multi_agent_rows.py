"""The rows of one parallel PettingZoo environment, whose agents come and go."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.emulation.base import Rows
from pufferlib.emulation.common import name_of
from pufferlib.emulation.ports import action_port, observation_port
from pufferlib.ends import flags_of
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError, InvalidAgentError, SpaceError

if TYPE_CHECKING:
    from pufferlib.emulation.multi_agent import PettingZooPufferEnv


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

        One that the environment takes away without a flag has come to its end by the task's rules.
        """
        buffers = self.buffers
        leaving = set()
        for agent in living:
            terminal, truncated = flags_of(agent, terminals, truncations)
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
