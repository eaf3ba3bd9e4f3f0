"""Make functions of the first-party environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.environments import check_task
from pufferlib.environments.ocean.native import (
    NativeBreakout,
    NativeConnectFour,
    NativeMaze,
    NativePong,
    NativeSnake,
    NativeSquared,
)
from pufferlib.environments.ocean.native.configs import (
    NativeBreakoutConfig,
    NativeConnectFourConfig,
    NativeMazeConfig,
    NativePongConfig,
    NativeSnakeConfig,
    NativeSquaredConfig,
)
from pufferlib.environments.ocean.sanity import (
    Bandit,
    Memory,
    Multiagent,
    Password,
    Spaces,
    Squared,
    Stochastic,
)
from pufferlib.postprocess import EpisodeStats, MultiagentEpisodeStats


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
class PasswordConfig:
    """Arguments of `make_password`."""

    length: int = 5
    """Digits to guess; random guessing finds them once in 2^length episodes."""
    hard_fixed_seed: int = 42
    """Decides the password, the same in all environments."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns coloured text."""


@dataclass(frozen=True, kw_only=True)
class StochasticConfig:
    """Arguments of `make_stochastic`."""

    p: float = 0.7
    """The share of steps that should have action 0."""
    horizon: int = 100
    """Steps of an episode."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns coloured text."""


@dataclass(frozen=True, kw_only=True)
class MultiagentConfig:
    """Arguments of `make_multiagent`."""

    roles: Literal["fixed", "drawn"] = "fixed"
    """'drawn': each episode draws each agent's role, which shows crossed observations too."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns coloured text."""


@dataclass(frozen=True, kw_only=True)
class SpacesConfig:
    """Arguments of `make_spaces`."""

    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns coloured text."""


@dataclass(frozen=True, kw_only=True)
class BanditConfig:
    """Arguments of `make_bandit`."""

    num_actions: int = 10
    """Arms, one of which pays."""
    reward_scale: float = 1.0
    """What the best arm pays on average."""
    reward_noise: float = 1.0
    """Standard deviation of every reward."""
    hard_fixed_seed: int = 42
    """Decides which arm is the best, the same in all environments."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns coloured text."""


CONFIGS: Mapping[str, type] = {
    "squared": EnvConfig,
    "squared_native": NativeSquaredConfig,
    "breakout_native": NativeBreakoutConfig,
    "connect_four_native": NativeConnectFourConfig,
    "maze_native": NativeMazeConfig,
    "pong_native": NativePongConfig,
    "snake_native": NativeSnakeConfig,
    "memory": MemoryConfig,
    "password": PasswordConfig,
    "stochastic": StochasticConfig,
    "multiagent": MultiagentConfig,
    "spaces": SpacesConfig,
    "bandit": BanditConfig,
}
"""The dataclass of each task's arguments."""


def make_squared(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Squared` with episode statistics; the arguments are those of `EnvConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Squared(**kwargs)))


def make_memory(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Memory` with episode statistics; the arguments are those of `MemoryConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Memory(**kwargs)))


def make_password(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Password` with episode statistics; the arguments are those of `PasswordConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Password(**kwargs)))


def make_stochastic(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Stochastic` with episode statistics; the arguments are those of `StochasticConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Stochastic(**kwargs)))


def make_multiagent(**kwargs: Any) -> PettingZooPufferEnv:
    """`Multiagent` with episode statistics; the arguments are those of `MultiagentConfig`."""
    return PettingZooPufferEnv(env=MultiagentEpisodeStats(Multiagent(**kwargs)))


def make_spaces(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Spaces` with episode statistics; the arguments are those of `SpacesConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Spaces(**kwargs)))


def make_bandit(**kwargs: Any) -> GymnasiumPufferEnv:
    """`Bandit` with episode statistics; the arguments are those of `BanditConfig`."""
    return GymnasiumPufferEnv(env=EpisodeStats(Bandit(**kwargs)))


_MAKERS: dict[str, Callable[..., Any]] = {
    "squared": make_squared,
    "squared_native": NativeSquared,
    "breakout_native": NativeBreakout,
    "connect_four_native": NativeConnectFour,
    "maze_native": NativeMaze,
    "pong_native": NativePong,
    "snake_native": NativeSnake,
    "memory": make_memory,
    "password": make_password,
    "stochastic": make_stochastic,
    "multiagent": make_multiagent,
    "spaces": make_spaces,
    "bandit": make_bandit,
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
