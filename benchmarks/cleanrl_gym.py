"""The old `gym` that CleanRL's scripts were written for, over the environments of a task.

CleanRL's last release imports gym 0.23 (and Gymnasium 0.28 for continuous actions), which cannot be
installed beside Gymnasium 1 and has not all of the environments. Its scripts run unchanged on this
module under that name: what they do with environments goes to Gymnasium 1, so that all learners
have the same environments, and all else is CleanRL's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

Env = gymnasium.Env[Any, Any]


class Seedable(gymnasium.Wrapper[Any, Any, Any, Any]):
    """`env.seed(seed)`, which holds for the next reset."""

    _seed: int | None = None

    def seed(self, seed: int) -> None:
        """Remember it."""
        self._seed = seed

    def reset(self, *, seed: int | None = None, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Reset with the remembered seed, once."""
        seed, self._seed = self._seed if seed is None else seed, None
        return self.env.reset(seed=seed, **kwargs)


class SyncVectorEnv(gymnasium.vector.SyncVectorEnv):
    """Resets in the step that ends an episode, and reports nothing of it."""

    def __init__(self, env_fns: Sequence[Callable[[], Env]]) -> None:
        super().__init__(env_fns, autoreset_mode=AutoresetMode.SAME_STEP)

    def step(self, actions: Any) -> Any:
        """As Gymnasium 0.28."""
        return *super().step(actions)[:4], {}


class OldSyncVectorEnv(SyncVectorEnv):
    """The same as gym 0.23 had it."""

    def reset(self) -> Any:
        """Observations only."""
        return super().reset()[0]

    def step(self, actions: Any) -> Any:
        """One flag for both ends of an episode, and a list of infos."""
        observations, rewards, terminals, truncations, _ = super().step(actions)
        return observations, rewards, terminals | truncations, [{}] * self.num_envs


def as_gym(make: Callable[[], Env]) -> ModuleType:
    """`gym` 0.23 with `make` for every environment."""
    module = ModuleType("gym")
    wrappers = gymnasium.wrappers
    module.__dict__.update(
        make=lambda env_id: Seedable(make()),
        spaces=gymnasium.spaces,
        vector=SimpleNamespace(SyncVectorEnv=OldSyncVectorEnv),
        wrappers=SimpleNamespace(
            RecordEpisodeStatistics=_unchanged,
            ResizeObservation=wrappers.ResizeObservation,
            GrayScaleObservation=wrappers.GrayscaleObservation,
            FrameStack=lambda env, frames: Seedable(wrappers.FrameStackObservation(env, frames)),
        ),
    )
    return module


def as_gymnasium(make: Callable[[], Env]) -> ModuleType:
    """`gymnasium` 0.28 with `make` for every environment; all else is the installed one's."""
    module = ModuleType("gymnasium")
    wrappers = gymnasium.wrappers
    module.__dict__.update(
        gymnasium.__dict__,
        make=lambda env_id: make(),
        vector=SimpleNamespace(SyncVectorEnv=SyncVectorEnv),
        wrappers=SimpleNamespace(
            FlattenObservation=wrappers.FlattenObservation,
            RecordEpisodeStatistics=_unchanged,
            ClipAction=wrappers.ClipAction,
            NormalizeObservation=wrappers.NormalizeObservation,
            TransformObservation=lambda env, change: wrappers.TransformObservation(
                env, change, env.observation_space
            ),
            NormalizeReward=wrappers.NormalizeReward,
            TransformReward=wrappers.TransformReward,
        ),
    )
    return module


def as_flags(values: Mapping[str, Any]) -> list[str]:
    """Settings as the scripts take them from the command line."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


def _unchanged(env: Env) -> Env:
    """In place of the wrapper that counts episodes: the recorder does."""
    return env
