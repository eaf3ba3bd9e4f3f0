"""Gymnasium's classic control tasks, with the time limits that Gymnasium registers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task
from pufferlib.environments.registered import make_registered


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env`."""

    max_episode_steps: int | None = None
    """Truncate episodes after this many steps; None keeps the limit that is registered."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns an image (needs pygame)."""


TASKS = (
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
)


def make_env(
    name: str = "CartPole-v1",
    max_episode_steps: int | None = None,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a task by its Gymnasium id, with episode statistics.

    Raises:
        ConfigError: it is not a classic control task; the message has the nearest name.
    """
    task = check_task(name, TASKS, "classic_control")
    return make_registered(task, max_episode_steps, render_mode)


def env_creator(name: str = "CartPole-v1") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: it is not a classic control task; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "classic_control"))
