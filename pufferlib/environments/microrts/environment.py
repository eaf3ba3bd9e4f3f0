"""MicroRTS (Huang et al. 2021, *Gym-µRTS*): bases, workers and armies on a small map.

One environment is one game against a bot. Every square of the map has a choice of its own, the
command for the unit that stands there, and a mask of what it can do: `commands.py` says which. Of
gym-microrts 0.6.0 the Java engine is used, without its Python: that begins the next game before the
last observation is seen, takes no seeds, and stops Java for good when it is closed. Here chance is
the seed's, also when several games are in a process. Two bots go their own way: `naive_mcts`
watches the clock, and `coac` makes generators of its own where it meets a tie.

Java runs once per process and does not survive a fork, so workers are spawned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete
from numpy.typing import NDArray

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.microrts.engine import Engine
from pufferlib.postprocess import EpisodeStats

OPPONENTS = {
    "passive": "ai.PassiveAI",
    "random": "ai.RandomBiasedSingleUnitAI",
    "random_biased": "ai.RandomBiasedAI",
    "worker_rush": "ai.abstraction.WorkerRush",
    "light_rush": "ai.abstraction.LightRush",
    "coac": "ai.coac.CoacAI",
    "naive_mcts": "ai.mcts.naivemcts.NaiveMCTS",
    "mayari": "mayariBot.mayari",
}
"""Bots from weak to strong, and their Java classes."""

SCORES = ("resources", "workers", "buildings", "hits", "soldiers")
"""What the engine's rewards but the first count."""

# Letters of the unit types, in the engine's order from the first plane of types on; 0 is no unit.
_LETTERS = ".*BKWLHR"
_OWNER_PLANES, _TYPE_PLANES = slice(10, 13), slice(13, 21)

Observation = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the map's name."""

    opponent: str = "random_biased"
    """The bot to play against, one of `OPPONENTS`."""
    max_episode_steps: int = 2_000
    """Truncate episodes after this many steps."""
    reward_weights: tuple[float, ...] = (10.0, 1.0, 1.0, 0.2, 1.0, 4.0)
    """Of a win (a loss counts negatively), a resource, worker, building, hit and soldier."""
    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns the map, our units in capitals."""


class MicroRTS(gymnasium.Env[Observation, NDArray[Any]]):
    """A game as player 0, who begins at the top left.

    Observations are a Dict of `observation`, `(height, width, 27)` uint8 of 0 and 1, and
    `action_mask`; actions are a command for each square, row by row. The info of an episode's last
    step has `won` (1, or 0 for a loss, a draw or no end) and how often each of `SCORES` was paid.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 15}

    def __init__(
        self,
        engine: Engine,
        max_episode_steps: int,
        reward_weights: tuple[float, ...],
        render_mode: str | None,
    ) -> None:
        self.render_mode = render_mode
        self._engine = engine
        self._limit = max_episode_steps
        self._weights = np.array(reward_weights)
        squares, commands = engine.height * engine.width, len(engine.commands.numbers)
        self.action_space = MultiDiscrete([commands] * squares)
        self.observation_space = Dict(
            observation=Box(0, 1, engine.observation.shape, np.uint8),
            action_mask=MultiBinary(squares * commands),
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new game; a seed decides this one and those that follow it. No options."""
        if seed is not None:
            self._engine.seed(seed)
        self._engine.reset()
        self._steps = 0
        self._rewards = np.zeros(len(self._weights))
        return self._observe(), {}

    def step(self, action: NDArray[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One command for each square `(height * width,)`."""
        rewards, terminal = self._engine.step(action)
        self._steps += 1
        self._rewards += rewards
        truncation = not terminal and self._steps >= self._limit
        info = self._summary() if terminal or truncation else {}
        return self._observe(), float(rewards @ self._weights), terminal, truncation, info

    def render(self) -> str | None:
        """The map: bases B, barracks K, workers W, light L, heavy H and ranged R, resources *."""
        if self.render_mode is None:
            return None
        planes = self._engine.observation
        kinds, owners = planes[..., _TYPE_PLANES].argmax(-1), planes[..., _OWNER_PLANES].argmax(-1)
        rows = [
            "".join(
                _LETTERS[kind].lower() if owner == 2 else _LETTERS[kind]
                for kind, owner in zip(*row, strict=True)
            )
            for row in zip(kinds, owners, strict=True)
        ]
        return "\n".join(rows)

    def _observe(self) -> Observation:
        observation = self._engine.observation.astype(np.uint8)
        return {"observation": observation, "action_mask": self._engine.allowed()}

    def _summary(self) -> dict[str, float]:
        counts = dict(zip(SCORES, self._rewards[1:].tolist(), strict=True))
        return {"won": float(self._rewards[0] > 0)} | counts


def make_env(
    name: str = "basesWorkers8x8",
    opponent: str = "random_biased",
    max_episode_steps: int = 2_000,
    reward_weights: tuple[float, ...] = EnvConfig.reward_weights,
    render_mode: Literal["ansi"] | None = "ansi",
) -> GymnasiumPufferEnv:
    """Make a game on a map, by the map's name, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: there is no such map or opponent; the message has the nearest name.
        EnvironmentSetupError: `gym_microrts`, `jpype` or Java is not installed.
    """
    bot = OPPONENTS[check_task(opponent, OPPONENTS, "microrts opponent")]
    maps = _maps()
    map_file = maps[check_task(name, maps, "microrts")]
    _, jpype = require("microrts")
    engine = Engine(jpype, _folder(), map_file, bot)
    game = MicroRTS(engine, max_episode_steps, tuple(reward_weights), render_mode)
    return GymnasiumPufferEnv(env=EpisodeStats(game))


make_env.start_method = "spawn"


def env_creator(name: str = "basesWorkers8x8") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a map; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such map; the message has the nearest name.
        EnvironmentSetupError: `gym_microrts`, `jpype` or Java is not installed.
    """
    return functools.partial(make_env, check_task(name, _maps(), "microrts"))


def _folder() -> Path:
    """Where the package has the engine."""
    package, _ = require("microrts")
    return Path(package.__file__).with_name("microrts")


def _maps() -> dict[str, Path]:
    """The files of all maps, by the names that they have without `.xml`."""
    return {path.stem: path for path in sorted((_folder() / "maps").rglob("*.xml"))}
