"""Environments that Gymnasium's registry makes: what their packages share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.postprocess import EpisodeStats

Env = gymnasium.Env[Any, Any]


def ids_of(module: str) -> list[str]:
    """The ids in Gymnasium's registry whose classes are in `module` or below, sorted."""
    return sorted(
        name
        for name, spec in gymnasium.registry.items()
        if f"{spec.entry_point}".replace(":", ".").startswith(f"{module}.")
    )


def make_registered(
    name: str,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    wrap: Callable[[Env], Env] | None = None,
    **options: Any,
) -> GymnasiumPufferEnv:
    """Make an environment by its Gymnasium id, with episode statistics.

    Args:
        max_episode_steps: truncate after this many steps; None keeps the limit that is registered.
        render_mode: the environment's own.
        wrap: put around the environment, inside the statistics.
        options: of the environment's constructor.
    """
    env = gymnasium.make(
        name,
        max_episode_steps=max_episode_steps,
        render_mode=render_mode,
        disable_env_checker=True,  # emulation checks shapes, dtypes and bounds
        **options,
    )
    return GymnasiumPufferEnv(env=EpisodeStats(wrap(env) if wrap else env))


def render_without_display() -> None:
    """Let MuJoCo draw through EGL where there is no display.

    By itself it asks GLFW, which finds none. A choice that the user made stands. Whoever does not
    render needs no EGL: MuJoCo fails to import where `MUJOCO_GL` names what is not installed.
    """
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
