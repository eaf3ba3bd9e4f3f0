"""Mazes in C."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pufferlib.environments.ocean.native.worlds import NativeEnv
from pufferlib.exceptions import ConfigError
from pufferlib.spaces import Box, Discrete

MAX_SIZE = 31
WALL, EXPLORED, TRAIL, NEW, GOAL = range(-1, 4)


class NativeMaze(NativeEnv):
    """Find the goal of a maze that was never seen before, looking a few squares around.

    A maze has `size` by `size` cells, joined to one tree of passages by depth-first search from its
    goal: between any two cells there is exactly one way. On its map, a square for each cell and for
    each wall or passage between neighbours, the agent moves left, right, up or down by one square,
    or stays where it is if there is a wall. Goal and start are two cells drawn at random.

    The agent sees the int8 squares `(2 view + 1, 2 view + 1)` around it: -1 wall (and all that is
    outside), 2 new, 1 on its trail, 0 explored, 3 goal. The trail is Ariadne's thread, the way back
    to the start: a step forward lays it on the square that is entered, and a step back along it
    rolls it up and leaves an explored square. So a search needs no memory: go to the best
    neighbour, and nothing is walked more than twice.

    The reward is 1 for the step to the goal, which ends the episode, else 0. An episode is
    truncated after 4 size² steps, more than such a search takes. `score` is the length of the
    shortest way over the steps taken, 0 without the goal. What a person scores was not measured.

    Args:
        num_agents: mazes, of one agent each.
        size: cells on each side, 2 to 31.
        view: squares that the agent sees in each direction, 1 to 2 size - 1, which is everything.
        levels: 0 makes a new maze for every episode; n draws one of the levels
            `first_level` … `first_level + n - 1`, which are the same in every run.
        first_level: where they begin: train on some levels and test on others.
        threads: how many share each step.
        render_mode: "ansi" or "rgb_array"; `render()` shows the first maze as a whole.

    Raises:
        ConfigError: an argument is out of its range.
        EnvironmentSetupError: the native core is missing.
    """

    game: ClassVar[str] = "maze"

    def __init__(
        self,
        num_agents: int = 4096,
        size: int = 8,
        view: int = 3,
        levels: int = 0,
        first_level: int = 0,
        threads: int = 1,
        render_mode: str | None = "ansi",
    ) -> None:
        ranges = {
            "size": (size, 2, MAX_SIZE),
            "view": (view, 1, 2 * size - 1),
            "levels": (levels, 0, 2**31 - 1),
            "first_level": (first_level, 0, 2**31 - 1),
        }
        for name, (value, low, high) in ranges.items():
            if not low <= value <= high:
                raise ConfigError(f"{name}: expected {low} to {high}, got {value}")
        side = 2 * view + 1
        self.single_observation_space = Box(WALL, GOAL, (side, side), np.int8)
        self.single_action_space = Discrete(4)
        super().__init__((size, view, levels, first_level), num_agents, threads, render_mode)
