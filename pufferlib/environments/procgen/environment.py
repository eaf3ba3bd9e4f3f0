"""Procgen (Cobbe et al. 2020): sixteen games whose levels are generated, to measure generalization.

Train on `num_levels=200` and evaluate on all levels (`num_levels=0`), as the paper does for easy
levels. What procgen 0.10.7 does, and what is changed here:

* Its interface, gym3's, steps many games at once. So does one environment here: a game costs a
  quarter less among sixteen than alone.
* A seed can only be given when games are made, which is cheap but for the first time in a process.
  Here every reset makes them anew, from the seed or from what follows of its stream.
* An episode's last image is never drawn, the next level's comes in its place. Ends are therefore
  terminal, those by the limit of time (1,000 steps in most games) too, as in published results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.environment import Infos, PufferEnv
from pufferlib.environments import check_task, require
from pufferlib.postprocess import EpisodeSummary

TASKS = (
    *("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot"),
    *("heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder", "starpilot"),
)

Mode = Literal["easy", "hard", "extreme", "memory", "exploration"]


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the game's name."""

    num_games: int = 1
    """Games that one environment steps, each an agent."""
    distribution_mode: Mode = "easy"
    """How hard levels are; not every game has 'extreme', 'memory' and 'exploration'."""
    num_levels: int = 0
    """How many levels there are; 0: no end of them. 'exploration' has one, whatever this says."""
    start_level: int = 0
    """The number of the first level."""
    use_backgrounds: bool = True
    """Pictures behind the games; without them they are black."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns the first game, `(512, 512, 3)`; drawn at every step, which
    then takes thirty times as long."""


class Procgen(PufferEnv):
    """Several games of one kind, each an agent; observations `(64, 64, 3)` uint8, 15 actions.

    The info of an episode's end has `solved`, 1 where the level's goal was reached, else 0.

    Args:
        make_games: makes gym3's environment from `rand_seed`.
        num_games: how many it steps.
        render_mode: 'rgb_array' or None.
    """

    autoreset_mode = AutoresetMode.SAME_STEP
    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def __init__(
        self, make_games: Callable[..., Any], num_games: int, render_mode: str | None
    ) -> None:
        self.single_observation_space = Box(0, 255, (64, 64, 3), np.uint8)
        self.single_action_space = Discrete(15)
        self.num_agents = num_games
        self.render_mode = render_mode
        super().__init__()
        self._make_games = make_games
        self._rng = np.random.default_rng()
        self._games: Any = None
        self._episodes = [EpisodeSummary() for _ in range(num_games)]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """New games; a seed decides them and those of the resets that follow. No options."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._remake_games()
        for episode in self._episodes:
            episode.clear()
        self._observe()
        self.terminals[:] = False
        self.truncations[:] = False
        return []

    def step(self, actions: NDArray[Any]) -> Infos:
        """Act in every game; the info of an episode's end is its summary."""
        self._games.act(actions)
        self.terminals[:] = self._observe()
        self.truncations[:] = False
        ends = self.terminals.nonzero()[0]
        outcomes = self._games.get_info() if len(ends) else ()
        for agent, episode in enumerate(self._episodes):
            ended = self.terminals[agent]
            solved = {"solved": int(outcomes[agent]["prev_level_complete"])} if ended else {}
            episode.add(self.rewards[agent], solved)
        return [self._result(agent) for agent in ends]

    def get_state(self) -> Any:
        """What `set_state` goes on from: Procgen's own states, and the episodes so far."""
        return self._games and self._games.get_state(), self._rng, self._episodes

    def set_state(self, state: Any) -> None:
        """Go on from `get_state`."""
        games, rng, self._episodes = state
        if games is not None:
            self._remake_games()
            self._games.set_state(games)
        self._rng = rng

    def render(self) -> NDArray[np.uint8] | None:
        """The first game, in higher resolution; None without a render mode."""
        if self.render_mode is None:
            return None
        image: NDArray[np.uint8] = self._games.get_info()[0]["rgb"]
        return image

    def close(self) -> None:
        """Free the games."""
        if self._games is not None:
            self._games.close()
            self._games = None

    def _remake_games(self) -> None:
        self.close()
        self._games = self._make_games(rand_seed=int(self._rng.integers(2**31 - 1)))

    def _observe(self) -> NDArray[np.bool_]:
        """Write observations and rewards; returns which games show their first image."""
        rewards, observations, firsts = self._games.observe()
        self.observations[:] = observations["rgb"]
        self.rewards[:] = rewards
        return firsts

    def _result(self, agent: int) -> dict[str, Any]:
        result = self._episodes[agent].result()
        self._episodes[agent].clear()
        return result


def make_env(
    name: str = "coinrun",
    num_games: int = 1,
    distribution_mode: Mode = "easy",
    num_levels: int = 0,
    start_level: int = 0,
    use_backgrounds: bool = True,
    render_mode: Literal["rgb_array"] | None = None,
) -> Procgen:
    """Make games by their name, with episode statistics; see `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
        EnvironmentSetupError: `procgen` or what it needs is not installed.
    """
    check_task(name, TASKS, "procgen")
    procgen, *_ = require("procgen")
    levels = {"num_levels": num_levels, "start_level": start_level}
    make_games = functools.partial(
        procgen.ProcgenGym3Env,
        num=num_games,
        env_name=name,
        distribution_mode=distribution_mode,
        use_backgrounds=use_backgrounds,
        num_threads=0,  # vectorization has processes
        render_mode=render_mode,
        **({} if distribution_mode == "exploration" else levels),
    )
    return Procgen(make_games, num_games, render_mode)


def env_creator(name: str = "coinrun") -> Callable[..., Procgen]:
    """The make function of a game; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such game; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, TASKS, "procgen"))
