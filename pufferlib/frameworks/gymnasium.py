"""Gymnasium: a vectorized environment as its `VectorEnv`.

    envs = pufferlib.frameworks.gymnasium.make_vec(env_creator, num_envs=8, num_workers=2,
                                                   backend="multiprocessing")

A script that makes a `SyncVectorEnv` or `AsyncVectorEnv` from a list of functions gives the same
list to `make_vec`. Under a name of its own, `gymnasium.make_vec` makes it as well:

    gymnasium.register("Squared-v0", vector_entry_point=functools.partial(make_vec, env_creator))
    envs = gymnasium.make_vec("Squared-v0", num_envs=8)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks.endings import RowRecords
from pufferlib.frameworks.transitions import require_full_batches
from pufferlib.vector import SameStep, VecEnv

__all__ = ["GymnasiumVectorEnv", "make_vec"]

Creator = Callable[..., Any]
Array = NDArray[Any]


class GymnasiumVectorEnv(VectorEnv[Array, Array, Array]):
    """A vectorized environment of any backend; every agent is one of its `num_envs`.

    Observations are the flat rows that policies of this library read, and copies. An integer seed
    gives the environments `seed`, `seed + 1`, … as Gymnasium does. `infos` have what environments
    tell at the end of an episode, under the keys of `pufferlib.postprocess.EpisodeStats` or
    Gymnasium's `RecordEpisodeStatistics`; with several agents also `mask`, which says who is
    present; with `SAME_STEP` also `final_obs` and `final_info`. Of an environment that resets in
    the same step by its own, `final_obs` holds what was last seen only where it was truncated.

    Args:
        vecenv: batches are all of its environments.

    Attributes:
        vecenv: which `close` closes.
        infos: all infos of the last step, as the vectorized environment gave them.

    Raises:
        APIUsageError: batches are smaller than the pool.
    """

    def __init__(self, vecenv: VecEnv) -> None:
        self.closed = True  # a vectorized environment that is refused stays open
        require_full_batches(vecenv)
        self.closed = False
        self.vecenv = vecenv
        self.infos: list[dict[str, Any]] = []
        self.num_envs = vecenv.num_agents
        self.single_observation_space = vecenv.single_observation_space
        self.single_action_space = vecenv.single_action_space
        self.observation_space = vecenv.observation_space
        self.action_space = vecenv.action_space
        self.render_mode = getattr(vecenv.driver_env, "render_mode", None)
        metadata = getattr(vecenv.driver_env, "metadata", {})
        self.metadata = {**metadata, "autoreset_mode": vecenv.autoreset_mode}
        self._has_masks = vecenv.driver_env.num_agents > 1
        self._records = RowRecords(vecenv)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Reset all environments; `seed` may be a list of one per environment.

        Returns:
            observations `(num_envs, *observation_shape)`; infos, with the masks if anything.

        Raises:
            APIUsageError: `options` asks for some environments only, or as `VecEnv.reset`.
            WorkerError: as `VecEnv.reset`.
        """
        if options and "reset_mask" in options:
            raise APIUsageError(
                "options: expected none that reset some of the environments, got 'reset_mask'; "
                "environments reset themselves where their episode ends"
            )
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            seed = [int(seed) + index for index in range(self.vecenv.num_envs)]
        self.vecenv.async_reset(seed, options)
        observations, *_, self.infos, _, masks = self.vecenv.recv()
        return observations.copy(), self._with_masks({}, masks)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Act in all environments with actions `(num_envs, *action_shape)`.

        Returns:
            observations `(num_envs, *observation_shape)`, rewards float32, terminals bool,
            truncations bool, infos.

        Raises:
            APIUsageError, SpaceError, WorkerError: as `VecEnv.step`.
        """
        self.vecenv.send(actions)
        observations, rewards, terminals, truncations, self.infos, _, masks = self.vecenv.recv()
        infos = self._with_masks(self._ends(terminals | truncations, masks), masks)
        arrays = (observations, rewards, terminals, truncations)
        return *(array.copy() for array in arrays), infos  # type: ignore[return-value]

    def _ends(self, ended: NDArray[np.bool_], masks: NDArray[np.bool_]) -> dict[str, Any]:
        """What is told of the episodes that ended, as Gymnasium arranges it."""
        infos: dict[str, Any] = {}
        records = dict(self._records(self.infos, ended, masks))
        final = self.vecenv.final_observations
        for row in np.flatnonzero(ended).tolist():
            info = dict(records.get(row, {}))
            if final is not None:
                info = {"final_obs": final[row].copy(), "final_info": info}
            infos = self._add_info(infos, info, row)
        return infos

    def _with_masks(self, infos: dict[str, Any], masks: NDArray[np.bool_]) -> dict[str, Any]:
        return infos | {"mask": masks.copy()} if self._has_masks else infos

    def render(self) -> tuple[Any, ...]:
        """What each environment looks like now."""
        return self.call("render")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Results of calling method `name` of each environment."""
        return tuple(self.vecenv.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Attribute `name` of each environment."""
        return tuple(self.vecenv.get_attr(name))

    def set_attr(self, name: str, values: Any) -> None:
        """Set attribute `name` of all environments, to one value or to a list of one for each.

        Raises:
            APIUsageError: a list of another length; nothing is set then.
        """
        count = self.vecenv.num_envs
        each = values if isinstance(values, list | tuple) else [values] * count
        if len(each) != count:
            raise APIUsageError(
                f"values: expected one, or a list of one for each of {count} environments, got a "
                f"list of {len(each)}"
            )
        for index, value in enumerate(each):
            self.vecenv.set_attr(name, value, indices=[index])

    def close_extras(self, **kwargs: Any) -> None:
        """Close the vectorized environment."""
        self.vecenv.close()


def make_vec(
    env_creator_or_creators: Creator | Sequence[Creator],
    num_envs: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **options: Any,
) -> GymnasiumVectorEnv:
    """Make many environments as one of Gymnasium's.

    Args:
        env_creator_or_creators: a function that makes an environment, of Gymnasium's API or of
            this library, or a list of such.
        num_envs: environments in all; None: as many as the list has, or one.
        autoreset_mode: `NEXT_STEP` or `SAME_STEP`.
        options: of `pufferlib.vector.make`, such as `backend` and `num_workers`.

    Raises:
        APIUsageError: `autoreset_mode` is `DISABLED`, a creator is none (Gymnasium's names are
            made by `gymnasium.make` inside a function), or as `pufferlib.vector.make`.
        WorkerError: as `pufferlib.vector.make`.
    """
    mode = AutoresetMode(autoreset_mode)
    if mode == AutoresetMode.DISABLED:
        raise APIUsageError(
            "autoreset_mode: expected NEXT_STEP or SAME_STEP, got DISABLED; environments reset "
            "themselves"
        )
    if isinstance(env_creator_or_creators, Sequence) and not isinstance(
        env_creator_or_creators, str
    ):
        creators: Any = [_adapt(creator, mode) for creator in env_creator_or_creators]
        count = len(creators)
    else:
        creators = _adapt(env_creator_or_creators, mode)
        count = 1
    num_envs = count if num_envs is None else num_envs
    return GymnasiumVectorEnv(vector.make(creators, num_envs=num_envs, **options))


def _adapt(creator: Creator, mode: AutoresetMode) -> Creator:
    if not callable(creator):
        raise APIUsageError(
            f"env creator: expected a function that makes an environment, got {creator!r}; pass "
            "for example functools.partial(gymnasium.make, 'CartPole-v1')"
        )
    emulated = _Emulated(creator)
    return SameStep(emulated) if mode == AutoresetMode.SAME_STEP else emulated


class _Emulated:
    """What a creator makes; an environment of Gymnasium's API is emulated.

    Args:
        func: the creator. Vectorization finds under this name what it demands of processes.
    """

    def __init__(self, func: Creator) -> None:
        self.func = func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        env = self.func(*args, **kwargs)
        return env if hasattr(env, "bind") else GymnasiumPufferEnv(env)
