"""Breakout in C."""

from __future__ import annotations

import gymnasium
import numpy as np

from pufferlib.environments.ocean.native.worlds import NativeEnv
from pufferlib.exceptions import ConfigError

NUMBERS, ROWS, COLUMNS = 7, 6, 18
MAX_FRAMESKIP = 64


class NativeBreakout(NativeEnv):
    """`num_agents` games of Breakout at once: a paddle returns a ball to a wall of bricks.

    The field is 72 units wide, and the paddle's line 68 below its ceiling. A wall of 6 rows of 18
    bricks, each 4 wide and 2 high, begins 10 below the ceiling. A brick is worth 7 points in the
    two upper rows, 4 in the next two and 1 in the lower two: 432 in all. The paddle is 10 wide and
    moves by 1.5 per frame. The ball is a point. It is served downwards from the middle of the
    height, at a random place and angle, flies by 1.25 per frame, and by 0.0625 more from each
    return on, up to 1.875. Walls and bricks reflect it exactly and keep its speed, and a brick is
    gone after one hit. The place on the paddle alone decides the angle of a return: straight up
    from the middle, 53 degrees to the side from an end.

    Each step is `frameskip` frames with the same action: stay, left, right. Its reward is a tenth
    of the points won. There are five balls. An episode ends when the last one is lost or the last
    brick is gone, and is truncated after `max_steps`. The score is the share of the 432 points.

    An observation is float32 `(115,)`, each number of -1 to 1: the paddle's place, the ball's,
    across and down, and its velocity, likewise, 1 being the most; the share of the points won; the
    share of the balls left, this one included; and for each brick, row by row from the upper left,
    1 where it stands and 0 where it is gone.

    Args:
        num_agents: games, of one agent each.
        frameskip: frames per step, 1 to 64.
        max_steps: steps after which an episode is truncated, at least 1.
        threads: how many share each step.

    Raises:
        ConfigError: an argument is out of its range.
        EnvironmentSetupError: the native core is missing.
    """

    game = "breakout"
    metadata = NativeEnv.metadata | {"render_fps": 15}

    def __init__(
        self,
        num_agents: int = 4096,
        frameskip: int = 4,
        max_steps: int = 10_000,
        threads: int = 1,
        render_mode: str | None = "ansi",
    ) -> None:
        if not 1 <= frameskip <= MAX_FRAMESKIP:
            raise ConfigError(f"frameskip: expected 1 to {MAX_FRAMESKIP}, got {frameskip}")
        if max_steps < 1:
            raise ConfigError(f"max_steps: expected at least 1, got {max_steps}")
        size = (NUMBERS + ROWS * COLUMNS,)
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, size, np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        super().__init__((frameskip, max_steps), num_agents, threads, render_mode)
