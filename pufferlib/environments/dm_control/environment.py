"""DeepMind's dm_control through shimmy: the Control Suite, locomotion and manipulation.

Observations become float32, in which policies compute; pictures stay bytes. dm_control chooses how
to draw when it is imported: with GLFW, which fails where there is no display. Here it chooses again
when an environment may draw. The import takes seconds, so the process that names a task does it,
and workers that are forked from there find it done.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import TransformObservation

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.registered import Env, make_registered, render_without_display
from pufferlib.wrappers import NoInfo

PREFIX, SUFFIX = "dm_control/", "-v0"
"""Around a task's name in Gymnasium's registry."""


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    max_episode_steps: int | None = None
    """Truncate episodes after this many steps; None keeps the task's own limit (Suite: 1,000)."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns an image `(240, 320, 3)`; without a display through EGL."""


def make_env(
    name: str = "cheetah-run",
    max_episode_steps: int | None = None,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a task of the Suite (`walker-walk`) or another of shimmy's, with episode statistics.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `dm_control` or `shimmy` is not installed.
    """
    task = _id(name)
    is_of_suite = "-" in name
    if render_mode is not None or not is_of_suite:  # the others may have cameras to observe with
        render_without_display()
        importlib.reload(importlib.import_module("dm_control._render"))
    return make_registered(task, max_episode_steps, render_mode, _adapt)


def env_creator(name: str = "cheetah-run") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `dm_control` or `shimmy` is not installed.
    """
    _id(name)
    return functools.partial(make_env, name)


def _id(name: str) -> str:
    """The id that shimmy registers for a task."""
    require("dm_control")
    tasks = [
        key.removeprefix(PREFIX).removesuffix(SUFFIX)
        for key in gymnasium.registry
        if key.startswith(PREFIX) and "compatibility" not in key
    ]
    return f"{PREFIX}{check_task(name, tasks, 'dm_control')}{SUFFIX}"


def _adapt(env: Env) -> Env:
    spaces = {key: _single(space) for key, space in env.observation_space.items()}
    env = TransformObservation(env, functools.partial(_cast, spaces), Dict(spaces))
    return NoInfo(env)  # infos repeat the end and the discount


def _single(space: Any) -> Any:
    """Numbers as float32; everything else as it is."""
    if space.dtype != np.float64:
        return space
    return Box(-np.inf, np.inf, space.shape, np.float32)


def _cast(spaces: dict[str, Any], observation: dict[str, Any]) -> dict[str, Any]:
    return {key: np.asarray(observation[key], space.dtype) for key, space in spaces.items()}
