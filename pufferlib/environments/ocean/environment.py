"""Make functions of the first-party environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task
from pufferlib.environments.ocean.sanity import Squared
from pufferlib.postprocess import EpisodeStats


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_squared`."""

    distance_to_target: int = 3
    """Moves from the centre to the edge; a larger square asks for more exploration."""
    num_targets: int = 1
    """Targets on the edge; with several of them memory helps."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns coloured text."""


def make_squared(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Squared` with episode statistics; the arguments are those of `EnvConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Squared(**kwargs)))


_MAKERS: dict[str, Callable[..., GymnasiumPufferEnv]] = {"squared": make_squared}


def env_creator(name: str = "squared") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of the task's config.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
    """
    return _MAKERS[check_task(name, _MAKERS, "ocean")]


def make_env(name: str = "squared", **kwargs: Any) -> GymnasiumPufferEnv:
    """Make the task `name` with the keyword arguments of its config."""
    return env_creator(name)(**kwargs)
