"""Minecraft through MineRL 1.0: small frames, and every key and the mouse as a choice each.

Written against MineRL's documented interface, which is that of the old `gym`, and tested with a
stand-in that speaks it. MineRL itself has not been run with this.

* Actions of MineRL are a Dict of keys, 0 or 1, and `camera`, two turns in degrees. Here all are one
  MultiDiscrete: the keys in the order of their names, then pitch and yaw, each out of
  `camera_bins` turns that are evenly spaced between plus and minus `camera_degrees`.
* Of the observations the agent gets `pov`, the view, made smaller.
* MineRL's `reset` takes no seed, and its `seed(…)` decides one world. Here the environment's own
  generator draws one for every episode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.postprocess import EpisodeStats
from pufferlib.wrappers import GymToGymnasium, ResizeObservation

TASKS = (
    "MineRLBasaltBuildVillageHouse-v0",
    "MineRLBasaltCreateVillageAnimalPen-v0",
    "MineRLBasaltFindCave-v0",
    "MineRLBasaltMakeWaterfall-v0",
    "MineRLObtainDiamondShovel-v0",
)
VIEW, CAMERA = "pov", "camera"


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    width: int = 128
    """Of a frame, in pixels; MineRL's have 640."""
    height: int = 128
    """Of a frame, in pixels; MineRL's have 360."""
    camera_bins: int = 11
    """Turns to choose from, for pitch and yaw each; odd, so that one of them is none."""
    camera_degrees: float = 10.0
    """The largest turn in a step, in degrees."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns the view in its full size."""


class Player:
    """A game of the old Gym API whose observations are the view, and whose actions are choices."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, game: Any, config: EnvConfig) -> None:
        self._game = game
        self._generator = np.random.default_rng()
        self._keys = sorted(key for key in game.action_space.spaces if key != CAMERA)
        self._turns = np.linspace(
            -config.camera_degrees, config.camera_degrees, config.camera_bins, dtype=np.float32
        )
        self.render_mode = config.render_mode
        self.action_space = MultiDiscrete([2] * len(self._keys) + [config.camera_bins] * 2)
        self.observation_space = Box(0, 255, game.observation_space.spaces[VIEW].shape, np.uint8)

    def seed(self, seed: int) -> None:
        """Decides the worlds of all episodes that follow."""
        self._generator = np.random.default_rng(seed)

    def reset(self) -> np.ndarray:
        """The first view of a new world."""
        self._game.seed(int(self._generator.integers(2**31)))
        return self._view(self._game.reset())

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
        """Press the chosen keys and turn."""
        *pressed, pitch, yaw = action.tolist()
        chosen = dict(zip(self._keys, pressed, strict=True))
        observation, reward, done, info = self._game.step(
            chosen | {CAMERA: self._turns[[pitch, yaw]]}
        )
        return self._view(observation), float(reward), done, info

    def render(self) -> np.ndarray:
        """The last view."""
        return self._last

    def close(self) -> None:
        """End the game."""
        self._game.close()

    def _view(self, observation: dict[str, Any]) -> np.ndarray:
        self._last: np.ndarray = observation[VIEW]
        return self._last


def make_env(name: str = "MineRLObtainDiamondShovel-v0", **options: Any) -> GymnasiumPufferEnv:
    """Make a task by its Gym id, with episode statistics; `options` are those of `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `minerl` or the old `gym` is not installed.
    """
    check_task(name, TASKS, "minerl")
    gym, _ = require("minerl")  # MineRL registers its tasks with it
    config = EnvConfig(**options)
    env = GymToGymnasium(Player(gym.make(name), config))
    return GymnasiumPufferEnv(env=ResizeObservation(EpisodeStats(env), config.height, config.width))


def env_creator(
    name: str = "MineRLObtainDiamondShovel-v0",
) -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "minerl"))
