"""Connect Four in C."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from pufferlib.emulation.common import emulated_by
from pufferlib.environments.ocean.native.worlds import NativeEnv
from pufferlib.exceptions import ConfigError
from pufferlib.flatten import ActionPlan, ObservationPlan
from pufferlib.spaces import Box, Dict, Discrete, MultiBinary

ROWS, COLUMNS = 6, 7
OPPONENTS = ("self", "random")


class NativeConnectFour(NativeEnv):
    """Games of Connect Four: four stones in a line, across, up or along a diagonal, win.

    The board has 6 rows and 7 columns. The players drop one stone each in turn, to the lowest free
    cell of a column. A full board without a line is a draw. A coin decides who begins. Who drops a
    stone into a full column loses at once; the action mask rules that out for every policy here.

    Both players are agents: rows 2i and 2i + 1 are those of game i, and a step is one move of one
    of them. Whoever waits is present all the same, since its row brings the reward for its last
    move, but its mask leaves one action, which does nothing: a forced choice has probability 1 and
    moves no policy, while the value of waiting is learnt. Against `opponent="random"`, who drops its
    stones into the columns that are not full with equal probability, a game has one agent, who is
    always on turn.

    An observation is a row of 50 int8, the Dict `action_mask` (7), `board` (6, 7; top row first; 1
    for the agent's own stones, -1 for the other's) and `on_turn` (1); `emulated` says so to policies.
    The reward is 1 for the winner, -1 for the loser and 0 for both in a draw, at the end of the
    game; nothing truncates. `score` is 1, 0 and 0.5; so its mean is 0.5 whenever both players are
    agents. Against the random opponent random play scores 0.5; what a person scores was not
    measured.

    Args:
        num_agents: two for each game; one against the random opponent.
        opponent: "self" or "random".
        threads: how many share each step.
        render_mode: "ansi" or "rgb_array"; `render()` shows the first game.

    Raises:
        ConfigError: an argument is out of its range.
        EnvironmentSetupError: the native core is missing.
    """

    game: ClassVar[str] = "connect_four"

    def __init__(
        self,
        num_agents: int = 4096,
        opponent: Literal["self", "random"] = "self",
        threads: int = 1,
        render_mode: str | None = "ansi",
    ) -> None:
        if opponent not in OPPONENTS:
            raise ConfigError(f"opponent: expected one of {OPPONENTS}, got {opponent!r}")
        if opponent == "self" and num_agents % 2:
            raise ConfigError(f"num_agents: expected two for each game, got {num_agents}")
        observation, action = ObservationPlan(_observation_space()), ActionPlan(Discrete(COLUMNS))
        self.single_observation_space = observation.row_space
        self.single_action_space = action.row_space
        self.emulated: Any = emulated_by(observation, action)
        num_worlds = num_agents // 2 if opponent == "self" else num_agents
        super().__init__((OPPONENTS.index(opponent),), num_worlds, threads, render_mode)


def _observation_space() -> Dict:
    return Dict(
        {
            "action_mask": MultiBinary(COLUMNS),
            "board": Box(-1, 1, (ROWS, COLUMNS), np.int8),
            "on_turn": MultiBinary(1),
        }
    )
