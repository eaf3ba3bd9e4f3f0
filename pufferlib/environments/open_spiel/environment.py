"""OpenSpiel's games, all players of a game as agents of one environment.

Straight on `pyspiel`: shimmy's adapter goes through turns of single agents, loads the game anew at
every reset and repeats the observation before the last move after it.

Left out are games without a tensor to observe, mean-field games, and those that draw chance from a
generator of their own, where no seed of `reset` would decide the game.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.open_spiel.game import SpielGame
from pufferlib.postprocess import MultiagentEpisodeStats


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the game's name."""

    whole_history: bool = False
    """Players observe all they have seen so far (OpenSpiel's information state), if the game has
    that, instead of what they see now."""
    max_episode_steps: int | None = None
    """Truncate games after this many moves; None: OpenSpiel's bound for the game."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns the state as text."""


def make_env(
    name: str = "connect_four",
    whole_history: bool = False,
    max_episode_steps: int | None = None,
    render_mode: Literal["ansi"] | None = "ansi",
) -> PettingZooPufferEnv:
    """Make a game by OpenSpiel's name, with statistics of each player; see `EnvConfig`.

    Args:
        name: may have parameters, as in `go(board_size=9)`.
        whole_history, max_episode_steps, render_mode: see `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `pyspiel` is not installed.
    """
    (pyspiel,) = require("open_spiel")
    game = pyspiel.load_game(_known(name))
    spiel = SpielGame(game, whole_history, max_episode_steps, render_mode)
    return PettingZooPufferEnv(MultiagentEpisodeStats(spiel))


def env_creator(name: str = "connect_four") -> Callable[..., PettingZooPufferEnv]:
    """The make function of a game; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `pyspiel` is not installed.
    """
    return functools.partial(make_env, _known(name))


def _known(name: str) -> str:
    """`name`, if what stands before its parameters is the name of a game."""
    (pyspiel,) = require("open_spiel")
    kinds = pyspiel.registered_games()
    games = [kind.short_name for kind in kinds if _is_playable(pyspiel.GameType, kind)]
    check_task(name.partition("(")[0], games, "open_spiel")
    return name


def _is_playable(kinds: Any, kind: Any) -> bool:
    return (
        kind.default_loadable
        and not kind.action_structs_only
        and (kind.provides_observation_tensor or kind.provides_information_state_tensor)
        and kind.dynamics != kinds.Dynamics.MEAN_FIELD
        and kind.chance_mode != kinds.ChanceMode.SAMPLED_STOCHASTIC
    )
