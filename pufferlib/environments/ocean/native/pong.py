"""Pong for two, in C."""

from __future__ import annotations

import gymnasium
import numpy as np

from pufferlib.environments.ocean.native.worlds import NativeEnv
from pufferlib.exceptions import ConfigError

MAX_POINTS = 100


class NativePong(NativeEnv):
    """Games of Pong at once, each of two agents: rows 2i and 2i + 1 play left and right in game i.

    The field is 64 units wide and 48 high, with a paddle 8 high at either end, which moves by 1.5
    per step: stay, up, down. The ball is a point. It is served from the line between the players,
    at a random place of the middle half and at a random angle of up to 45 degrees, and flies
    across by 2 per step. Upper and lower edge reflect it exactly. A paddle sends it back faster by
    0.25, up to 5, and the place on the paddle decides the angle: straight from the middle, 45
    degrees up or down from an end. From a paddle in the middle every serve and all but the fastest
    returns can be reached.

    A ball that passes a paddle is a point for the other player: reward 1 for it, -1 for the one
    who missed. Whoever has the point is served next; the first serve goes either way. The first
    with `points` wins. An episode is truncated after `max_steps`. The score is 1 for the winner, 0
    for the loser, and 1/2 for both where the episode was truncated.

    An observation is float32 `(8,)`, each number of -1 to 1: the heights of the own paddle and of
    the other one; the ball's place across, from the own end to the other, and its height; its
    velocity, likewise, 1 being the most; the own and the other's points, as a share of `points`.
    Both agents see themselves on the left, so that one policy plays both ends.

    Args:
        num_agents: an even number, two per game.
        points: that win, 1 to 100.
        max_steps: steps after which an episode is truncated, at least 1.
        threads: how many share each step.

    Raises:
        ConfigError: an argument is out of its range.
        EnvironmentSetupError: the native core is missing.
    """

    game = "pong"
    metadata = NativeEnv.metadata | {"render_fps": 30}

    def __init__(
        self,
        num_agents: int = 4096,
        points: int = 11,
        max_steps: int = 10_000,
        threads: int = 1,
        render_mode: str | None = "ansi",
    ) -> None:
        if num_agents < 2 or num_agents % 2:
            raise ConfigError(f"num_agents: expected two per game of Pong, got {num_agents}")
        if not 1 <= points <= MAX_POINTS:
            raise ConfigError(f"points: expected 1 to {MAX_POINTS}, got {points}")
        if max_steps < 1:
            raise ConfigError(f"max_steps: expected at least 1, got {max_steps}")
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        super().__init__((points, max_steps), num_agents // 2, threads, render_mode)
