"""MAgent's games: dozens to hundreds of agents on a grid, most of which die.

Where agents of a game have different spaces, as tigers and deer do, all get the smallest space that
holds everyone's: a smaller view ends in zeros, and an action that an agent does not have means its
first one, to stay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.parallel import emulate, make_game

TASKS = (
    "adversarial_pursuit",
    "battle",
    "battlefield",
    "combined_arms",
    "gather",
    "tiger_deer",
)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the game's name; it hands any others, rewards, to the game."""

    map_size: int | None = None
    """Width and height of the map, which decide how many agents there are; None: the game's own
    (45; battlefield 80). Gather has only one size."""
    max_cycles: int | None = None
    """Truncate episodes after this many steps; None: the game's own limit (300 to 1,000)."""
    minimap_mode: bool = False
    """Two more planes in the view: how many of each side are where on the map."""
    extra_features: bool = False
    """More planes in the view: the agent's last action and reward."""
    render_mode: Literal["rgb_array"] | None = "rgb_array"
    """'rgb_array': `render()` returns an image of the map (needs pygame)."""


def make_env(
    name: str = "battle",
    map_size: int | None = None,
    max_cycles: int | None = None,
    minimap_mode: bool = False,
    extra_features: bool = False,
    render_mode: Literal["rgb_array"] | None = "rgb_array",
    **options: Any,
) -> PettingZooPufferEnv:
    """Make a game by its name without the version; see `EnvConfig`.

    Observations are the agent's surroundings, float32 `(height, width, planes)`; for battle
    `(13, 13, 5)`: walls, the own side, its health, the other side, its health.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `magent2` is not installed.
    """
    require("magent")
    game = make_game(
        f"magent2.environments.{check_task(name, TASKS, 'magent')}",
        map_size=map_size,
        max_cycles=max_cycles,
        minimap_mode=minimap_mode,
        extra_features=extra_features,
        render_mode=render_mode,
        **options,
    )
    return emulate(game)


def env_creator(name: str = "battle") -> Callable[..., PettingZooPufferEnv]:
    """The make function of a game; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "magent"))
