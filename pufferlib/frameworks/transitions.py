"""A vectorized environment for libraries that reset each environment themselves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError
from pufferlib.vector import VecEnv

__all__ = ["Step", "Transitions", "require_full_batches", "require_same_step"]


def require_same_step(vecenv: VecEnv) -> None:
    """Raise unless episodes end and begin in one step.

    Raises:
        APIUsageError: `vecenv` resets in the next step.
    """
    if vecenv.autoreset_mode != AutoresetMode.SAME_STEP:
        raise APIUsageError(
            f"vecenv: expected one that resets in the same step, got {vecenv.autoreset_mode}; "
            "give vector.make the creator as pufferlib.vector.SameStep(creator)"
        )


def require_full_batches(vecenv: VecEnv) -> None:
    """Raise unless every result has all agents.

    Raises:
        APIUsageError: batches are smaller than the pool.
    """
    if vecenv.agents_per_batch != vecenv.num_agents:
        raise APIUsageError(
            f"vecenv: expected batches of all {vecenv.num_agents} agents, got "
            f"{vecenv.agents_per_batch}; leave out batch_size"
        )


class Step(NamedTuple):
    """What an action led to, a row per agent: copies.

    Attributes:
        observations: where an episode ended, its last ones; of an environment that resets in the
            same step by its own only where it was truncated, since a terminal row has no value.
        rewards: float32.
        terminals, truncations: bool.
        masks: bool, the agent is present.
        infos: what environments tell.
    """

    observations: NDArray[Any]
    rewards: NDArray[np.float32]
    terminals: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    masks: NDArray[np.bool_]
    infos: Infos


class Transitions:
    """Steps end where an episode ends; `reset` gives the first observations of the next.

    Args:
        vecenv: resets in the same step: its creator was wrapped in `pufferlib.vector.SameStep`.

    Attributes:
        observations: the rows to act on.
        masks: which of them are those of present agents.
        infos: of the last reset or step.
        seed: for the next reset of all environments, as for `VecEnv.reset`.

    Raises:
        APIUsageError: `vecenv` resets in the next step, or its batches are smaller than the pool.
    """

    observations: NDArray[Any]
    masks: NDArray[np.bool_]

    def __init__(self, vecenv: VecEnv) -> None:
        require_same_step(vecenv)
        require_full_batches(vecenv)
        self.vecenv = vecenv
        self.infos: Infos = []
        self.seed: int | list[int] | None = None
        self._ended = np.zeros(vecenv.num_agents, bool)

    def reset(
        self,
        rows: NDArray[np.bool_] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Begin the episodes of `rows`, which have ended, or all of them anew.

        Args:
            rows: bool `(num_agents,)`; None: all environments are reset, whatever they are at.
            options: as for `VecEnv.reset`, where all are.

        Raises:
            APIUsageError: some of the rows, but not all, are asked for in mid-episode, or with
                options, which an episode that has begun cannot have.
        """
        if rows is None or (rows.all() and self._must_reset(options)):
            self._reset_all(options)
            return
        if not self._ended[rows].all():
            raise APIUsageError(
                f"reset of rows {np.flatnonzero(rows & ~self._ended).tolist()}: expected only rows "
                "whose episode has ended, or all; end episodes inside the environment, for example "
                "with gymnasium.wrappers.TimeLimit"
            )
        if options:
            raise APIUsageError(
                f"options: expected none for rows {np.flatnonzero(rows).tolist()}, whose next "
                f"episode has begun, got {options}; reset all rows with them"
            )
        self._ended[rows] = False

    def _must_reset(self, options: dict[str, Any] | None) -> bool:
        """Whether the episodes that have begun are not those that were asked for."""
        return not self._ended.all() or self.seed is not None or bool(options)

    def _reset_all(self, options: dict[str, Any] | None) -> None:
        self.vecenv.async_reset(self.seed, options)
        self.seed = None
        observations, *_, self.infos, _, masks = self.vecenv.recv()
        self.observations, self.masks = observations.copy(), masks.copy()
        self._ended = np.zeros_like(self._ended)

    def step(self, actions: Any) -> Step:
        """Act with a row for every agent."""
        self.vecenv.send(actions)
        observations, rewards, terminals, truncations, self.infos, _, masks = self.vecenv.recv()
        self.observations, self.masks = observations.copy(), masks.copy()
        self._ended = terminals | truncations
        last = self.observations
        if self._ended.any():
            final = self.vecenv.final_observations
            assert final is not None
            last = last.copy()
            last[self._ended] = final[self._ended]
        outcomes = (rewards.copy(), terminals.copy(), truncations.copy(), self.masks)
        return Step(last, *outcomes, self.infos)
