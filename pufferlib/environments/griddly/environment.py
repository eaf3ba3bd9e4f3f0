"""Games on grids that Griddly (Bamford et al. 2020) reads from description files.

What griddly 1.6.7 does, and what is changed here:

* It speaks Gym's interface of 2021 and takes a seed apart from `reset`. Games without chance, as
  Sokoban, are the same for every seed.
* Its limit of steps counts one too many and ends a game as lost. Here the limit truncates.
* Its pictures of sprites need Vulkan. Here a picture shows each kind of object as a colour.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.exceptions import ConfigError
from pufferlib.postprocess import EpisodeStats
from pufferlib.wrappers import GymToGymnasium


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the game's name."""

    level: int = 0
    """Which of the game's levels to play, counted from 0; they may differ in size."""
    max_episode_steps: int = 200
    """Truncate episodes after this many steps."""
    render_mode: Literal["rgb_array"] | None = "rgb_array"
    """'rgb_array': `render()` returns an image with 10 × 10 pixels for each square."""


class GriddlyTask(GymToGymnasium):
    """A game for one player; observations `(kinds of object, width, height)` uint8 of 0 and 1.

    The info of an episode's last step has `won`: 1, or 0 where the game is lost or time is up.
    """

    def __init__(self, env: Any, max_episode_steps: int, render_mode: str | None) -> None:
        super().__init__(env, render_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
        self._limit = max_episode_steps

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The game from its beginning; a seed decides what chance does from here on."""
        self._steps = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One action; truncates at the limit."""
        observation, reward, terminal, _, info = super().step(action)
        self._steps += 1
        truncation = not terminal and self._steps >= self._limit
        has_won = terminal and info["PlayerResults"]["1"] == "Win"
        outcome = {"won": int(has_won)} if terminal or truncation else {}
        return observation, reward, terminal, truncation, outcome

    def render(self) -> np.ndarray | None:
        """The grid; None without a render mode."""
        if self.render_mode is None:
            return None
        image: np.ndarray = super().render()
        return image


def make_env(
    name: str = "sokoban",
    level: int = 0,
    max_episode_steps: int = 200,
    render_mode: Literal["rgb_array"] | None = "rgb_array",
) -> GymnasiumPufferEnv:
    """Make a game, with episode statistics; see `EnvConfig`.

    Args:
        name: one of Griddly's games for one player, or the path of a description file `….yaml`.

    Raises:
        ConfigError: there is no such game, level or file, or it is for several players.
        EnvironmentSetupError: `griddly` or `gym` is not installed.
    """
    path = _description(name)
    griddly, _ = require("griddly")
    game = griddly.GriddlyLoader().load(path)
    if level not in range(game.get_level_count()) or game.get_player_count() != 1:
        raise ConfigError(
            f"griddly: expected a game for one player with a level {level}, got {name} for "
            f"{game.get_player_count()} with levels 0 to {game.get_level_count() - 1}"
        )
    env = griddly.GymWrapper(yaml_file=path, level=level)
    env.reset()  # until then it does not know the shape of its observations
    task = GriddlyTask(env, max_episode_steps, render_mode)
    return GymnasiumPufferEnv(env=EpisodeStats(task))


def env_creator(name: str = "sokoban") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a game; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such game or file; the message has the nearest name.
        EnvironmentSetupError: `griddly` or `gym` is not installed.
    """
    _description(name)
    return functools.partial(make_env, name)


def _description(name: str) -> str:
    """The path of a game's description file."""
    if name.endswith(".yaml"):
        if not Path(name).is_file():
            raise ConfigError(f"griddly: expected the path of a description file, got {name!r}")
        return str(Path(name).resolve())
    griddly, _ = require("griddly")
    folder = Path(griddly.__file__).with_name("resources") / "games" / "Single-Player"
    games = {path.stem: str(path) for path in folder.rglob("*.yaml")}
    return games[check_task(name, games, "griddly")]
