"""Recordings of what environments do under fixed actions, to be compared bit by bit."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.emulation.masks import take_allowed
from pufferlib.spaces import Mixed, joint_space, row_layout
from pufferlib.vector.base import VecEnv


@dataclass(frozen=True)
class Rollout:
    """What `T` steps of `N` agents gave; index 0 of the first axis is the reset.

    Attributes:
        observations: `(T + 1, N, *observation_shape)`.
        rewards: float32 `(T + 1, N)`.
        terminals, truncations, masks: bool `(T + 1, N)`.
        final_observations: like `observations`, zero where nothing was truncated; None unless the
            environments reset in the same step.
    """

    observations: NDArray[Any]
    rewards: NDArray[np.float32]
    terminals: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    masks: NDArray[np.bool_]
    final_observations: NDArray[Any] | None = None

    @classmethod
    def empty(cls, space: Space[Any], steps: int, num_agents: int, final: bool) -> Rollout:
        """Zeros to be filled."""
        shape, dtype = row_layout(space)
        size = (steps + 1, num_agents)
        rows = [np.zeros(size + shape, dtype) for _ in range(2)]
        a, b, c = (np.zeros(size, bool) for _ in range(3))
        return cls(rows[0], np.zeros(size, np.float32), a, b, c, rows[1] if final else None)

    def put(self, at: Any, *columns: NDArray[Any], final: NDArray[Any] | None = None) -> None:
        """Store observations, rewards, terminals, truncations and masks under index `at`."""
        arrays = (self.observations, self.rewards, self.terminals, self.truncations, self.masks)
        for array, column in zip(arrays, columns, strict=True):
            array[at] = column
        if self.final_observations is not None and final is not None:
            truncated = columns[3]
            final_rows = np.zeros_like(final)
            final_rows[truncated] = final[truncated]
            self.final_observations[at] = final_rows


def rollout(vecenv: VecEnv, steps: int, seed: int | None = 0, actions_seed: int = 0) -> Rollout:
    """Reset and let every agent act `steps` times; its actions depend on agent and step only.

    Where a mask rules actions out, they depend on the observation too, in a way that is fixed.
    Works for pools too: batches are sorted by agent, whatever their order. The vectorized
    environment is left open.
    """
    n = vecenv.num_agents
    actions = sample_actions(vecenv.single_action_space, steps + 1, n, actions_seed)
    final = vecenv.autoreset_mode == AutoresetMode.SAME_STEP
    record = Rollout.empty(vecenv.single_observation_space, steps, n, final)
    times = np.zeros(n, np.int64)
    emulated = vecenv.driver_env.emulated
    mask = getattr(emulated, "action_mask", None)
    options = sum(mask.nvec) if mask else 0
    draws = np.random.default_rng(actions_seed).random((steps + 1, n, options))
    vecenv.async_reset(seed)
    while True:
        *columns, _, ids, mask = vecenv.recv()
        t = times[ids]
        new = t <= steps
        finals = vecenv.final_observations
        record.put(
            (t[new], ids[new]),
            *(column[new] for column in (*columns, mask)),
            final=None if finals is None else finals[new],
        )
        times[ids] += 1
        if times.min() > steps:
            return record
        turn = (np.minimum(t, steps), ids)
        chosen = actions[turn]
        take_allowed(chosen, columns[0], emulated, draws[turn])
        vecenv.send(chosen)


def sample_actions(space: Space[Any], steps: int, n: int, seed: int) -> NDArray[Any]:
    """`(steps, n, *shape)` actions; the caller's space keeps its own generator's state."""
    shape, dtype = row_layout(space)
    # The joint space draws all rows of a step at once, but knows no Mixed row.
    own = copy.deepcopy(space) if isinstance(space, Mixed) else joint_space(space, steps * n)
    own.seed(seed)
    draws = steps * n if isinstance(space, Mixed) else 1
    samples = np.array([own.sample() for _ in range(draws)], dtype)
    return samples.reshape(steps, n, *shape)
