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
MAX_OPENING = 5


class NativeConnectFour(NativeEnv):
    """Connect Four: four stones in a line, across, up or along a diagonal, win.

    The board has 6 rows and 7 columns. The players drop a stone each in turn, which falls to the
    lowest free cell of its column. A full board without a line is a draw. A coin decides who
    begins. A stone for a full column loses the game at once; the action mask rules it out.

    Both players are agents, with the rows 2i and 2i + 1 in game i, and a step is a move of one of
    them. Whoever waits is present all the same, since its row brings what its last move has led to,
    but its mask leaves one action, which does nothing: a forced choice has the probability 1 and
    moves no policy, while the value of waiting is learnt. Against `opponent="random"`, who drops
    stones into any column that is not full, a game has one agent, who is always on turn.

    An observation is a row of 50 int8, which `emulated` takes apart: `action_mask` (7), `board`
    (6, 7; the top row first; 1 for the agent's own stones, -1 for the other's), `on_turn` (1). The
    reward at the end is 1 for the winner, -1 for the loser, 0 in a draw; nothing truncates. `score`
    is 1, 0 and 0.5, so that its mean is 0.5 wherever both players are agents. A random player
    scores 0.5 against the random opponent; what a person scores was not measured.

    Args:
        num_agents: two for each game; one against the random opponent.
        opponent: "self" or "random".
        opening: 0 to 5: a game begins with up to so many random moves, as many as a die says, which
            nobody can have won with.
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
        opening: int = 0,
        threads: int = 1,
        render_mode: str | None = "ansi",
    ) -> None:
        if opponent not in OPPONENTS:
            raise ConfigError(f"opponent: expected one of {OPPONENTS}, got {opponent!r}")
        if opponent == "self" and num_agents % 2:
            raise ConfigError(f"num_agents: expected two for each game, got {num_agents}")
        if not 0 <= opening <= MAX_OPENING:
            raise ConfigError(f"opening: expected 0 to {MAX_OPENING}, got {opening}")
        observation, action = ObservationPlan(_observation_space()), ActionPlan(Discrete(COLUMNS))
        self.single_observation_space = observation.row_space
        self.single_action_space = action.row_space
        self.emulated: Any = emulated_by(observation, action)
        num_worlds = num_agents // 2 if opponent == "self" else num_agents
        options = (OPPONENTS.index(opponent), opening)
        super().__init__(options, num_worlds, threads, render_mode)


def _observation_space() -> Dict:
    return Dict(
        {
            "action_mask": MultiBinary(COLUMNS),
            "board": Box(-1, 1, (ROWS, COLUMNS), np.int8),
            "on_turn": MultiBinary(1),
        }
    )
