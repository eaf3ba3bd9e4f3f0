"""Driving in traffic with highway-env: on a highway, at junctions, into a parking lot.

highway-env tells of each step whether the car has crashed; averaged over an episode that says
little. Here the summary of an episode has it of the last step, 0 or 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.registered import ids_of, make_registered


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    vehicles_count: int | None = None
    """Other vehicles, where the task has a number of them; they are what a step costs. None: the
    task's own number.
    """
    max_episode_steps: int | None = None
    """Truncate episodes after this many steps, if the task's own duration does not come first."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns an image of the road."""


class Outcome(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Infos with `speed` (m/s), and at an episode's end `crashed` and, in parking, `is_success`."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        keys = ("speed", "crashed", "is_success") if terminal or truncation else ("speed",)
        told = {key: info[key] for key in keys if key in info}
        return observation, reward, terminal, truncation, told


def make_env(
    name: str = "highway-fast-v0",
    vehicles_count: int | None = None,
    max_episode_steps: int | None = None,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a task by its Gymnasium id, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `highway_env` is not installed.
    """
    config = {} if vehicles_count is None else {"vehicles_count": vehicles_count}
    return make_registered(_task(name), max_episode_steps, render_mode, Outcome, config=config)


def env_creator(name: str = "highway-fast-v0") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `highway_env` is not installed.
    """
    return functools.partial(make_env, _task(name))


def _task(name: str) -> str:
    require("highway")
    tasks = [task for task in ids_of("highway_env") if "multi-agent" not in task]
    return check_task(name, tasks, "highway")
