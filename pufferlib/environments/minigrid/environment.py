"""MiniGrid and BabyAI: partly seen worlds of rooms, doors and keys, with a mission in words.

What minigrid 3.2 does, and what is changed here:

* The mission is a text, which no row of numbers can hold. Here it is the numbers of its words.
* While BabyAI looks for a world that suits a mission, it prints what it rejects. Here it is quiet.
* The tasks whose worlds are made by wave function collapse need files that are not in the package,
  and are left out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.environments.registered import ids_of, make_registered

_VOCABULARY = (
    ", a after and at avoid ball behind blue box door end fetch find from front get go goal green "
    "grey hallway in key lava left matching must near next object of on open opening pick purple "
    "put reach red right room rooms square the then to traverse unlock up use yellow you your"
)
WORDS = tuple(_VOCABULARY.split())
"""Every word of the missions; a word's number is its place here plus one."""
UNKNOWN = len(WORDS) + 1
MISSION_LENGTH = 72
"""Words of BabyAI's longest mission: four times 'put a … in front of you next to a … in front of
you', joined by 'and', ', then' and 'and'."""

Observation = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the task's name."""

    max_episode_steps: int | None = None
    """Truncate episodes after this many steps, if the task's own limit does not come first."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns an image of the whole world."""


class MissionInNumbers(gymnasium.Wrapper[Observation, int, Observation, int]):
    """The mission as the numbers of its words, `(MISSION_LENGTH,)` uint8, zero behind the last."""

    def __init__(self, env: gymnasium.Env[Observation, int]) -> None:
        super().__init__(env)
        mission = gymnasium.spaces.Box(0, UNKNOWN, (MISSION_LENGTH,), np.uint8)
        self.observation_space = gymnasium.spaces.Dict(
            {**env.observation_space.spaces, "mission": mission}
        )
        self._numbers = {word: number for number, word in enumerate(WORDS, 1)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new world and mission."""
        with contextlib.redirect_stdout(None):
            observation, info = self.env.reset(seed=seed, options=options)
        # It stays the same throughout an episode.
        self._mission = self._encode(observation["mission"])
        return observation | {"mission": self._mission}, info

    def step(self, action: int) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        """One step; the info of an episode's last has `solved`, 0 or 1."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        if terminal or truncation:
            info = info | {"solved": float(reward) > 0}
        return observation | {"mission": self._mission}, reward, terminal, truncation, info

    def _encode(self, mission: str) -> np.ndarray:
        numbers = np.zeros(MISSION_LENGTH, np.uint8)
        words = mission.replace(",", " , ").split()[:MISSION_LENGTH]
        numbers[: len(words)] = [self._numbers.get(word, UNKNOWN) for word in words]
        return numbers


def make_env(
    name: str = "MiniGrid-DoorKey-5x5-v0",
    max_episode_steps: int | None = None,
    render_mode: Literal["rgb_array"] | None = None,
) -> GymnasiumPufferEnv:
    """Make a task by its Gymnasium id, with episode statistics; see `EnvConfig`.

    Observations have `direction` (0 to 3), `image` `(7, 7, 3)` uint8, which is what lies before
    the agent as numbers of object, colour and state, and `mission`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `minigrid` is not installed.
    """
    return make_registered(_task(name), max_episode_steps, render_mode, MissionInNumbers)


def env_creator(name: str = "MiniGrid-DoorKey-5x5-v0") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a task; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such task; the message has the nearest name.
        EnvironmentSetupError: `minigrid` is not installed.
    """
    return functools.partial(make_env, _task(name))


def _task(name: str) -> str:
    require("minigrid")
    tasks = [task for task in ids_of("minigrid") if not task.startswith("MiniGrid-WFC")]
    return check_task(name, tasks, "minigrid")
