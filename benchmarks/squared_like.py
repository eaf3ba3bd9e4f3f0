"""A stand-in for a native environment: thousands of agents whose step is a few NumPy operations.

The rows are those of Squared (121 cells of one byte, eight moves). An agent starts in the middle
and seeks a cell on the edge; stepping on it earns 1, leaving the square or dawdling costs 1, and
either ends the episode, so that recurrent policies meet resets inside their segments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.environment import PufferEnv

SIZE = 11
CENTRE = SIZE * SIZE // 2
MAX_TICKS = 3 * SIZE
OUTSIDE = -1
EMPTY, AGENT, TARGET = 0, 1, 2


def _where_moves_lead() -> NDArray[np.int64]:
    """`(121, 8)`: the cell that each move leads to from each cell, or `OUTSIDE`."""
    moves = np.array([(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c])
    places = np.stack(np.divmod(np.arange(SIZE * SIZE), SIZE), -1)[:, None] + moves
    inside = ((places >= 0) & (places < SIZE)).all(-1)
    return np.where(inside, places @ (SIZE, 1), OUTSIDE)


LEADS_TO = _where_moves_lead()
EDGE = np.flatnonzero((LEADS_TO == OUTSIDE).any(1))


class SquaredLike(PufferEnv):
    """`num_agents` games side by side in one environment."""

    autoreset_mode = AutoresetMode.SAME_STEP

    def __init__(self, num_agents: int = 4096) -> None:
        self.single_observation_space = Box(0, 2, (SIZE * SIZE,), np.int8)
        self.single_action_space = Discrete(8)
        self.num_agents = num_agents
        super().__init__()
        self._rows = np.arange(num_agents) * SIZE**2  # where they begin among all cells
        self._generator = np.random.default_rng()

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Everybody to the middle."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._shown = self.observations.reshape(-1)
        self._cells = np.full(self.num_agents, CENTRE)
        self._targets = np.empty(self.num_agents, np.int64)
        self._ticks = np.zeros(self.num_agents, np.int64)
        self.observations.fill(EMPTY)
        self.rewards.fill(0)
        self.terminals.fill(False)
        self.truncations.fill(False)
        self._begin(np.arange(self.num_agents))
        return []

    def step(self, actions: NDArray[np.int64]) -> list[dict[str, Any]]:
        """All move at once."""
        self._shown[self._rows + self._cells] = EMPTY
        self._cells = LEADS_TO.ravel()[self._cells * 8 + actions]
        self._ticks += 1
        reached = self._cells == self._targets
        failed = ((self._cells == OUTSIDE) | (self._ticks == MAX_TICKS)) & ~reached
        np.subtract(reached, failed, out=self.rewards, dtype=np.float32)
        np.logical_or(reached, failed, out=self.terminals)
        ended = np.flatnonzero(self.terminals)
        self._shown[self._rows[ended] + self._targets[ended]] = EMPTY
        self._begin(ended)
        self._shown[self._rows + self._cells] = AGENT
        return [{"score": float(reached[ended].mean())}] if len(ended) else []

    def _begin(self, agents: NDArray[np.int64]) -> None:
        self._cells[agents] = CENTRE
        self._ticks[agents] = 0
        self._targets[agents] = EDGE[self._generator.integers(0, len(EDGE), len(agents))]
        self._shown[self._rows[agents] + CENTRE] = AGENT
        self._shown[self._rows[agents] + self._targets[agents]] = TARGET
