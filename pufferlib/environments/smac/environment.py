"""Battles of the StarCraft Multi-Agent Challenge: every unit is an agent with an action mask.

Written against SMAC's documented Python interface and tested with a stand-in that speaks it.
StarCraft II itself, several gigabytes under a licence of its own, has not been run with this.

* A seed belongs to SMAC's constructor. `reset(seed)` therefore starts StarCraft II anew, which
  takes seconds; resets without a seed go on in the running game.
* All units share one reward. A unit that died stays, sees zeros and can only do nothing, as SMAC
  has it, so that it still gets what its team earns.
* SMAC reports a battle that reached its limit of steps as terminated; here it is truncated.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from pettingzoo.utils.env import ParallelEnv

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.postprocess import MultiagentEpisodeStats
from pufferlib.wrappers.masks import ACTION_MASK

# Samvelyan et al. 2019, "The StarCraft Multi-Agent Challenge", table 1, and the maps to begin with.
MAPS = (
    "10m_vs_11m",
    "1c3s5z",
    "25m",
    "27m_vs_30m",
    "2c_vs_64zg",
    "2m_vs_1z",
    "2s3z",
    "2s_vs_1sc",
    "3m",
    "3s5z",
    "3s5z_vs_3s6z",
    "3s_vs_3z",
    "3s_vs_4z",
    "3s_vs_5z",
    "5m_vs_6m",
    "6h_vs_8z",
    "8m",
    "8m_vs_9m",
    "MMM",
    "MMM2",
    "bane_vs_bane",
    "corridor",
    "so_many_baneling",
)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the map's name."""

    difficulty: str = "7"
    """Of the enemy, "1" to "A"; published results are for "7", very difficult."""
    step_mul: int = 8
    """Frames of the game per step."""
    reward_sparse: bool = False
    """1 for a victory and −1 for a defeat, instead of damage and kills as well."""


class Battle(ParallelEnv[str, dict[str, np.ndarray], int]):
    """A map of SMAC in the parallel API of PettingZoo.

    Args:
        make: SMAC's environment from a seed, which may be None.
    """

    metadata = {"name": "smac"}

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._game = make(seed=None)
        info = self._game.get_env_info()
        self.possible_agents = [f"unit_{i}" for i in range(info["n_agents"])]
        self.agents: list[str] = []
        self._observation_space = Dict(
            {
                "observation": Box(-np.inf, np.inf, (info["obs_shape"],), np.float32),
                ACTION_MASK: MultiBinary(info["n_actions"]),
            }
        )
        self._action_space = Discrete(info["n_actions"])

    def observation_space(self, agent: str) -> Dict:
        """What a unit sees, and which of its actions it can do now."""
        return self._observation_space

    def action_space(self, agent: str) -> Discrete:
        """Nothing, stop, four directions, and a target each."""
        return self._action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new battle; in a new game if there is a seed."""
        if seed is not None:
            self._game.close()
            self._game = self._make(seed=seed)
        self._game.reset()
        self.agents = list(self.possible_agents)
        return self._observations(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, int]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """One action of every unit; the infos of the last step say how the battle ended."""
        reward, is_over, info = self._game.step([int(actions[agent]) for agent in self.agents])
        truncated = bool(is_over and info.pop("episode_limit", False))
        agents, infos = self.agents, info if is_over else {}
        self.agents = [] if is_over else agents
        return (
            dict(zip(agents, self._observations().values(), strict=True)),
            dict.fromkeys(agents, float(reward)),
            dict.fromkeys(agents, bool(is_over and not truncated)),
            dict.fromkeys(agents, truncated),
            {agent: dict(infos) for agent in agents},
        )

    def close(self) -> None:
        """End StarCraft II."""
        self._game.close()

    def _observations(self) -> dict[str, Any]:
        seen, allowed = self._game.get_obs(), self._game.get_avail_actions()
        return {
            agent: {
                "observation": np.asarray(seen[i], np.float32),
                ACTION_MASK: np.asarray(allowed[i], np.int8),
            }
            for i, agent in enumerate(self.possible_agents)
        }


def make_env(name: str = "3m", **options: Any) -> PettingZooPufferEnv:
    """Make a map by its name, with episode statistics; `options` are those of `EnvConfig`.

    Raises:
        ConfigError: there is no such map; the message has the nearest name.
        EnvironmentSetupError: `smac` is not installed.
    """
    check_task(name, MAPS, "smac")
    require("smac")
    config = EnvConfig(**options)
    make = functools.partial(
        importlib.import_module("smac.env").StarCraft2Env,
        map_name=name,
        difficulty=config.difficulty,
        step_mul=config.step_mul,
        reward_sparse=config.reward_sparse,
    )
    return PettingZooPufferEnv(env=MultiagentEpisodeStats(Battle(make)))


def env_creator(name: str = "3m") -> Callable[..., PettingZooPufferEnv]:
    """The make function of a map; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such map; the message has the nearest name.
    """
    return functools.partial(make_env, check_task(name, MAPS, "smac"))
