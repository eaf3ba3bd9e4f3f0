"""One Gymnasium environment as one flat row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.spaces import Space
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.emulation.base import API, EmulatedEnv, Rows
from pufferlib.emulation.ports import action_port, observation_port, outer_space
from pufferlib.emulation.postprocessing import MakePostprocessor, PostprocessedEnv
from pufferlib.environment import Infos
from pufferlib.native.rows import row_step


class GymnasiumPufferEnv(EmulatedEnv, gymnasium.Env[Any, Any]):  # type: ignore[override]  # render_mode is read-only
    """A Gymnasium environment with a flat observation and action space.

    Args:
        env: the environment, or a class or function that makes it.
        env_creator: a class or function that makes it, called with `env_args` and `env_kwargs`.
        check: when data are checked against their spaces. Shape, dtype and keys always are; the
            bounds on the `first` reset and step, `always`, or `never`.
        postprocessor: class (or function of the environment, and of the agent where there are
            several) that makes a `Postprocessor`, which featurizes and shapes rewards.
        flatten_observations, flatten_actions: False: these pass as the environment has them, of
            any space; there are no rows for vectorization then.
        suppress_output: keep what the environment prints, in Python or C, off the process's
            stdout and stderr. The last of it is in `printed` and in the notes of its errors.

    Attributes:
        env: the wrapped environment.
        single_observation_space, single_action_space: the flat spaces (also as
            `observation_space` and `action_space`); plain Box, Discrete and MultiDiscrete
            observation spaces stay the same object. Discrete actions count from 0.
        emulated: how to undo emulation, or None if nothing is emulated.
        num_agents: 1.
        printed: the end of what it printed under `suppress_output`.

    Raises:
        APIUsageError: neither or both of env and env_creator; an old Gym API.
        SpaceError: a space of no fixed size or that is not numeric.
    """

    api = API(
        "Gymnasium",
        "(observation, info)",
        "(observation, reward, terminated, truncated, info)",
        "GymToGymnasium",
    )
    num_agents = 1

    @property
    def observation_space(self) -> Space[Any]:  # type: ignore[override]
        """The flat observation space."""
        return outer_space(self.observation_plan)

    @property
    def action_space(self) -> Space[Any]:  # type: ignore[override]
        """The flat action space."""
        return outer_space(self.action_plan)

    def _adapted(self, env: Any, postprocessor: MakePostprocessor | None) -> Any:
        return env if postprocessor is None else PostprocessedEnv(env, postprocessor)

    def _structured_spaces(self) -> tuple[Space[Any], Space[Any]]:
        return self.env.observation_space, self.env.action_space

    def _rows_in(self, buffers: Buffers) -> GymnasiumRows:
        return GymnasiumRows(self, buffers)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """The first observation, a new array of the flat space, and the info."""
        infos = self._begin(seed, options)
        return self._rows.observation.get(), infos[0] if infos else {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Act with a flat action: a Python number, list, array or tensor of the row's size.

        Raises:
            APIUsageError: before `reset`, or after the episode's end.
            SpaceError: the action or the observation does not fit its space.
        """
        rows = self._running_rows()
        rows.action.put(action)
        infos = rows.step(rows.buffers.actions)
        if rows.ended:
            self._phase = "ended"
        terminal, truncation = bool(rows.buffers.terminals[0]), bool(rows.buffers.truncations[0])
        info = infos[0] if infos else {}
        reward = float(rows.last_reward)
        return rows.observation.get(), reward, terminal, truncation, info


class GymnasiumRows(Rows):
    """One row.

    Attributes:
        last_reward: of the last step, in the precision that the environment gave it.
    """

    def __init__(self, env: GymnasiumPufferEnv, buffers: Buffers) -> None:
        # Python writes single numbers to a memoryview in less time than to an array.
        self._ended = memoryview(bytearray(1)).cast("?")
        outcomes: list[Any] = [buffers.rewards, buffers.terminals, buffers.truncations]
        self._rewards, self._terminals, self._truncations = [memoryview(a) for a in outcomes]
        super().__init__(env, buffers)
        self._last_reward: list[Any] = [0.0]
        observation_row = buffers.observations[0, ...]
        self.observation = observation_port(env.observation_plan, observation_row)
        self.action = action_port(env.action_plan, buffers.actions[0, ...], "action")
        self._act = self.action.get
        self._write = self.observation.put
        self._check_mask = self._mask_checker(observation_row)
        self._shortcut = row_step(
            env_reset=self._reset_of_env(),
            env_step=self._env_step,
            act=None if env.action_plan.is_plain_choice else self._act,
            write=self._write,
            check=self._check_mask,
            step_anew=self.step,
            take_first=self._take_first,
            take=self._take,
            actions=self._actions,
            last_reward=self._last_reward,
            reward=self._rewards,
            terminal=self._terminals,
            truncation=self._truncations,
            ended=self._ended,
        )
        if self._shortcut is not None:
            self.step = self._shortcut.step  # type: ignore[method-assign]  # below, but compiled

    @property
    def last_reward(self) -> Any:  # noqa: D102 - among the attributes
        return self._last_reward[0]

    @property
    def ended(self) -> bool:
        """Whether the next step is a reset; kept where the shortcut sees it too."""
        return self._ended[0]

    @ended.setter
    def ended(self, value: bool) -> None:
        self._ended[0] = value

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Write the first row of an episode."""
        return self._take_first(self._reset_env(seed, options))

    def step(self, actions: NDArray[Any]) -> Infos:
        """Write the row that follows the action in `actions`, or the first of a new episode."""
        if self.ended:
            return self.reset()
        if actions is not self._actions:
            self._actions[...] = actions
        if self._checking:
            self.action.check()
        return self._take(self._env_step(self._act()))

    def set_place(self, place: dict[str, Any]) -> None:
        """The inverse of `get_place`."""
        super().set_place(place)
        self._open_shortcut()

    def _take(self, result: Any) -> Infos:
        """Write the row that a step of the environment gave."""
        try:
            observation, reward, terminal, truncation, info = result
        except (TypeError, ValueError):
            raise self._bad_step(result) from None
        self._write(observation)
        self._rewards[0] = self._last_reward[0] = reward
        if terminal or truncation:
            self._end(terminal, truncation)
        elif self._check_mask:
            self._check_mask()
        if self._checking:
            self.env.observation_plan.check(observation)
            self._step_checked()
        self._open_shortcut()
        return [info] if info else []

    def _end(self, terminal: bool, truncation: bool) -> None:
        self._terminals[0], self._truncations[0] = terminal, truncation
        self.ended = True

    def _take_first(self, result: Any) -> Infos:
        """Write the row that a reset of the environment gave."""
        observation, info = self._first(result)
        self._write(observation)
        if self._checking:
            self.env.observation_plan.check(observation)
            self._reset_checked()
        if self._check_mask:
            self._check_mask()
        self._rewards[0] = 0
        self._terminals[0] = self._truncations[0] = self.ended = False
        self._open_shortcut()
        return [info] if info else []

    def _reset_of_env(self) -> Callable[[], Any]:
        return self.env._quietly(self.env.env.reset)

    def _open_shortcut(self) -> None:
        """Let the shortcut do the steps in which nothing is to be checked."""
        if self._shortcut is not None:
            self._shortcut.env_reset = self._reset_of_env()
            self._shortcut.env_step = self._env_step
            self._shortcut.ready = not self._checking
