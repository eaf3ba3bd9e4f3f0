"""What the benchmarks step: environments that cost nothing, a known time, or are real.

There are 8 of each, but 16 of those that use a known CPU time: eight per core of the two that the
results are from. That row asks how close vectorization comes to all of the cores, and EnvPool's
guide gives a pool two to three times as many environments as it has threads, so that a worker finds
the next one waiting when it is done. More per worker even out the steps that differ and share the
cost of waking a process up. Every contestant gets the same number.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

Creator = Callable[[], gymnasium.Env[Any, Any]]


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


def gameboy() -> gymnasium.Env[Any, Any]:
    from gameboy import GameBoy

    return GameBoy()


@dataclass(frozen=True)
class Workload:
    """What one benchmark steps.

    Attributes:
        creators: one per environment.
        bound: how many times a bare environment's speed is possible; None: the number of cores.
        package, extra: what must be importable, and the extra of pufferlib that brings it; without
            an extra pip knows the package by the same name.
    """

    creators: list[Creator]
    bound: float | None = None
    package: str | None = None
    extra: str | None = None

    @property
    def missing(self) -> bool:
        """Whether what it needs is not installed."""
        return self.package is not None and importlib.util.find_spec(self.package) is None

    @property
    def install(self) -> str:
        """What brings it."""
        return (
            f"pip install 'pufferlib[{self.extra}]'"
            if self.extra
            else f"pip install {self.package}"
        )


def spin(mean: int, deviation: int) -> Workload:
    """16 environments of `mean` µs a step, give or take `deviation` %."""
    return Workload([functools.partial(Spin, mean * 1e-6, deviation / 100)] * 16)


WORKLOADS = {
    "noop": Workload([NoOp] * 8),
    "cartpole": Workload([cartpole] * 8),
    **{
        f"spin{mean}" + f"-dev{deviation}" * (deviation > 0): spin(mean, deviation)
        for mean in (100, 500)
        for deviation in (0, 50, 100)
    },
    "uneven": Workload([*[Sleep] * 7, functools.partial(Sleep, 1.25e-3)], bound=7 + 1 / 1.25),
    "nethack": Workload([nethack] * 8, package="nle", extra="nethack"),
    "breakout": Workload([breakout] * 8, package="ale_py", extra="atari"),
    "gameboy": Workload([gameboy] * 8, package="pyboy"),
}
