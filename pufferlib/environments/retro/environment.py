"""Games of the Sega, Nintendo and other consoles that stable-retro emulates.

Frames are brought to what Atari's are: a maximum over the last two of a step, grey, small, stacked.

* One emulator per process: the creators demand a worker for each environment, started afresh.
* A game does the same whenever the same buttons are pressed. A seed decides which frames repeat the
  last buttons instead of the given ones (Machado et al. 2018), without which every episode would
  begin alike.
* Airstriker is free and comes with the package. Other cartridges are their owners':
  `python -m stable_retro.import FOLDER` takes them in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
from gymnasium import wrappers

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.exceptions import EnvironmentSetupError
from pufferlib.postprocess import EpisodeStats
from pufferlib.wrappers import NoInfo, ResizeObservation

DEFAULT = "Airstriker-Genesis-v0"

Buttons = Literal["multi_discrete", "discrete", "filtered", "all"]


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the game's name."""

    state: str | None = None
    """Where the game begins, by the name of a saved state such as 'Level1'; None: its default."""
    buttons: Buttons = "multi_discrete"
    """'multi_discrete': a choice for each group of buttons that exclude each other; 'discrete': one
    choice of their combinations; 'filtered', 'all': every button by itself."""
    framestack: int = 4
    """Frames in an observation `(framestack, screen_size, screen_size)`."""
    frame_skip: int = 4
    """Emulated frames per step."""
    screen_size: int = 84
    """Width and height of a frame."""
    repeat_action_probability: float = 0.25
    """Chance, in every emulated frame, that the buttons of the frame before stay pressed."""
    max_episode_steps: int | None = 4_500
    """Truncate episodes after this many steps; None: play until the game is over."""
    reward_clip: float | None = 1.0
    """Clips the reward that the learner sees to plus and minus this; statistics keep the score."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns the console's screen `(height, width, 3)`."""


def make_env(
    name: str = DEFAULT,
    state: str | None = None,
    buttons: Buttons = "multi_discrete",
    framestack: int = 4,
    frame_skip: int = 4,
    screen_size: int = 84,
    repeat_action_probability: float = 0.25,
    max_episode_steps: int | None = 4_500,
    reward_clip: float | None = 1.0,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a game by stable-retro's name, with episode statistics of the true score.

    See `EnvConfig` for the options.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `stable_retro` is not installed, or the game has not been imported.
        RuntimeError: the process has an emulator already.
    """
    env = _make_game(name, state, buttons, render_mode)
    env = wrappers.StickyAction(env, repeat_action_probability)
    env = wrappers.MaxAndSkipObservation(env, frame_skip)
    env = ResizeObservation(env, screen_size, screen_size)  # first, as most of a frame goes
    env = NoInfo(wrappers.GrayscaleObservation(env))
    if max_episode_steps is not None:
        env = wrappers.TimeLimit(env, max_episode_steps)
    env = EpisodeStats(env)
    if reward_clip is not None:
        env = wrappers.ClipReward(env, -reward_clip, reward_clip)
    return GymnasiumPufferEnv(env=wrappers.FrameStackObservation(env, framestack))


make_env.start_method = "spawn"
make_env.one_per_process = True


def env_creator(name: str = DEFAULT) -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a game; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `stable_retro` is not installed.
    """
    return functools.partial(make_env, _game_id(name))


def _game_id(name: str) -> str:
    """`name`, if stable-retro knows the game, imported or not."""
    (retro,) = require("retro")
    return check_task(name, retro.data.list_games(retro.data.Integrations.ALL), "retro")


def _make_game(
    name: str, state: str | None, buttons: Buttons, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    """The emulator with a game in it."""
    (retro,) = require("retro")
    try:
        game: gymnasium.Env[Any, Any] = retro.make(
            _game_id(name),
            state=state or retro.State.DEFAULT,
            inttype=retro.data.Integrations.ALL,
            use_restricted_actions=retro.Actions[buttons.upper()],
            render_mode=render_mode,
        )
    except FileNotFoundError as error:
        raise EnvironmentSetupError(
            f"retro: {name} cannot be made: {error} Import the cartridges that you own with: "
            "python -m stable_retro.import FOLDER"
        ) from error
    return game
