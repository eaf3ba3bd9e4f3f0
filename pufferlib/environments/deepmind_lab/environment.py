"""Levels of DeepMind Lab, with the nine actions of the agents that were published with DMLab-30.

Written against Lab's documented Python interface and tested with a stand-in that speaks it. Lab
itself is built from source and has not been run with this.

* Lab draws a random seed for every episode that gets none. Here the environment's own generator
  draws them, so that a seed decides all episodes.
* After an episode Lab has no observation: the last one is that before its last step.
* Lab does not say whether a level ended or its time ran out: every end is terminal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.postprocess import EpisodeStats

FRAME = "RGB_INTERLEAVED"
FOLDER = "contributed/dmlab30"

# DMLab-30 without the four language levels, whose tasks are told in text.
LEVELS = (
    "explore_goal_locations_large",
    "explore_goal_locations_small",
    "explore_object_locations_large",
    "explore_object_locations_small",
    "explore_object_rewards_few",
    "explore_object_rewards_many",
    "explore_obstructed_goals_large",
    "explore_obstructed_goals_small",
    "lasertag_one_opponent_large",
    "lasertag_one_opponent_small",
    "lasertag_three_opponents_large",
    "lasertag_three_opponents_small",
    "natlab_fixed_large_map",
    "natlab_varying_map_randomized",
    "natlab_varying_map_regrowth",
    "psychlab_arbitrary_visuomotor_mapping",
    "psychlab_continuous_recognition",
    "psychlab_sequential_comparison",
    "psychlab_visual_search",
    "rooms_collect_good_objects_train",
    "rooms_exploit_deferred_effects_train",
    "rooms_keys_doors_puzzle",
    "rooms_select_nonmatching_object",
    "rooms_watermaze",
    "skymaze_irreversible_path_hard",
    "skymaze_irreversible_path_varied",
)

# The action set of Espeholt et al. 2018, "IMPALA", in the terms of Lab's action specification.
_LOOK, _STRAFE, _MOVE = "LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", "STRAFE_LEFT_RIGHT", "MOVE_BACK_FORWARD"
ACTIONS: tuple[dict[str, int], ...] = (
    {_MOVE: 1},
    {_MOVE: -1},
    {_STRAFE: -1},
    {_STRAFE: 1},
    {_LOOK: -20},
    {_LOOK: 20},
    {_LOOK: -20, _MOVE: 1},
    {_LOOK: 20, _MOVE: 1},
    {"FIRE": 1},
)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the level's name."""

    width: int = 96
    """Of a frame, in pixels."""
    height: int = 72
    """Of a frame, in pixels."""
    frame_skip: int = 4
    """Frames of the game, 60 a second, that an action lasts."""
    renderer: Literal["software", "hardware"] = "software"
    """'hardware' needs EGL and a GPU."""
    render_mode: Literal["rgb_array"] | None = None
    """'rgb_array': `render()` returns the frame that the agent sees."""


class Level(gymnasium.Env[np.ndarray, int]):
    """A level: frames `(height, width, 3)` uint8 and a choice out of `ACTIONS`."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, lab: Any, config: EnvConfig) -> None:
        self._lab = lab
        self._frame_skip = config.frame_skip
        self.render_mode = config.render_mode
        self.observation_space = Box(0, 255, (config.height, config.width, 3), np.uint8)
        self.action_space = Discrete(len(ACTIONS))
        names = [spec["name"] for spec in lab.action_spec()]
        self._actions = np.array(
            [[action.get(name, 0) for name in names] for action in ACTIONS], np.intc
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The first frame of an episode."""
        super().reset(seed=seed)
        self._lab.reset(seed=int(self.np_random.integers(2**31)))
        self._frame: np.ndarray = self._lab.observations()[FRAME]
        return self._frame, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One action for `frame_skip` frames."""
        reward = self._lab.step(self._actions[action], num_steps=self._frame_skip)
        is_over = not self._lab.is_running()
        if not is_over:
            self._frame = self._lab.observations()[FRAME]
        return self._frame, float(reward), is_over, False, {}

    def render(self) -> np.ndarray:
        """The last frame."""
        return self._frame

    def close(self) -> None:
        """End the game."""
        self._lab.close()


def make_env(name: str = "rooms_watermaze", **options: Any) -> GymnasiumPufferEnv:
    """Make a level of DMLab-30 by its name, or any other by its path; see `EnvConfig`.

    Args:
        name: one of `LEVELS`, or a path with a `/` below Lab's levels (`tests/empty_room_test`).
        options: keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such level; the message has the nearest name.
        EnvironmentSetupError: `deepmind_lab` is not installed.
    """
    path = _level_path(name)
    (deepmind_lab,) = require("deepmind_lab")
    config = EnvConfig(**options)
    lab = deepmind_lab.Lab(
        path,
        [FRAME],
        config={"width": str(config.width), "height": str(config.height)},
        renderer=config.renderer,
    )
    return GymnasiumPufferEnv(env=EpisodeStats(Level(lab, config)))


def env_creator(name: str = "rooms_watermaze") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of a level; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such level; the message has the nearest name.
    """
    _level_path(name)
    return functools.partial(make_env, name)


def _level_path(name: str) -> str:
    return name if "/" in name else f"{FOLDER}/{check_task(name, LEVELS, 'deepmind_lab')}"
