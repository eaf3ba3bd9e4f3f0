"""The multi-particle environments: points that move, meet and talk on a plane.

Where the roles of agents have different spaces, as hunters and prey do, all get the smallest space
that holds everyone's: a shorter observation ends in zeros, and an action that a role does not have
means its first one, to do nothing.
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
    "collect_treasure",
    "simple",
    "simple_adversary",
    "simple_crypto",
    "simple_formation",
    "simple_line",
    "simple_push",
    "simple_reference",
    "simple_speaker_listener",
    "simple_spread",
    "simple_tag",
    "simple_world_comm",
)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the scenario's name; it hands any others to the scenario."""

    max_cycles: int = 25
    """Truncate episodes after this many steps."""
    continuous_actions: bool = False
    """Forces from 0 to 1 in each direction instead of a choice of one."""
    render_mode: Literal["rgb_array"] | None = "rgb_array"
    """'rgb_array': `render()` returns an image."""


def make_env(
    name: str = "simple_spread",
    max_cycles: int = 25,
    continuous_actions: bool = False,
    render_mode: Literal["rgb_array"] | None = "rgb_array",
    **options: Any,
) -> PettingZooPufferEnv:
    """Make a scenario by its name without the version, such as `simple_tag`; see `EnvConfig`.

    Observations are float32 `(features,)`.

    Raises:
        ConfigError: there is no such scenario; the message has the nearest name.
        EnvironmentSetupError: `mpe2` is not installed.
    """
    require("mpe")
    check_task(name, TASKS, "mpe")
    game = make_game(
        f"mpe2.{name}.{name}",
        max_cycles=max_cycles,
        continuous_actions=continuous_actions,
        render_mode=render_mode,
        **options,
    )
    return emulate(game)


def env_creator(name: str = "simple_spread") -> Callable[..., PettingZooPufferEnv]:
    """The make function of a scenario; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such scenario; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "mpe"))
