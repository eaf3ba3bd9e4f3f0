"""Environments that are registered with OpenAI Gym 0.26, Gymnasium's predecessor.

Of Gym itself only the registry is used: its wrappers for checks and limits expect one of its two
interfaces, and the checks fail with NumPy 2. Here an environment may return four things from `step`
or five, and its registered limit of steps truncates either way. What Gym brings along, Gymnasium
brings as well and better (Gym's Acrobot does not run with NumPy 2).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.exceptions import ConfigError
from pufferlib.postprocess import EpisodeStats
from pufferlib.wrappers import GymToGymnasium
from pufferlib.wrappers.conversion import accepts


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the id."""

    max_episode_steps: int | None = None
    """Truncate episodes after this many steps; None keeps the limit that is registered."""
    render_mode: str | None = None
    """What `render()` returns, if the environment can: an image for 'rgb_array'."""


def make_env(
    name: str = "CartPole-v1",
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> GymnasiumPufferEnv:
    """Make an environment by its id in Gym's registry, with episode statistics.

    Args:
        name: an id, or `module:id` for one that importing `module` registers.
        max_episode_steps, render_mode: see `EnvConfig`.
        options: of the environment's constructor.

    Raises:
        ConfigError: there is no such module or id; the message has the nearest id.
        EnvironmentSetupError: `gym` is not installed.
    """
    spec = _spec(name)
    (gym,) = require("gym")
    if render_mode is not None and accepts(_maker(gym, spec), "render_mode"):
        options["render_mode"] = render_mode  # others are told when they draw
    env: gymnasium.Env[Any, Any] = GymToGymnasium(gym.make(bare(spec), **options), render_mode)
    limit = max_episode_steps or spec.max_episode_steps
    if limit is not None:
        env = gymnasium.wrappers.TimeLimit(env, limit)
    return GymnasiumPufferEnv(env=EpisodeStats(env))


def env_creator(name: str = "CartPole-v1") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of an id; it takes the arguments of `EnvConfig` and the environment's.

    Raises:
        ConfigError: there is no such module or id; the message has the nearest id.
        EnvironmentSetupError: `gym` is not installed.
    """
    _spec(name)
    return functools.partial(make_env, name)


def bare(spec: Any) -> Any:
    """What is registered, without Gym's wrappers: `gym.make` takes it in the place of an id."""
    return dataclasses.replace(
        spec,
        max_episode_steps=None,
        order_enforce=False,
        autoreset=False,
        disable_env_checker=True,
        apply_api_compatibility=False,
    )


def _spec(name: str) -> Any:
    """What is registered under `id` or `module:id`."""
    (gym,) = require("gym")
    module, _, task = name.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{name}: expected a module {module!r} that registers environments with gym, "
                f"got {error}"
            ) from error
    return gym.envs.registry[check_task(task, gym.envs.registry, "gym")]


def _maker(gym: Any, spec: Any) -> Callable[..., Any]:
    """What makes the environment."""
    point = spec.entry_point
    made_by: Callable[..., Any] = point if callable(point) else gym.envs.registration.load(point)
    return made_by
