"""Environments that show the next episode's first observation in the step that ends one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from pufferlib.buffers import Buffers
from pufferlib.environment import Infos
from pufferlib.exceptions import APIUsageError


class SameStep:
    """What a creator makes, with `SAME_STEP` autoreset.

    Several learning libraries want a row per transition: they cannot leave out the step in which
    an environment only resets itself. Here that step is taken at once. `final_observations` hold
    the last observation of every life that ended, terminal or truncated.

        vecenv = pufferlib.vector.make(SameStep(env_creator), num_envs=8)

    Args:
        creator: a class or function that makes an environment; of one that already resets in the
            same step nothing changes.
    """

    def __init__(self, creator: Callable[..., Any]) -> None:
        self.func = creator  # as `functools.partial` has it, so that its demands are found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The environment that the creator makes with these arguments."""
        env = self.func(*args, **kwargs)
        is_native = hasattr(env, "bind")  # of anything else `make` says what it expected
        if not is_native or env.autoreset_mode == AutoresetMode.SAME_STEP:
            return env
        return SameStepEnv(env)


class SameStepEnv:
    """An environment of the native contract whose rows reset in the same step.

    All other attributes are the environment's own.

    Args:
        env: resets in the next step.
    """

    autoreset_mode = AutoresetMode.SAME_STEP

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # a copy that is still being made has none
            raise AttributeError(name)
        return getattr(self.env, name)

    def bind(self, buffers: Buffers) -> SameStepRows:
        """What vectorization steps."""
        return SameStepRows(self.env.bind(buffers), buffers)


class SameStepRows:
    """Rows that a reset follows at once where an episode ended.

    Args:
        rows: reset in the next step, all together.
        buffers: where they write.
    """

    def __init__(self, rows: Any, buffers: Buffers) -> None:
        assert buffers.final_observations is not None
        self.rows = rows
        self.buffers = buffers
        self._final = buffers.final_observations

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Infos:
        """Write the first rows of an episode."""
        return self.rows.reset(seed, options)

    def step(self, actions: NDArray[Any]) -> Infos:
        """Write the rows that follow `actions`; where the episode ended, with new observations.

        Raises:
            APIUsageError: the environment's agents reset one by one.
        """
        # Rows that have been reset count on flags that are False, and write those that are not.
        self.buffers.terminals.fill(False)
        self.buffers.truncations.fill(False)
        infos = self.rows.step(actions)
        ended = self.buffers.terminals | self.buffers.truncations
        if not ended.any():
            return infos
        self._final[ended] = self.buffers.observations[ended]
        return [*infos, *self._begin(actions, ended)] if self._is_over(ended) else infos

    def _is_over(self, ended: NDArray[np.bool_]) -> bool:
        """Whether the next step would reset the environment."""
        if hasattr(self.rows, "ended"):  # emulation knows; the others may have left before
            return bool(self.rows.ended)
        if not ended.all():
            raise APIUsageError(
                f"{type(self.rows).__name__}: expected all agents to end together, got an end of "
                f"agents {np.flatnonzero(ended).tolist()} of {len(ended)}; reset them in the same "
                "step yourself (autoreset_mode = AutoresetMode.SAME_STEP, see pufferlib.PufferEnv)"
            )
        return True

    def _begin(self, actions: NDArray[Any], ended: NDArray[np.bool_]) -> Infos:
        """Write the next episode's first observations and keep the rest of the last rows."""
        buffers = self.buffers
        outcomes = (buffers.rewards, buffers.terminals, buffers.truncations)
        kept = [array.copy() for array in outcomes]
        infos = self.rows.step(actions)  # which are ignored
        for array, values in zip(outcomes, kept, strict=True):
            array[...] = values
        buffers.masks[ended] = True  # also where the next episode has no such agent yet
        return infos

    def get_state(self) -> Any:
        """The state of the environment, as `pufferlib.snapshot` says."""
        return self.rows.get_state()

    def set_state(self, state: Any) -> None:
        """The inverse of `get_state`."""
        self.rows.set_state(state)
