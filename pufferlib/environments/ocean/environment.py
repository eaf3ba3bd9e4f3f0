"""Make functions of the first-party environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task
from pufferlib.environments.ocean.native import NativeSquared
from pufferlib.environments.ocean.sanity import Memory, Squared
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


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Arguments of `make_memory`."""

    length: int = 2
    """Digits to remember."""
    delay: int = 2
    """Steps between the last digit and the first that is to be recited."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns coloured text."""


@dataclass(frozen=True, kw_only=True)
class NativeSquaredConfig:
    """Arguments of `NativeSquared`."""

    num_agents: int = 4096
    """Squares in one environment, of one agent each."""
    distance_to_target: int = 3
    """Moves from the centre to the edge; a larger square asks for more exploration."""
    num_targets: int = 1
    """Targets on the edge; with several of them memory helps."""
    threads: int = 1
    """How many threads share each step."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns the first square as coloured text."""


CONFIGS: Mapping[str, type] = {
    "squared": EnvConfig,
    "squared_native": NativeSquaredConfig,
    "memory": MemoryConfig,
}
"""The dataclass of each task's arguments."""


def make_squared(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Squared` with episode statistics; the arguments are those of `EnvConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Squared(**kwargs)))


def make_memory(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Memory` with episode statistics; the arguments are those of `MemoryConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Memory(**kwargs)))


_MAKERS: dict[str, Callable[..., Any]] = {
    "squared": make_squared,
    "squared_native": NativeSquared,
    "memory": make_memory,
}


def env_creator(name: str = "squared") -> Callable[..., Any]:
    """The make function of a task; it takes the keyword arguments of the task's config.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
    """
    return _MAKERS[check_task(name, _MAKERS, "ocean")]


def make_env(name: str = "squared", **kwargs: Any) -> Any:
    """Make the task `name` with the keyword arguments of its config."""
    return env_creator(name)(**kwargs)
