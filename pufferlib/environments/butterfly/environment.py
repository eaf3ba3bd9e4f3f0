"""PettingZoo's Butterfly games.

Where agents see pixels, every agent gets a stack of small grey frames, as the games of Atari do
(Mnih et al. 2015): frames of the original size are 25 times as large, and one shows no motion.

What PettingZoo 1.27 does, and what is changed here:

* Cooperative Pong draws nothing unless it is made for rendering: its agents see black frames. Here
  every game is made so; it costs the others nothing until `render()` is called.
* Zombies come at a fixed interval, which runs on from one episode into the next, so that no seed
  decides when the first one comes. Here it begins with the episode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
from gymnasium.wrappers import FrameStackObservation, GrayscaleObservation
from pettingzoo.utils import BaseParallelWrapper

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.parallel import emulate, make_game
from pufferlib.wrappers import PerAgent, ResizeObservation

TASKS = ("knights_archers_zombies", "cooperative_pong", "pistonball")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the game's name; it hands any others to the game."""

    max_cycles: int | None = None
    """Truncate episodes after this many steps; None: the game's own limit (900, 900, 125)."""
    screen_size: int = 84
    """Width and height of a frame, where agents see pixels."""
    framestack: int = 4
    """Frames in an observation `(framestack, screen_size, screen_size)`."""
    render_mode: Literal["rgb_array"] = "rgb_array"
    """'rgb_array': `render()` returns the screen."""


class ZombieClock(BaseParallelWrapper[Any, Any, Any]):
    """Begins the interval between zombies with the episode."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """A new game, in which no time has passed."""
        self.env.unwrapped.zombie_spawn_interval.reset()
        return self.env.reset(seed=seed, options=options)


def make_env(
    name: str = "knights_archers_zombies",
    max_cycles: int | None = None,
    screen_size: int = 84,
    framestack: int = 4,
    render_mode: Literal["rgb_array"] = "rgb_array",
    **options: Any,
) -> PettingZooPufferEnv:
    """Make a game by its name without the version; see `EnvConfig`.

    Observations are float64 `(27, 5)` for the knights and archers, else a stack of frames (uint8).

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: pygame or pymunk is not installed.
    """
    require("butterfly")
    check_task(name, TASKS, "butterfly")
    module = f"pettingzoo.butterfly.{name}.{name}"  # its file: the name with a version is outdated
    game = make_game(module, max_cycles=max_cycles, render_mode=render_mode, **options)
    if name == "knights_archers_zombies":
        game = ZombieClock(game)
    if len(game.observation_space(game.possible_agents[0]).shape) == 3:
        game = PerAgent(game, _stack_small_frames, screen_size, framestack)
    return emulate(game)


def env_creator(name: str = "knights_archers_zombies") -> Callable[..., PettingZooPufferEnv]:
    """The make function of a game; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "butterfly"))


def _stack_small_frames(
    env: gymnasium.Env[Any, Any], size: int, depth: int
) -> gymnasium.Env[Any, Any]:
    small: gymnasium.Env[Any, Any] = GrayscaleObservation(ResizeObservation(env, size, size))
    return FrameStackObservation(small, depth)
