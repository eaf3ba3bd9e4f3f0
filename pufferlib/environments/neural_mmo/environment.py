"""Neural MMO: many agents that forage, fight and trade in one world, until they die.

What Neural MMO 2.1 does, and what is changed here:

* The allowed actions are an observation, `ActionTargets`. Here they are `action_mask`, which
  policies obey. (Who has somebody in reach may not choose to attack nobody: that is the game's.)
* Observations hold the embedding of a task, 8 kB of zeros unless a curriculum sets tasks. Here they
  have it only with a curriculum.
* Infos have a key for each agent and task, so that their means over agents say nothing. Here a life
  ends with `exploration` (squares that it came from the edge towards the centre), `level` (of its
  best skill) and `player_kills`; `task_progress` (0 to 1) is added with a curriculum.
* Maps are written to the working directory, where the workers would overwrite each other's. Here
  every environment has a folder of its own, removed by `close()` or at interpreter exit.
* `render()` does nothing, as Neural MMO is shown by a program of its own. Here it draws the map.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environments import check_task, nearest, require
from pufferlib.environments.neural_mmo.world import World
from pufferlib.exceptions import ConfigError
from pufferlib.postprocess import MultiagentEpisodeStats

# Sizes of worlds, as classes of `nmmo.config`.
TASKS = {"small": "Small", "medium": "Medium", "large": "Large"}

SYSTEMS = (
    "Terrain",
    "Resource",
    "Combat",
    "NPC",
    "Progression",
    "Item",
    "Equipment",
    "Profession",
    "Exchange",
    "Communication",
)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the size; others set `nmmo`'s options of that name."""

    num_players: int | None = None
    """Agents; None: the size's own number (64, 128, 1024)."""
    horizon: int | None = None
    """Truncate episodes after this many steps; None: the size's own limit (128, 1024, 8192)."""
    num_maps: int = 1
    """Terrains to draw from at each reset, made when the environment is; what grows there and who
    lives there is drawn anew each time."""
    systems: tuple[str, ...] = SYSTEMS
    """What there is in the world; fewer systems have fewer observations and actions."""
    render_mode: Literal["rgb_array"] = "rgb_array"
    """'rgb_array': `render()` returns an image of the map."""


def make_env(
    name: str = "small",
    num_players: int | None = None,
    horizon: int | None = None,
    num_maps: int = 1,
    systems: tuple[str, ...] = SYSTEMS,
    render_mode: Literal["rgb_array"] = "rgb_array",
    **options: Any,
) -> PettingZooPufferEnv:
    """Make a world of a size: 'small', 'medium' (the size of `nmmo.config.Default`) or 'large'.

    The reward is 1 / horizon for each step of life and -1 for death, unless
    `CURRICULUM_FILE_PATH` names a file of tasks.

    Args:
        name: the size.
        num_players, horizon, num_maps, systems, render_mode: see `EnvConfig`.
        options: what else to set in the configuration, by `nmmo`'s names, such as `NPC_N=16`.

    Raises:
        ConfigError: there is no such size, system or option.
        EnvironmentSetupError: `nmmo` is not installed.
    """
    (nmmo,) = require("neural_mmo")
    size = TASKS[check_task(name, TASKS, "neural_mmo")]
    if unknown := set(systems) - set(SYSTEMS):
        raise ConfigError(f"systems: expected some of {', '.join(SYSTEMS)}, got {sorted(unknown)}")
    bases = tuple(getattr(nmmo.config, part) for part in (size, *systems))
    config = type("Config", bases, {})()
    named = {"PLAYER_N": num_players, "HORIZON": horizon, "MAP_N": num_maps}
    known = list(config)
    for key, value in (named | options).items():
        if key not in known:
            raise ConfigError(f"neural_mmo: unknown option {key!r}{nearest(key, known)}")
        if value is not None:
            config.set(key, value)
    return PettingZooPufferEnv(MultiagentEpisodeStats(World(config, nmmo.Env, render_mode)))


def env_creator(name: str = "small") -> Callable[..., PettingZooPufferEnv]:
    """The make function of a size; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such size; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "neural_mmo"))
