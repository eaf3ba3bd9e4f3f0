"""One parallel PettingZoo environment as a flat row for each possible agent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from pettingzoo.utils.env import ParallelEnv

from pufferlib import snapshot
from pufferlib.buffers import Buffers
from pufferlib.emulation.common import (
    Check,
    check_mode,
    emulated_by,
    fill_row,
    make_env,
    name_of,
    reset_keywords,
)
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError, InvalidAgentError, SpaceError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.wrappers import accepts


class PettingZooPufferEnv(ParallelEnv[Any, Any, Any]):
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

    autoreset_mode = AutoresetMode.NEXT_STEP

    def __init__(
        self,
        env: Any = None,
        env_creator: Callable[..., Any] | None = None,
        env_args: Sequence[Any] = (),
        env_kwargs: Mapping[str, Any] | None = None,
        check: Check = "first",
    ) -> None:
        self.env = make_env(env, env_creator, env_args, env_kwargs)
        self.check = check_mode(check)
        if not accepts(self.env.reset, "seed"):
            raise APIUsageError(
                f"{self.env}: expected reset(seed=…, options=…) of parallel PettingZoo, got a "
                "reset without seed; wrap it in pufferlib.wrappers.PettingZooTruncatedWrapper"
            )
        self.possible_agents = list(getattr(self.env, "possible_agents", ()))
        if not self.possible_agents:
            raise APIUsageError(f"{self.env}: expected a list of possible_agents, got none")
        name = name_of(self.env)
        self.observation_plan = ObservationPlan(
            _shared_space(self.env, "observation_space"), f"{name}: observation"
        )
        self.action_plan = ActionPlan(_shared_space(self.env, "action_space"), f"{name}: action")
        self.single_observation_space = self.observation_plan.row_space
        self.single_action_space = self.action_plan.row_space
        self.emulated = emulated_by(self.observation_plan, self.action_plan)
        self.metadata = getattr(self.env, "metadata", {})
        self._rows: PettingZooRows | None = None
        self._phase: Literal["new", "running", "ended"] = "new"

    @property
    def num_agents(self) -> int:
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

    @property
    def done(self) -> bool:
        """Whether the next call must be `reset`."""
        return self._phase != "running"

    @property
    def render_mode(self) -> str | None:
        """The wrapped environment's."""
        return getattr(self.env, "render_mode", None)

    @property
    def unwrapped(self) -> Any:
        """The innermost environment."""
        return getattr(self.env, "unwrapped", self.env)

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
        if self._rows is None:
            self._rows = self.bind(
                Buffers.allocate(
                    self.single_observation_space, self.single_action_space, self.num_agents
                )
            )
        infos = self._rows.reset(seed, options)
        self._phase = "running"
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
        if self._phase == "new" or self._rows is None:
            raise APIUsageError("step() was called before reset(); call reset() first")
        if self._phase == "ended":
            raise APIUsageError("step() was called after the episode ended; call reset() first")
        rows = self._rows
        rows.take_actions(actions)
        infos = self._padded(rows.act())
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

    def render(self) -> Any:
        """What the wrapped environment's `render` gives."""
        return self.env.render()

    def close(self) -> None:
        """Close the wrapped environment."""
        self.env.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rows": None, "_phase": "new"}


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


