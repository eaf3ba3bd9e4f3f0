"""The native games with small options, for the tests that all of them must pass."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pufferlib.environments.ocean.native import (
    NativeBreakout,
    NativeConnectFour,
    NativeEnv,
    NativeMaze,
    NativePong,
    NativeSnake,
    NativeSquared,
)


@dataclass(frozen=True)
class Case:
    """A game with some of its options; `make(num_agents=…, threads=…)` makes it."""

    kind: type[NativeEnv]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join(map(str, (self.kind.game, *self.options.values())))

    @property
    def make(self) -> Callable[..., NativeEnv]:
        return functools.partial(self.kind, **self.options)


# Short episodes, so that many end in a few steps of random play; the numbers of agents that the
# tests ask for are multiples of 12, which whole worlds of 1, 2, 3, 4, 6 or 12 agents give.
CASES = [
    Case(NativeBreakout, {"max_steps": 60}),
    Case(NativeConnectFour),
    Case(NativeConnectFour, {"opponent": "random", "opening": 5}),
    Case(NativeMaze, {"size": 4}),
    Case(NativeMaze, {"size": 2, "view": 2, "levels": 5}),
    Case(NativePong, {"points": 2, "max_steps": 60}),
    Case(
        NativeSnake,
        {"num_snakes": 6, "rows": 14, "columns": 17, "food": 8, "max_length": 8, "max_steps": 20},
    ),
    Case(
        NativeSnake,
        {"num_snakes": 2, "rows": 9, "columns": 10, "food": 8, "vision": 2, "max_length": 5},
    ),
    Case(NativeSquared, {"distance_to_target": 2}),
    Case(NativeSquared, {"distance_to_target": 3, "num_targets": 5}),
]


def random_actions(env, steps, seed=3):
    """Arrays of random actions for `steps` steps."""
    choices = env.single_action_space.n
    return np.random.default_rng(seed).integers(choices, size=(steps, env.num_agents))


def rows_of(env):
    """What a step wrote, as bytes."""
    ended = env.truncations
    arrays = (env.observations, env.rewards, env.terminals, ended, env.masks)
    return b"".join(array.tobytes() for array in (*arrays, env.final_observations[ended]))


def play(env, steps, seed=3):
    """The rows after each of `steps` random steps, as bytes, and all records."""
    rows, infos = [], []
    for actions in random_actions(env, steps, seed):
        infos += env.step(actions)
        rows.append(rows_of(env))
    return rows, records(infos)


def records(infos):
    """The episodes of some infos, as (score, return, length)."""
    return [record for info in infos for record in zip(*info.values(), strict=True)]
