"""Doom from the first person: the scenarios of ViZDoom, and the levels of Freedoom.

What ViZDoom 1.3 does, and what is changed here:

* When a scenario's time is up, the step is terminal *and* truncated, and its observation is blank.
  Here the limit only truncates, and the last observation is the one that was reached.
* The game leaves files in the directory that it is started in. Here that is a temporary one,
  removed by `close()` or at interpreter exit.
* An observation is a dictionary of the screen and a few variables. Here it is a stack of small grey
  frames, which is what its published agents see.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.wrappers import FrameStackObservation, GrayscaleObservation, TimeLimit

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.registered import Env, ids_of, make_registered
from pufferlib.wrappers import ResizeObservation

HEIGHT, WIDTH = 60, 80

# What they name is heard or read, not seen, or needs the files of the game that is sold.
_LEFT_OUT = ("Audio", "Notifications", "VizdoomDoom")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the scenario's name."""

    framestack: int = 4
    """Grey frames in an observation `(framestack, 60, 80)` uint8."""
    frame_skip: int = 4
    """Tics of the game per step, of which a second has 35."""
    max_episode_steps: int | None = None
    """Truncate episodes after this many steps, if the scenario's time is not up before."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns the screen `(120, 160, 3)`."""


class Screen(gymnasium.Wrapper[np.ndarray, Any, dict[str, Any], Any]):
    """The screen `(120, 160, 3)` alone, from a game that keeps its files to itself."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_space = env.observation_space["screen"]
        self._folder = tempfile.TemporaryDirectory(prefix="vizdoom")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """A new episode; the first starts the game, as a program of its own."""
        with contextlib.chdir(self._folder.name):
            observation, info = self.env.reset(seed=seed, options=options)
        return observation["screen"], info

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """One step."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        return observation["screen"], reward, terminal, truncation, info

    def close(self) -> None:
        """End the game and remove its files."""
        super().close()
        self._folder.cleanup()


def make_env(
    name: str = "VizdoomDefendCenter-v1",
    framestack: int = 4,
    frame_skip: int = 4,
    max_episode_steps: int | None = None,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a scenario by its Gymnasium id, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: there is no such scenario; the message has the nearest name.
        EnvironmentSetupError: `vizdoom` is not installed.
    """
    return make_registered(
        _task(name),
        max_episode_steps,
        render_mode,
        functools.partial(_frames, framestack=framestack, frame_skip=frame_skip),
        frame_skip=frame_skip,
        screen_resolution="RES_160X120",
    )


def env_creator(name: str = "VizdoomDefendCenter-v1") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a scenario; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such scenario; the message has the nearest name.
        EnvironmentSetupError: `vizdoom` is not installed.
    """
    return functools.partial(make_env, _task(name))


def _frames(env: Env, framestack: int, frame_skip: int) -> Env:
    """Small grey frames, with the limit of the game as one of Gymnasium."""
    game: Any = env.unwrapped.game
    tics = game.get_episode_timeout()
    if tics > 0:
        game.set_episode_timeout(0)
        env = TimeLimit(env, math.ceil(tics / frame_skip))
    small = ResizeObservation(Screen(env), HEIGHT, WIDTH)
    # Grey after it is small: the weighted sum costs more than the rest of what is done to a screen.
    return FrameStackObservation(GrayscaleObservation(small), framestack)


def _task(name: str) -> str:
    require("vizdoom")
    importlib.import_module("vizdoom.gymnasium_wrapper")  # registers them
    tasks = [task for task in ids_of("vizdoom") if not any(part in task for part in _LEFT_OUT)]
    return check_task(name, tasks, "vizdoom")
