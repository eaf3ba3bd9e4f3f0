"""Super Mario Bros. and its Lost Levels through gym-super-mario-bros 7.4.0, from the pixels.

Frame skip with a maximum over the last two frames, grey 84 × 84 pixels and a stack of frames, as
for Atari (Mnih et al. 2015). The reward is the games' own: steps to the right less the ticks of the
clock, and 25 off for a death, at most 15 either way per frame. The game knows no chance: without
`RandomStages` every episode is decided by the actions alone.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.gym.environment import bare
from pufferlib.environments.mario.console import Console, let_bytes_add_up
from pufferlib.postprocess import EpisodeStats
from pufferlib.wrappers import LastInfo, ResizeObservation

REPORTED = ("score", "coins", "x_pos", "flag_get", "world", "stage")
"""What an episode's summary has of the game's last frame."""

MOVEMENTS = {"right": "RIGHT_ONLY", "simple": "SIMPLE_MOVEMENT", "complex": "COMPLEX_MOVEMENT"}
"""The lists of buttons in `gym_super_mario_bros.actions`."""


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    framestack: int = 4
    """Frames in an observation `(framestack, screen_size, screen_size)`."""
    frame_skip: int = 4
    """Emulated frames per step; the last two are merged by their maximum."""
    screen_size: int = 84
    """Width and height of a frame."""
    movement: Literal["right", "simple", "complex"] = "simple"
    """What can be pressed: 5, 7 or 12 combinations of buttons."""
    max_episode_steps: int | None = None
    """Truncate episodes after this many steps; None: only the game's own clock ends them."""
    reward_scale: float = 0.1
    """Multiplies the reward that the learner sees; episode statistics keep the game's."""
    render_mode: Literal["rgb_array"] | None = "rgb_array"
    """'rgb_array': `render()` returns the screen `(240, 256, 3)`."""


def make_env(
    name: str = "SuperMarioBros-v0",
    framestack: int = 4,
    frame_skip: int = 4,
    screen_size: int = 84,
    movement: Literal["right", "simple", "complex"] = "simple",
    max_episode_steps: int | None = None,
    reward_scale: float = 0.1,
    render_mode: Literal["rgb_array"] | None = "rgb_array",
) -> GymnasiumPufferEnv:
    """Make a game by its id (`SuperMarioBros-1-1-v0` is one stage); see `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `gym_super_mario_bros` or `nes_py` is not installed.
    """
    env: gymnasium.Env[Any, Any] = Console(_game(name, movement), render_mode)
    if frame_skip > 1:
        env = gymnasium.wrappers.MaxAndSkipObservation(env, frame_skip)
    if max_episode_steps is not None:
        env = gymnasium.wrappers.TimeLimit(env, max_episode_steps)
    env = EpisodeStats(LastInfo(env, REPORTED))
    env = gymnasium.wrappers.TransformReward(env, functools.partial(operator.mul, reward_scale))
    env = gymnasium.wrappers.GrayscaleObservation(ResizeObservation(env, screen_size, screen_size))
    return GymnasiumPufferEnv(env=gymnasium.wrappers.FrameStackObservation(env, framestack))


def env_creator(name: str = "SuperMarioBros-v0") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a game; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `gym_super_mario_bros` or `nes_py` is not installed.
    """
    return functools.partial(make_env, _known(name))


def _game(name: str, movement: str) -> Any:
    """The game of the old Gym API, with the buttons of a movement."""
    gym, _, nes_py = require("mario")
    let_bytes_add_up(nes_py)
    game = gym.make(bare(gym.envs.registry[_known(name)]))
    actions = importlib.import_module("gym_super_mario_bros.actions")
    joypad: Any = importlib.import_module("nes_py.wrappers").JoypadSpace
    return joypad(game, getattr(actions, MOVEMENTS[movement]))


def _known(name: str) -> str:
    """`name`, if it is one of the games' ids in Gym's registry."""
    gym, *_ = require("mario")
    return check_task(name, [key for key in gym.envs.registry if "SuperMario" in key], "mario")
