"""Makes any Gymnasium or parallel PettingZoo environment look flat, with constant agents.

`GymnasiumPufferEnv` and `PettingZooPufferEnv` keep the API of what they wrap. Vectorization calls
`bind(buffers)` and steps the returned object, which speaks the native contract of
`pufferlib.environment.PufferEnv`: it writes rows in place and resets itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from pettingzoo.utils.env import ParallelEnv

from pufferlib.buffers import Buffers
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError, InvalidAgentError, SpaceError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.spaces import row_layout
from pufferlib.wrappers import accepts

Check = Literal["first", "always", "never"]


@dataclass(frozen=True)
class Emulated:
    """How to undo emulation; `pufferlib.pytorch.nativize_dtype` reads it.

    Attributes:
        observation_dtype: one observation as an aligned struct, or a plain dtype when only the
            actions are emulated.
        emulated_observation_dtype: dtype of the flat row.
        action_dtype: one action as an aligned struct.
    """

    observation_dtype: np.dtype[Any]
    emulated_observation_dtype: np.dtype[Any]
    action_dtype: np.dtype[Any]


def _emulated(observation: ObservationPlan, action: ActionPlan) -> Emulated | None:
    if not (observation.is_emulated or action.is_emulated):
        return None
    return Emulated(observation.dtype, row_layout(observation.row_space)[1], action.dtype)


def _make(
    env: Any, env_creator: Any, env_args: Sequence[Any], env_kwargs: Mapping[str, Any] | None
) -> Any:
    """The environment from an object, a class or a creator function."""
    if (env is None) == (env_creator is None):
        raise APIUsageError("expected either env or env_creator, got " + ("both", "none")[not env])
    if env is not None and (isinstance(env, type) or not hasattr(env, "step")):
        env, env_creator = None, env
    if env is not None:
        if env_args or env_kwargs:
            raise APIUsageError("env_args and env_kwargs go with env_creator, not with an object")
        return env
    if not callable(env_creator):
        raise APIUsageError(
            f"env_creator: expected a class or a function that returns an environment, got "
            f"{type(env_creator).__name__}"
        )
    return env_creator(*env_args, **(env_kwargs or {}))


def _check_mode(check: str) -> Check:
    if check not in ("first", "always", "never"):
        raise APIUsageError(f"check: expected 'first', 'always' or 'never', got {check!r}")
    return check  # type: ignore[return-value]


def _reset_keywords(
    reset: Callable[..., Any], seed: int | None, options: dict[str, Any] | None
) -> dict[str, Any]:
    """Only what was given, so that environments without options still reset."""
    keywords: dict[str, Any] = {}
    if seed is not None:
        keywords["seed"] = seed
    if options is not None:
        if not accepts(reset, "options"):
            raise APIUsageError("reset(options=…) was called, but the environment takes none")
        keywords["options"] = options
    return keywords


class GymnasiumPufferEnv(gymnasium.Env[Any, Any]):
    """A Gymnasium environment with a flat observation and action space.

    Args:
        env: the environment, or a class or function that makes it.
        env_creator: a class or function that makes it, called with `env_args` and `env_kwargs`.
        check: when data are checked against their spaces. Shape, dtype and keys always are; the
            bounds on the `first` reset and step, `always`, or `never`.

    Attributes:
        env: the wrapped environment.
        single_observation_space, single_action_space: the flat spaces (also as
            `observation_space` and `action_space`); plain Box, Discrete and MultiDiscrete
            observation spaces stay the same object. Discrete actions count from 0.
        emulated: how to undo emulation, or None if nothing is emulated.
        num_agents: 1.

    Raises:
        APIUsageError: neither or both of env and env_creator; an old Gym API.
        SpaceError: a space of no fixed size or that is not numeric.
    """

    num_agents = 1
    autoreset_mode = AutoresetMode.NEXT_STEP

    def __init__(
        self,
        env: Any = None,
        env_creator: Callable[..., Any] | None = None,
        env_args: Sequence[Any] = (),
        env_kwargs: Mapping[str, Any] | None = None,
        check: Check = "first",
    ) -> None:
        self.env = _make(env, env_creator, env_args, env_kwargs)
        self.check = _check_mode(check)
        if not accepts(self.env.reset, "seed"):
            raise APIUsageError(
                f"{self.env}: expected reset(seed=…, options=…) of Gymnasium, got a reset without "
                "seed; wrap it in pufferlib.wrappers.GymToGymnasium"
            )
        self.observation_plan = ObservationPlan(self.env.observation_space)
        self.action_plan = ActionPlan(self.env.action_space)
        self.observation_space = self.single_observation_space = self.observation_plan.row_space
        self.action_space = self.single_action_space = self.action_plan.row_space
        self.emulated = _emulated(self.observation_plan, self.action_plan)
        self.metadata = getattr(self.env, "metadata", {})
        self._rows: GymnasiumRows | None = None
        self._phase: Literal["new", "running", "ended"] = "new"

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        """The wrapped environment's."""
        return getattr(self.env, "render_mode", None)

    @property
    def unwrapped(self) -> Any:
        """The innermost environment."""
        return getattr(self.env, "unwrapped", self.env)

    @property
    def done(self) -> bool:
        """Whether the next call must be `reset`."""
        return self._phase != "running"

    def bind(self, buffers: Buffers) -> GymnasiumRows:
        """What vectorization steps: writes to `buffers` (one row) and resets itself."""
        return GymnasiumRows(self, buffers)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """The first observation, a new array of the flat space, and the info."""
        if self._rows is None:
            buffers = Buffers.allocate(self.single_observation_space, self.single_action_space, 1)
            self._rows = self.bind(buffers)
        infos = self._rows.reset(seed, options)
        self._phase = "running"
        return self._rows.observation(), infos[0] if infos else {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Act with a flat action: a Python number, list, array or tensor of the row's size.

        Raises:
            APIUsageError: before `reset`, or after the episode's end.
            SpaceError: the action or the observation does not fit its space.
        """
        if self._phase == "new" or self._rows is None:
            raise APIUsageError("step() was called before reset(); call reset() first")
        if self._phase == "ended":
            raise APIUsageError("step() was called after the episode ended; call reset() first")
        rows = self._rows
        rows.take_action(action)
        infos = rows.act()
        terminal, truncation = bool(rows.buffers.terminals[0]), bool(rows.buffers.truncations[0])
        if terminal or truncation:
            self._phase = "ended"
        info = infos[0] if infos else {}
        return rows.observation(), rows.last_reward, terminal, truncation, info

    def render(self) -> Any:
        """What the wrapped environment's `render` gives."""
        return self.env.render()

    def close(self) -> None:
        """Close the wrapped environment."""
        if hasattr(self.env, "close"):
            self.env.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rows": None, "_phase": "new"}


class GymnasiumRows:
    """The native contract over one Gymnasium environment: one row, written in place."""

    def __init__(self, env: GymnasiumPufferEnv, buffers: Buffers) -> None:
        self.env = env
        self.buffers = buffers
        self.last_reward = 0.0
        self._observation_row = buffers.observations[0, ...]
        self._action_row = buffers.actions[0, ...]
        self._write = env.observation_plan.writer(self._observation_row)
        self._decode = env.action_plan.decode
        self._env_step = env.env.step
        self._checking = env.check != "never"
        self._unchecked = True  # until the first step has been checked
        self._ended = True
        buffers.masks[:] = True

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Write the first row of an episode."""
        env = self.env.env
        result = env.reset(**_reset_keywords(env.reset, seed, options))
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            raise APIUsageError(
                f"{env}.reset(): expected (observation, info) of Gymnasium, got "
                f"{type(result).__name__}; wrap it in pufferlib.wrappers.GymToGymnasium"
            )
        observation, info = result
        self._write(observation)
        if self._checking:
            self.env.observation_plan.check(observation)
            self._checking = self._unchecked or self.env.check == "always"
        buffers = self.buffers
        buffers.rewards[0] = 0
        buffers.terminals[0] = buffers.truncations[0] = self._ended = False
        return [info] if info else []

    def step(self, actions: NDArray[Any]) -> Infos:
        """Write the row that follows the action in `actions`, or the first of a new episode."""
        if self._ended:
            return self.reset()
        if actions is not self.buffers.actions:
            self.buffers.actions[...] = actions
        return self.act()

    def act(self) -> Infos:
        """Step with the bound action."""
        if self._checking:
            return self._checked_act()
        return self._take(self._env_step(self._decode(self._action_row)))

    def _take(self, result: Any) -> Infos:
        """Write one step's result."""
        try:
            observation, reward, terminal, truncation, info = result
        except (TypeError, ValueError):
            raise self._not_gymnasium(result) from None
        self._write(observation)
        buffers = self.buffers
        buffers.rewards[0] = self.last_reward = float(reward)
        if terminal or truncation:
            buffers.terminals[0], buffers.truncations[0] = terminal, truncation
            self._ended = True
        return [info] if info else []

    def _checked_act(self) -> Infos:
        plan = self.env.action_plan
        plan.check(self._action_row)
        result = self._env_step(self._decode(self._action_row))
        infos = self._take(result)
        self.env.observation_plan.check(result[0])
        self._unchecked = False
        self._checking = self.env.check == "always"
        return infos

    def _not_gymnasium(self, result: Any) -> APIUsageError:
        size = f" of {len(result)}" if isinstance(result, tuple) else ""
        return APIUsageError(
            f"{self.env.env}.step(): expected (observation, reward, terminated, truncated, info) "
            f"of Gymnasium, got {type(result).__name__}{size}; wrap it in "
            "pufferlib.wrappers.GymToGymnasium"
        )

    def take_action(self, action: Any) -> None:
        """Copy a user's action into the bound row."""
        fill_row(self._action_row, action, "action")

    def observation(self) -> NDArray[Any]:
        """A copy of the row as the flat space's own kind of value."""
        return self._observation_row.copy()[()]


def fill_row(row: NDArray[Any], value: Any, name: str) -> None:
    """Copy `value` (number, list, array, CPU tensor) into `row`, whatever its rank.

    Raises:
        SpaceError: another number of elements, or values that the row's dtype cannot hold.
    """
    array = np.asarray(value)
    if array.size != row.size:
        raise SpaceError(f"{name}: expected shape {row.shape}, got shape {array.shape}")
    if array.dtype.kind == "f" and row.dtype.kind != "f":
        raise SpaceError(f"{name}: expected dtype {row.dtype}, got {array.dtype}")
    row[...] = array.reshape(row.shape)


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
        self.env = _make(env, env_creator, env_args, env_kwargs)
        self.check = _check_mode(check)
        if not accepts(self.env.reset, "seed"):
            raise APIUsageError(
                f"{self.env}: expected reset(seed=…, options=…) of parallel PettingZoo, got a reset "
                "without seed; wrap it in pufferlib.wrappers.PettingZooTruncatedWrapper"
            )
        self.possible_agents = list(self.env.possible_agents)
        if not self.possible_agents:
            raise APIUsageError(f"{self.env}: expected possible_agents, got an empty list")
        self.observation_plan = ObservationPlan(_shared_space(self.env, "observation_space"))
        self.action_plan = ActionPlan(_shared_space(self.env, "action_space"))
        self.single_observation_space = self.observation_plan.row_space
        self.single_action_space = self.action_plan.row_space
        self.emulated = _emulated(self.observation_plan, self.action_plan)
        self.metadata = getattr(self.env, "metadata", {})
        self._rows: PettingZooRows | None = None
        self._phase: Literal["new", "running", "ended"] = "new"

    @property
    def num_agents(self) -> int:
        """Rows per environment: the number of possible agents."""
        return len(self.possible_agents)

    @property
    def agents(self) -> list[Any]:  # type: ignore[override]
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
                f"{name}: expected the same space for all agents, got {space} for {first!r} and "
                f"{method(agent)} for {agent!r}; pad them to one space in a wrapper"
            )
    return space


