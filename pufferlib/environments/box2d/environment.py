"""Gymnasium's Box2D tasks: the lander, the walker and the racing car.

The car is seen as a stack of grey frames, since one frame does not show how fast things move.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gymnasium.wrappers import FrameStackObservation, GrayscaleObservation

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.registered import Env, make_registered

CAR = "CarRacing-v3"
TASKS = (
    "LunarLander-v3",
    "LunarLanderContinuous-v3",
    "BipedalWalker-v3",
    "BipedalWalkerHardcore-v3",
    CAR,
)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    max_episode_steps: int | None = None
    """Truncate episodes after this many steps; None keeps the limit that is registered."""
    framestack: int = 4
    """CarRacing only: grey frames in an observation `(framestack, 96, 96)` uint8."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns an image `(400, 600, 3)`."""


def make_env(
    name: str = "LunarLander-v3",
    max_episode_steps: int | None = None,
    framestack: int = 4,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a task by its Gymnasium id, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: it is not a Box2D task; the message has the nearest name.
        EnvironmentSetupError: Box2D or pygame is not installed.
    """
    task = check_task(name, TASKS, "box2d")
    require("box2d")
    wrap = functools.partial(_stack, frames=framestack) if task == CAR else None
    return make_registered(task, max_episode_steps, render_mode, wrap)


def env_creator(name: str = "LunarLander-v3") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: it is not a Box2D task; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "box2d"))


def _stack(env: Env, frames: int) -> Env:
    return FrameStackObservation(GrayscaleObservation(env), frames)
