"""What families share whose games are parallel PettingZoo environments, a module each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

from pettingzoo.utils.env import ParallelEnv

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.postprocess import MultiagentEpisodeStats
from pufferlib.wrappers import PadAgentSpaces

Game: TypeAlias = ParallelEnv[Any, Any, Any]


def make_game(module: str, **options: Any) -> Game:
    """The game of a module such as `mpe2.simple_spread_v3`, with statistics of each life.

    Args:
        module: has the function `parallel_env`.
        options: arguments of that function; those that are None keep the game's own defaults.
    """
    make: Callable[..., Game] = importlib.import_module(module).parallel_env
    given = {name: value for name, value in options.items() if value is not None}
    return MultiagentEpisodeStats(make(**given))


def emulate(game: Game) -> PettingZooPufferEnv:
    """A game whose agents have a row each, padded to a common space where theirs differ."""
    return PettingZooPufferEnv(PadAgentSpaces(game))