class PettingZooRows:
    """The native contract over one parallel PettingZoo environment: a row per possible agent."""

    def __init__(self, env: PettingZooPufferEnv, buffers: Buffers) -> None:
        self.env = env
        self.buffers = buffers
        self.ended = True
        self._index = {agent: i for i, agent in enumerate(env.possible_agents)}
        rows = range(len(self._index))
        self._observation_rows = [buffers.observations[i, ...] for i in rows]
        self._action_rows = [buffers.actions[i, ...] for i in rows]
        self._writers = [env.observation_plan.writer(row) for row in self._observation_rows]
        self._decode = env.action_plan.decode
        self._checking = env.check != "never"
        self._unchecked = True
        # Flagged as ended but still listed by the environment: absent until it takes them away.
        self._lingering: set[Any] = set()
        buffers.masks[:] = True  # so that the first reset zeroes the rows of absent agents

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Write the first rows of an episode."""
        env = self.env.env
        result = env.reset(**_reset_keywords(env.reset, seed, options))
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            raise APIUsageError(
                f"{env}.reset(): expected (observations, infos) of parallel PettingZoo, got "
                f"{type(result).__name__}; wrap it in pufferlib.wrappers.PettingZooTruncatedWrapper"
            )
        observations, infos = result
        self._lingering.clear()
        self._clear_flags()
        self._write(observations, env.agents)
        self.ended = not env.agents
        if self._checking:
            self._check_observations(observations)
            self._checking = self._unchecked or self.env.check == "always"
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
        env, buffers = self.env.env, self.buffers
        acting = list(env.agents)
        actions = {agent: self._action_of(agent) for agent in acting}
        result = env.step(actions)
        try:
            observations, rewards, terminals, truncations, infos = result
        except (TypeError, ValueError):
            raise self._not_pettingzoo(result) from None
        self._clear_flags()
        living = [agent for agent in acting if agent not in self._lingering]
        after = set(env.agents)
        present = living + [a for a in env.agents if a not in actions]
        self._write(observations, present, living)
        for agent in living:
            i = self._index[agent]
            truncated = truncations.get(agent, False)
            buffers.rewards[i] = rewards.get(agent, 0.0)
            buffers.truncations[i] = truncated
            buffers.terminals[i] = terminals.get(agent, False) or (
                agent not in after and not truncated
            )
        self._update_life(living, after)
        if self._checking:
            self._check_observations(observations)
            self._unchecked = False
            self._checking = self.env.check == "always"
        return _some(infos)

    def _action_of(self, agent: Any) -> Any:
        index = self._index.get(agent)
        if index is None:
            raise InvalidAgentError(agent, self.env.possible_agents)
        row = self._action_rows[index]
        if self._checking:
            self.env.action_plan.check(row)
        return self._decode(row)

    def _update_life(self, living: list[Any], after: set[Any]) -> None:
        buffers = self.buffers
        flagged = buffers.terminals | buffers.truncations
        self._lingering &= after
        self._lingering |= {a for a in living if flagged[self._index[a]] and a in after}
        self.ended = not (after - self._lingering)

    def _clear_flags(self) -> None:
        buffers = self.buffers
        buffers.rewards.fill(0)
        buffers.terminals.fill(False)
        buffers.truncations.fill(False)

    def _write(
        self, observations: dict[Any, Any], present: Sequence[Any], required: Sequence[Any] = ()
    ) -> None:
        """Write the rows of `present` agents and zero the others.

        An agent of `required` has a row even if the environment left its observation out, as some
        do for the last one of a life.
        """
        masks = np.zeros(len(self._index), bool)
        for agent in present:
            index = self._index.get(agent)
            if index is None:
                raise InvalidAgentError(agent, self.env.possible_agents)
            if agent in observations:
                self._writers[index](observations[agent])
                masks[index] = True
            elif agent in required:
                self._observation_rows[index].fill(0)
                masks[index] = True
        for index in np.flatnonzero(self.buffers.masks & ~masks):
            self._observation_rows[index].fill(0)
        self.buffers.masks[:] = masks

    def _check_observations(self, observations: dict[Any, Any]) -> None:
        for agent, observation in observations.items():
            if agent not in self._index:
                raise InvalidAgentError(agent, self.env.possible_agents)
            self.env.observation_plan.check(observation)

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
            if agent not in self._index:
                raise InvalidAgentError(agent, self.env.possible_agents)
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
