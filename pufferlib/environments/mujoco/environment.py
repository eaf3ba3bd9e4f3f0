"""Gymnasium's MuJoCo tasks: bodies of rods and joints, moved by torques.

Observations become float32, in which policies compute: half of the memory of MuJoCo's float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TransformObservation

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.registered import Env, make_registered, render_without_display

TASKS = (
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    max_episode_steps: int | None = None
    """Truncate episodes after this many steps; None keeps the limit that is registered."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns an image `(480, 480, 3)`; without a display through EGL."""


def make_env(
    name: str = "HalfCheetah-v5",
    max_episode_steps: int | None = None,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a task by its Gymnasium id, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: it is not a MuJoCo task; the message has the nearest name.
        EnvironmentSetupError: MuJoCo is not installed.
    """
    task = check_task(name, TASKS, "mujoco")
    require("mujoco")
    if render_mode is not None:
        render_without_display()
    return make_registered(task, max_episode_steps, render_mode, _in_float32)


def env_creator(name: str = "HalfCheetah-v5") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: it is not a MuJoCo task; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "mujoco"))


def _in_float32(env: Env) -> Env:
    space = Box(-np.inf, np.inf, env.observation_space.shape, np.float32)
    return TransformObservation(env, np.float32, space)