class PettingZooRows:
    """The native contract over one parallel PettingZoo environment: a row per possible agent."""

    def __init__(self, env: PettingZooPufferEnv, buffers: Buffers) -> None:
        self.env = env
        self.buffers = buffers
        self.ended = True
        self._index = Places({agent: i for i, agent in enumerate(env.possible_agents)})
        rows = range(len(self._index))
        self._observation_rows = [buffers.observations[i, ...] for i in rows]
        self._action_rows = [buffers.actions[i, ...] for i in rows]
        self._writers = [env.observation_plan.writer(row) for row in self._observation_rows]
        self._decode = env.action_plan.decode
        self._checking = env.check != "never"
        self._unchecked = True
        # Flagged as ended but still listed by the environment: absent until it takes them away.
        self._lingering: set[Any] = set()
        buffers.observations.fill(0)  # absent agents, and a struct's padding
        buffers.masks[:] = True

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Write the first rows of an episode."""
        env = self.env.env
        result = env.reset(**reset_keywords(env.reset, seed, options))
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            raise APIUsageError(
                f"{env}.reset(): expected (observations, infos) of parallel PettingZoo, got "
                f"{type(result).__name__}; wrap it in pufferlib.wrappers.PettingZooTruncatedWrapper"
            )
        observations, infos = result
        self._lingering.clear()
        self._clear_outcomes()
        self._write(observations, env.agents)
        self.ended = not env.agents
        self._checking = self._checking and (self._unchecked or self.env.check == "always")
        return _some(infos)

    def step(self, actions: NDArray[Any]) -> Infos:
        """Write the rows that follow `actions`, or the first of a new episode."""
        if self.ended:
            return self.reset()
        if actions is not self.buffers.actions:
            self.buffers.actions[...] = actions
        return self.act()

    def act(self) -> Infos:
        """Step with the bound actions."""
        env = self.env.env
        actions = self._actions_of(env.agents)
        result = env.step(actions)
        try:
            observations, rewards, terminals, truncations, infos = result
        except (TypeError, ValueError):
            raise self._not_pettingzoo(result) from None
        after = set(env.agents)
        living = [agent for agent in actions if agent not in self._lingering]
        self._clear_outcomes()
        for agent in living:
            self.buffers.rewards[self._index[agent]] = rewards.get(agent, 0.0)
        leaving = self._write_flags(living, after, terminals, truncations)
        spawned = [agent for agent in env.agents if agent not in actions]
        self._write(observations, living + spawned, leaving)
        self._lingering = (self._lingering | leaving) & after
        self.ended = not after - self._lingering
        self._unchecked, self._checking = False, self.env.check == "always"
        return _some(infos)

    def get_state(self) -> dict[str, Any]:
        """The environment's state and which lives are over, for `set_state`.

        Raises:
            SnapshotError: the environment's state cannot be taken.
        """
        env = snapshot.take(self.env.env)
        return {"env": env, "ended": self.ended, "lingering": self._lingering}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state; the rows are restored by whoever owns the buffers."""
        self.env.env = snapshot.put_back(self.env.env, state["env"])
        self.ended, self._lingering = state["ended"], state["lingering"]

    def _actions_of(self, agents: Sequence[Any]) -> dict[Any, Any]:
        index, rows, decode = self._index, self._action_rows, self._decode
        if self._checking:
            for agent in agents:
                self.env.action_plan.check(rows[index[agent]])
        return {agent: decode(rows[index[agent]]) for agent in agents}

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

    def _not_pettingzoo(self, result: Any) -> APIUsageError:
        size = f" of {len(result)}" if isinstance(result, tuple) else ""
        return APIUsageError(
            f"{self.env.env}.step(): expected (observations, rewards, terminations, truncations, "
            f"infos) of parallel PettingZoo, got {type(result).__name__}{size}; wrap it in "
            "pufferlib.wrappers.PettingZooTruncatedWrapper"
        )

    def take_actions(self, actions: Mapping[Any, Any] | NDArray[Any]) -> None:
        """Copy a user's actions into the bound rows."""
        if not isinstance(actions, Mapping):
            if len(actions) != len(self._index):
                raise APIUsageError(
                    f"actions: expected {len(self._index)} rows, one per possible agent, got "
                    f"{len(actions)}"
                )
            actions = dict(zip(self._index, actions, strict=True))
        for agent, action in actions.items():
            fill_row(self._action_rows[self._index[agent]], action, f"action of {agent!r}")
        missing = [agent for agent in self.env.env.agents if agent not in actions]
        if missing:
            raise APIUsageError(f"actions: expected one for each present agent, missing {missing}")

    def observations(self) -> dict[Any, NDArray[Any]]:
        """Copies of all rows by agent."""
        rows = zip(self._index, self._observation_rows, strict=True)
        return {agent: row.copy()[()] for agent, row in rows}


def _some(infos: dict[Any, Any]) -> Infos:
    """The agents' infos as one entry, without the empty ones."""
    given = {agent: info for agent, info in infos.items() if info}
    return [given] if given else []
