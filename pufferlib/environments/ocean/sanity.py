"""Sanity checks: tiny environments that isolate one thing a learning agent must be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pufferlib.environments.ocean.bandit import Bandit
from pufferlib.environments.ocean.cells import CYAN, GREY, RED, show
from pufferlib.environments.ocean.memory import Memory
from pufferlib.environments.ocean.multiagent import Multiagent
from pufferlib.environments.ocean.password import Password
from pufferlib.environments.ocean.spaces import Spaces
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.environments.ocean.stochastic import Stochastic
from pufferlib.environments.ocean.streams import StreamEnv
from pufferlib.exceptions import ConfigError

__all__ = [
    "BEST_SCORES",
    "MOVES",
    "Bandit",
    "Memory",
    "Multiagent",
    "Password",
    "Spaces",
    "Squared",
    "Stochastic",
]

EMPTY, TARGET, AGENT = 0, 1, -1

# (rows, columns) of the eight actions: left, right, up, down, then the diagonals.
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1))

_CELLS = {EMPTY: GREY, TARGET: CYAN, AGENT: RED}

Observation = NDArray[np.int8]


class Squared(StreamEnv[Observation, int]):
    """Move from the centre of a square to targets on its edge.

    Rules. The square has side 2d + 1 with d = `distance_to_target`. A reset draws `num_targets`
    different cells of the edge as targets and puts the agent in the centre, d king's moves from
    each of them. An action moves the agent to one of the eight neighbouring cells; a coordinate
    that would leave the square stays. An agent that lands on a target goes back to the centre;
    the first time this *hits* the target, later times only cost moves. Hit targets stay visible.
    The episode terminates after `num_targets` · d steps: just enough to hit every target.

    Reward. With h targets hit so far and m the distance (in moves, measured where the agent ends
    up) to the nearest target not hit yet, or d if all are hit, the agent's progress is
    h + (d - m) / d; a step earns the change in progress. Walking to a target earns 1 in all, in
    steps of 1/d, walking away gives it back, so the return is the progress at the end and no
    detour can raise it.

    Score. The info of the last step has `score`, the share of targets that were hit. The best
    score is 1 with the return `num_targets`; it takes no luck, only a shortest path to one
    target after another.

    What it tests. With one target (the default) every observation has a best action, so that
    whatever separates observations, actions and rewards from each other shows. Settings probe
    one more thing each, or several together:

    * exploration: a larger distance;
    * stochasticity: several targets at the distance 1, and a policy without memory. Hit targets
      look like the others, so in the centre it must be random: always the same target scores
      1/n, all n equally often 1 - (1 - 1/n)^n on average, which is the best;
    * memory: the same with a recurrent policy, which can remember what it hit and score 1;
    * jointly: several targets far away. In the centre a policy without memory must be
      random, outside it must be certain.

    Observation: int8 `(2d + 1, 2d + 1)`; 0 empty, 1 target, -1 agent. Actions: `Discrete(8)`,
    `MOVES`. The targets come from the environment's own SplitMix64 stream, started by
    `reset(seed)`; episodes without a seed continue it.

    Raises:
        ConfigError: a distance below 1, or a number of targets that is not in 1 … 8d.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 5}

    def __init__(
        self, distance_to_target: int = 3, num_targets: int = 1, render_mode: str | None = "ansi"
    ) -> None:
        d = distance_to_target
        if d < 1:
            raise ConfigError(f"distance_to_target: expected at least 1, got {d}")
        if not 1 <= num_targets <= 8 * d:
            raise ConfigError(
                f"num_targets: expected 1 to {8 * d} (the edge cells at distance_to_target={d}), "
                f"got {num_targets}"
            )
        self.distance_to_target = d
        self.num_targets = num_targets
        self.render_mode = render_mode
        self.side = side = 2 * d + 1
        self.observation_space = gymnasium.spaces.Box(-1, 1, (side, side), np.int8)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))
        self._centre = d * side + d
        cells = [(row, column) for row in range(side) for column in range(side)]
        self._edge = [
            i for i, (row, column) in enumerate(cells) if max(abs(row - d), abs(column - d)) == d
        ]
        self._destinations = [
            [_clip(row + down, side) * side + _clip(column + right, side) for down, right in MOVES]
            for row, column in cells
        ]
        self._cells = np.zeros(side * side, np.int8)  # cell (row, column) is row * side + column

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; a seed restarts the stream of targets."""
        stream = self._draw_from(seed, options)
        self._targets = stream.sample(self._edge.copy(), self.num_targets)
        self._remaining = self._targets.copy()
        self._nearest = self.distance_to_target
        self._agent = self._centre
        self._tick = 0
        self._draw_cells()
        return self._grid(), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move; the reward is the change in progress, `score` comes with the last step."""
        cells, d = self._cells, self.distance_to_target
        cells[self._agent] = EMPTY
        agent = self._destinations[self._agent][action]
        gain = self._nearest
        if agent in self._targets:
            if agent in self._remaining:
                self._remaining.remove(agent)
                gain += d
            agent = self._centre
        cells[agent] = AGENT
        self._agent = agent
        self._nearest = nearest = self._distance(agent)
        reward = (gain - nearest) / d
        self._tick += 1
        if self._tick < self.num_targets * d:
            return self._grid(), reward, False, False, {}
        score = (self.num_targets - len(self._remaining)) / self.num_targets
        return self._grid(), reward, True, False, {"score": score}

    def get_state(self) -> dict[str, Any]:
        """Everything that changes between steps, as plain numbers; see `pufferlib.snapshot`."""
        assert self._random is not None, "an environment has no state before its first reset"
        return {
            "random": self._random.state,
            "targets": self._targets.copy(),
            "remaining": self._remaining.copy(),
            "nearest": self._nearest,
            "agent": self._agent,
            "tick": self._tick,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `get_state` gave."""
        self._random = SplitMix64(state["random"])
        self._targets, self._remaining = state["targets"].copy(), state["remaining"].copy()
        self._nearest, self._agent, self._tick = state["nearest"], state["agent"], state["tick"]
        self._draw_cells()

    def _draw_cells(self) -> None:
        cells = self._cells
        cells.fill(EMPTY)
        for target in self._targets:
            cells[target] = TARGET
        cells[self._agent] = AGENT

    def _grid(self) -> Observation:
        return self._cells.reshape(self.side, self.side).copy()

    def _distance(self, agent: int) -> int:
        """Moves from the cell `agent` to the nearest target not hit yet; d if there is none."""
        row, column = divmod(agent, self.side)
        nearest = self.side
        for target in self._remaining:
            down, right = target // self.side - row, target % self.side - column
            distance = max(down, -down, right, -right)
            if distance < nearest:
                nearest = distance
        return nearest if self._remaining else self.distance_to_target

    def render(self) -> str:
        """The square as coloured terminal cells."""
        return show_grid(self._grid())


def show_grid(grid: Observation) -> str:
    """A grid of cells as coloured text: targets cyan, the agent red."""
    return show([_CELLS[cell] for cell in line] for line in grid.tolist())


def _clip(coordinate: int, side: int) -> int:
    return min(max(coordinate, 0), side - 1)


BEST_SCORES: Mapping[str, float] = {
    "squared": 1.0,
    "password": 1.0,
    "stochastic": Stochastic().expected_score(0.7),
    "memory": 1.0,
    "multiagent": 1.0,
    "spaces": 1.0,
    "bandit": 1.0,
}
"""The mean score of the best policy with the default settings, by task."""
