"""One Gymnasium environment as one flat row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import gymnasium
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

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
from pufferlib.exceptions import APIUsageError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.wrappers import accepts


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
        self.env = make_env(env, env_creator, env_args, env_kwargs)
        self.check = check_mode(check)
        if not accepts(self.env.reset, "seed"):
            raise APIUsageError(
                f"{self.env}: expected reset(seed=…, options=…) of Gymnasium, got a reset without "
                "seed; wrap it in pufferlib.wrappers.GymToGymnasium"
            )
        name = name_of(self.env)
        self.observation_plan = ObservationPlan(self.env.observation_space, f"{name}: observation")
        self.action_plan = ActionPlan(self.env.action_space, f"{name}: action")
        self.observation_space = self.single_observation_space = self.observation_plan.row_space
        self.action_space = self.single_action_space = self.action_plan.row_space
        self.emulated = emulated_by(self.observation_plan, self.action_plan)
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
        self._actions, self._rewards = buffers.actions, buffers.rewards
        self._write = env.observation_plan.writer(self._observation_row)
        self._decode = env.action_plan.decode
        self._env_step = env.env.step
        self._checking = env.check != "never"
        self._unchecked = True  # until the first step has been checked
        self._ended = True
        buffers.observations.fill(0)  # a struct's padding is never written again
        buffers.masks[:] = True

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Write the first row of an episode."""
        env = self.env.env
        result = env.reset(**reset_keywords(env.reset, seed, options))
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
        if actions is not self._actions:
            self._actions[...] = actions
        return self.act()

    def act(self) -> Infos:
        """Step with the bound action."""
        checking = self._checking
        if checking:
            self.env.action_plan.check(self._action_row)
        result = self._env_step(self._decode(self._action_row))
        try:
            observation, reward, terminal, truncation, info = result
        except (TypeError, ValueError):
            raise self._not_gymnasium(result) from None
        self._write(observation)
        self._rewards[0] = self.last_reward = float(reward)
        if terminal or truncation:
            buffers = self.buffers
            buffers.terminals[0], buffers.truncations[0] = terminal, truncation
            self._ended = True
        if checking:
            self.env.observation_plan.check(observation)
            self._unchecked, self._checking = False, self.env.check == "always"
        return [info] if info else []

    def get_state(self) -> dict[str, Any]:
        """The environment's state and whether a reset is due, for `set_state`.

        Raises:
            SnapshotError: the environment's state cannot be taken.
        """
        return {"env": snapshot.take(self.env.env), "ended": self._ended}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state; the rows are restored by whoever owns the buffers."""
        self.env.env = snapshot.put_back(self.env.env, state["env"])
        self._env_step = self.env.env.step
        self._ended = state["ended"]

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
