"""Tianshou: a vectorized environment as its `BaseVectorEnv`, and a policy as its own.

    vecenv = pufferlib.vector.make(pufferlib.vector.SameStep(env_creator), num_envs=16)
    envs = pufferlib.frameworks.tianshou.TianshouVectorEnv(vecenv)
    actor, critic = actor_critic(policy, vecenv.single_action_space)
    algorithm = PPO(policy=actor, critic=critic, optim=AdamOptimizerFactory(lr=1e-3))
    collector = Collector(actor, envs, VectorReplayBuffer(20_000, len(envs)))

Policies with memory are not for its on-policy algorithms, which keep no state for training. Its
requirements fit no other environment here: see constraints/tianshou.txt.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from numpy.typing import NDArray
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.env import BaseVectorEnv
from tianshou.utils.net.discrete import dist_fn_categorical_from_logits
from torch import Tensor, nn

from pufferlib.emulation.masks import take_allowed
from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks.distributions import ActionDistribution, LogitRows
from pufferlib.frameworks.transitions import Transitions
from pufferlib.models import is_recurrent
from pufferlib.spaces import is_discrete
from pufferlib.vector import VecEnv

__all__ = ["TianshouVectorEnv", "actor_critic"]

Rows = int | Sequence[int] | NDArray[np.int64] | None
SPACES = {
    "observation_space": "single_observation_space",
    "action_space": "single_action_space",
}


class TianshouVectorEnv(BaseVectorEnv):
    """A vectorized environment of any backend; each agent is one of its environments.

    A row that a collector no longer asks for goes on with actions of zero. Infos have `env_id`,
    and `mask`: whether the agent is present.

    Args:
        vecenv: resets in the same step: its creator was wrapped in `pufferlib.vector.SameStep`.

    Raises:
        APIUsageError: `vecenv` resets in the next step, or its batches are smaller than the pool.
    """

    def __init__(self, vecenv: VecEnv) -> None:
        self._transitions = Transitions(vecenv)
        self._rng = np.random.default_rng(0)
        self.vecenv = vecenv
        self.env_num = self.wait_num = vecenv.num_agents
        self.workers: list[Any] = []
        self.is_async = self.is_closed = False

    def get_env_attr(self, key: str, id: Rows = None) -> list[Any]:  # noqa: A002 - Tianshou's name
        """An attribute of the environments of the rows `id`; spaces are those of a row."""
        if key in SPACES:
            return [getattr(self.vecenv, SPACES[key]) for _ in self._wrap_id(id)]
        return self.vecenv.get_attr(key, self._env_indices(id))

    def set_env_attr(self, key: str, value: Any, id: Rows = None) -> None:  # noqa: A002
        """Set an attribute of the environments of the rows `id`."""
        self.vecenv.set_attr(key, value, self._env_indices(id))

    def _env_indices(self, rows: Rows) -> list[int]:
        return [int(row) // self.vecenv.driver_env.num_agents for row in self._wrap_id(rows)]

    def reset(self, env_id: Rows = None, **kwargs: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """First observations and infos of the rows `env_id`, whose episodes have ended, or all.

        Raises:
            APIUsageError: some rows, but not all, are asked for in mid-episode.
        """
        ids = np.asarray(self._wrap_id(env_id))
        rows = None if env_id is None else self._selected(ids)
        self._transitions.seed = kwargs.get("seed", self._transitions.seed)
        self._transitions.reset(rows, kwargs.get("options"))
        return self._transitions.observations[ids], self._infos(ids)

    def step(self, action: Any, id: Rows = None) -> tuple[NDArray[Any], ...]:  # noqa: A002
        """Act in the rows `id`: observations, rewards, terminals, truncations, infos."""
        ids = np.asarray(self._wrap_id(id))
        action = np.asarray(action)
        rows = np.zeros((self.env_num, *action.shape[1:]), action.dtype)
        rows[ids] = action
        if len(ids) < self.env_num:
            self._fill(rows, ~self._selected(ids))
        observations, *outcomes, _, _ = self._transitions.step(rows)
        return observations[ids], *(outcome[ids] for outcome in outcomes), self._infos(ids)

    def _fill(self, rows: NDArray[Any], others: NDArray[np.bool_]) -> None:
        """Where a mask rules out an action of zero, take one that it allows."""
        actions = rows[others]
        observations = self._transitions.observations[others]
        take_allowed(actions, observations, self.vecenv.emulated, self._rng)
        rows[others] = actions

    def _selected(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(np.arange(self.env_num), ids)

    def _infos(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        masks = self._transitions.masks
        return np.array([{"env_id": int(i), "mask": bool(masks[i])} for i in ids])

    def seed(self, seed: int | list[int] | None = None) -> list[Any]:
        """For the next reset of all: one from which all get streams, or a list of one for each."""
        self._transitions.seed = seed
        return seed if isinstance(seed, list) else [seed]

    def render(self, **kwargs: Any) -> list[Any]:
        """What each environment looks like now."""
        return self.vecenv.call("render", **kwargs)

    def close(self) -> None:
        """Close the vectorized environment."""
        self.vecenv.close()
        self.is_closed = True


class Actor(nn.Module):
    """The policy's logits as rows, for `ActionDistribution`."""

    def __init__(self, policy: nn.Module, action_space: Space[Any]) -> None:
        super().__init__()
        self.policy = policy
        self._rows = LogitRows(action_space)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        """`(B, size)` and the state as it was."""
        return self._rows.pack(self.policy(_on_device(obs, self))[0]), state


class Critic(nn.Module):
    """The policy's values `(B, 1)`."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: Any, **kwargs: Any) -> Tensor:
        """The values of a batch of observations."""
        return self.policy(_on_device(obs, self))[1]


def _on_device(observations: Any, module: nn.Module) -> Tensor:
    return torch.as_tensor(observations, device=next(module.parameters()).device)


def actor_critic(
    policy: nn.Module, action_space: Space[Any]
) -> tuple[ProbabilisticActorPolicy, Critic]:
    """An unchanged policy as Tianshou's algorithms want it; both share its parameters.

    Args:
        policy: `forward(observations) -> (logits, value)`.
        action_space: `vecenv.single_action_space`.

    Raises:
        APIUsageError: the policy is recurrent.
    """
    if is_recurrent(policy):
        raise APIUsageError(
            f"policy: expected one without memory, got {type(policy).__name__}; train it with "
            "pufferlib's own trainer, RLlib, TorchRL or Stable-Baselines3"
        )
    # Tianshou's statistics know a single choice by torch's own class.
    many = functools.partial(ActionDistribution, action_space=action_space)
    actor = ProbabilisticActorPolicy(
        actor=Actor(policy, action_space),
        dist_fn=dist_fn_categorical_from_logits if is_discrete(action_space) else many,
        action_space=action_space,
        action_scaling=False,
        action_bound_method=None,
    )
    return actor, Critic(policy)
