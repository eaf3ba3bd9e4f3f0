"""What the benchmarks step: environments that cost nothing, a known time, or are real."""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

NUM_ENVS = 8


class NoOp(gymnasium.Env):
    """Costs nothing by itself, so that all time is the vectorization's."""

    observation_space = gymnasium.spaces.Box(-1, 1, (64,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.observation = np.zeros(64, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Show the zeros."""
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Show them again."""
        return self.observation, 1.0, False, False, {}


class Spin(NoOp):
    """Uses so many seconds of CPU time in a step, with a deviation relative to that."""

    def __init__(self, seconds: float = 100e-6, deviation: float = 0.0) -> None:
        super().__init__()
        self.seconds, self.deviation = seconds, deviation
        self.generator = np.random.default_rng()  # unlike the other environments'

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Show the zeros after a while."""
        factor = 1 + self.deviation * self.generator.standard_normal()
        end = time.thread_time() + self.seconds * factor
        while time.thread_time() < end:
            pass
        return super().step(action)


class Sleep(NoOp):
    """Takes so many seconds for a step, but no core."""

    def __init__(self, seconds: float = 1e-3) -> None:
        super().__init__()
        self.seconds = seconds

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Show the zeros after a while."""
        time.sleep(self.seconds)
        return super().step(action)


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def nethack() -> gymnasium.Env[Any, Any]:
    """The binding's environment before emulation, for everybody."""
    from pufferlib.environments.nethack import make_env

    return make_env().env


def breakout() -> gymnasium.Env[Any, Any]:
    """The binding's environment before emulation, for everybody."""
    from pufferlib.environments.atari import make_env

    return make_env("breakout").env


Creator = Callable[[], gymnasium.Env[Any, Any]]

# What makes an environment, or one such for each.
ENVS: dict[str, Creator | list[Creator]] = {
    "noop": NoOp,
    "cartpole": cartpole,
    **{
        f"spin{mean}" + f"-dev{deviation}" * (deviation > 0): functools.partial(
            Spin, mean * 1e-6, deviation / 100
        )
        for mean in (100, 500)
        for deviation in (0, 50, 100)
    },
    "uneven": [*[Sleep] * (NUM_ENVS - 1), functools.partial(Sleep, 1.25e-3)],
    "nethack": nethack,
    "breakout": breakout,
}

# What must be importable, and the line that brings it.
NEEDS = {"nethack": ("nle", "nethack"), "breakout": ("ale_py", "atari")}

# How many times a bare environment's speed is possible, where it is not the number of cores.
BOUNDS = {"uneven": NUM_ENVS - 1 + 1 / 1.25}


def each(creator: Creator | list[Creator]) -> list[Creator]:
    """One per environment."""
    return creator if isinstance(creator, list) else [creator] * NUM_ENVS


def missing(env: str) -> str | None:
    """The extra that `env` needs and that is not installed."""
    package, extra = NEEDS.get(env, (None, None))
    return extra if package and not importlib.util.find_spec(package) else None
