"""Stable-Baselines3: a vectorized environment as its `VecEnv`, and a policy as its policy.

    vecenv = pufferlib.vector.make(pufferlib.vector.SameStep(env_creator), num_envs=8)
    envs = pufferlib.frameworks.sb3.SB3VecEnv(vecenv)
    model = PPO(pufferlib.frameworks.sb3.Policy, envs, policy_kwargs={"policy": policy})

Its own policies train on environments whose observations are numbers of one kind; those of a
structure with several are refused, as their rows are bytes. For `RecurrentPPO` and `MaskablePPO`
see `pufferlib.frameworks.sb3_contrib`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from numpy.typing import NDArray
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv as BaseVecEnv
from torch import Tensor, nn

from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks.byte_rows import guard
from pufferlib.frameworks.endings import RowRecords
from pufferlib.frameworks.transitions import require_full_batches, require_same_step
from pufferlib.models import is_recurrent
from pufferlib.pytorch import (
    Logits,
    greedy_actions,
    mask_layout,
    mask_logits,
    sample_logits,
    unpack_mask,
)
from pufferlib.vector import VecEnv

__all__ = ["LogitsDistribution", "Policy", "PolicyAdapter", "SB3VecEnv"]

Array = NDArray[Any]
Indices = Any
NO_FEATURES = {  # the base class makes an extractor in any case, which is never called
    "features_extractor_class": BaseFeaturesExtractor,
    "features_extractor_kwargs": {"features_dim": 1},
}


class SB3VecEnv(BaseVecEnv):
    """A vectorized environment of any backend; every agent is one of its `num_envs`.

    Observations are the flat rows that policies of this library read, and copies. The last info of
    an episode has Stable-Baselines3's `terminal_observation`, `TimeLimit.truncated` and, of what
    `pufferlib.postprocess.EpisodeStats` tells, `episode` beside the other statistics. Of an
    environment that resets in the same step by its own, `terminal_observation` holds what was last
    seen only where the episode was truncated; where it was not, no value is taken of it.

    `seed(n)` gives row i the seed n + i as Stable-Baselines3 does, an environment that of its
    first row.

    Stable-Baselines3 does not know of absent agents and learns from their rows of zeros as well.
    It turns images that have their channels last; a policy that wants them as they are is given
    `VecTransposeImage(envs, skip=True)`.

    Args:
        vecenv: resets in the same step: its creator was wrapped in `pufferlib.vector.SameStep`.

    Attributes:
        vecenv: which `close` closes.
        infos: all infos of the last step, as the vectorized environment gave them.
        masks: bool `(num_envs,)`, which agents are present.

    Raises:
        APIUsageError: `vecenv` resets in the next step, or its batches are smaller than the pool.
    """

    def __init__(self, vecenv: VecEnv) -> None:
        require_same_step(vecenv)
        require_full_batches(vecenv)
        self.vecenv = vecenv
        self.infos: list[dict[str, Any]] = []
        self.masks = np.ones(vecenv.num_agents, bool)
        self._agents = vecenv.driver_env.num_agents
        self._mask_layout = mask_layout(vecenv.emulated)
        self._observations: Array | None = None
        self._records = RowRecords(vecenv)
        space = guard(vecenv.single_observation_space, vecenv.emulated)
        super().__init__(vecenv.num_agents, space, vecenv.single_action_space)

    def reset(self) -> Array:
        """Reset all environments, with what `seed` and `set_options` were given.

        Returns:
            observations `(num_envs, *observation_shape)`.

        Raises:
            APIUsageError: `set_options` was given different options for different environments;
                closed.
            WorkerError: as `VecEnv.reset`.
        """
        options = self._options[0]
        if any(other != options for other in self._options):
            raise APIUsageError(
                f"set_options: expected the same for all environments, got {self._options}"
            )
        seeds = self._seeds[:: self._agents]
        self.vecenv.async_reset(None if seeds[0] is None else seeds, options or None)  # type: ignore[arg-type]
        self._reset_seeds()
        self._reset_options()
        observations, *_, self.infos, _, masks = self.vecenv.recv()
        return self._keep(observations, masks)

    def step_async(self, actions: Array) -> None:
        """Begin a step with actions `(num_envs, *action_shape)`.

        Raises:
            APIUsageError, SpaceError, WorkerError: as `VecEnv.send`.
        """
        self.vecenv.send(actions)

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Observations, rewards float32, dones bool and infos, a row per agent.

        Raises:
            APIUsageError, WorkerError: as `VecEnv.recv`.
        """
        observations, rewards, terminals, truncations, self.infos, _, masks = self.vecenv.recv()
        infos = self._ends(terminals, truncations, masks)
        return self._keep(observations, masks), rewards.copy(), terminals | truncations, infos

    def _keep(self, observations: Array, masks: NDArray[np.bool_]) -> Array:
        self._observations, self.masks = observations.copy(), masks.copy()
        return self._observations

    def _ends(
        self,
        terminals: NDArray[np.bool_],
        truncations: NDArray[np.bool_],
        masks: NDArray[np.bool_],
    ) -> list[dict[str, Any]]:
        """An info for each row, empty where no episode ended."""
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = terminals | truncations
        final = self.vecenv.final_observations
        for row in np.flatnonzero(ended).tolist():
            assert final is not None
            infos[row]["terminal_observation"] = final[row].copy()
            infos[row]["TimeLimit.truncated"] = bool(truncations[row] and not terminals[row])
        for row, record in self._records(self.infos, ended, masks):
            infos[row].update(record)
            if "episode_return" in record:
                totals = {"r": record["episode_return"], "l": record["episode_length"]}
                infos[row]["episode"] = totals
        return infos

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Attribute `attr_name` of the environments of the rows `indices`."""
        return self._of_rows(indices, lambda envs: self.vecenv.get_attr(attr_name, envs))

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set attribute `attr_name` of the environments of the rows `indices`."""
        self.vecenv.set_attr(attr_name, value, self._envs_of(indices))

    def has_attr(self, attr_name: str) -> bool:
        """Whether environments have it; `action_masks` also if their observations have a mask."""
        return self._has_mask_named(attr_name) or super().has_attr(attr_name)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Results of calling a method of the environments of the rows `indices`, once in each.

        `action_masks` are taken from the observations if these have a mask: bool `(options,)` each,
        all False where an agent is absent.

        Raises:
            APIUsageError: `action_masks` before the first reset, or closed.
            AttributeError: an environment has no such method at any depth.
        """
        if self._has_mask_named(method_name):
            return list(self._allowed()[list(self._get_indices(indices))])
        return self._of_rows(
            indices,
            lambda envs: self.vecenv.call(method_name, *method_args, indices=envs, **method_kwargs),
        )

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """Whether the environments of the rows `indices` have such a wrapper."""
        return self._of_rows(indices, lambda envs: self.vecenv.is_wrapped(wrapper_class, envs))

    def _allowed(self) -> NDArray[np.bool_]:
        if self._observations is None:
            raise APIUsageError("action_masks: expected a reset before, got none")
        allowed = unpack_mask(torch.from_numpy(self._observations), self._mask_layout)
        assert allowed is not None
        return allowed.numpy()

    def _has_mask_named(self, name: str) -> bool:
        return name == "action_masks" and self._mask_layout is not None

    def _envs_of(self, indices: Indices) -> list[int]:
        """The environments of these rows, each once."""
        return list(dict.fromkeys(self._places_of(indices)))

    def _places_of(self, indices: Indices) -> list[int]:
        """The environment of each of these rows."""
        return [row // self._agents for row in self._get_indices(indices)]

    def _of_rows(self, indices: Indices, ask: Callable[[list[int]], Sequence[Any]]) -> list[Any]:
        """For each row what its environment answers."""
        places = self._places_of(indices)
        envs = list(dict.fromkeys(places))
        answers = dict(zip(envs, ask(envs), strict=True))
        return [answers[place] for place in places]

    def get_images(self) -> list[Any]:
        """What each environment looks like now."""
        return self.vecenv.call("render")

    def close(self) -> None:
        """Close the vectorized environment."""
        self.vecenv.close()


class LogitsDistribution(Distribution):
    """Logits of every form of `pufferlib.pytorch.sample_logits`, as Stable-Baselines3 has them."""

    def proba_distribution_net(self) -> nn.Module:
        """Nothing: what a policy returns are the parameters."""
        return nn.Identity()

    def proba_distribution(self, logits: Logits) -> LogitsDistribution:
        """Take these logits of `B` rows."""
        self.logits = logits
        return self

    def apply_masking(self, masks: Any) -> None:
        """Rule out actions where `masks` `(B, options)` are 0; None rules nothing out."""
        if masks is not None:
            allowed = torch.as_tensor(masks, dtype=torch.bool, device=_device_of(self.logits))
            self.logits = mask_logits(self.logits, allowed.reshape(-1, allowed.shape[-1]))

    def log_prob(self, actions: Tensor) -> Tensor:
        """Of actions `(B, *action_shape)`; `(B,)`, the sum over independent parts."""
        return sample_logits(self.logits, actions)[1]

    def entropy(self) -> Tensor:
        """`(B,)`, likewise."""
        return sample_logits(self.logits, self.mode())[2]

    def sample(self) -> Tensor:
        """Actions `(B, *action_shape)`, drawn from torch's global generator."""
        return sample_logits(self.logits)[0]

    def mode(self) -> Tensor:
        """The most likely actions."""
        return greedy_actions(self.logits)

    def actions_from_params(self, logits: Logits, deterministic: bool = False) -> Tensor:
        """Actions of other logits."""
        return self.proba_distribution(logits).get_actions(deterministic)

    def log_prob_from_params(self, logits: Logits) -> tuple[Tensor, Tensor]:
        """Actions of other logits and their log-probabilities."""
        actions = self.actions_from_params(logits)
        return actions, self.log_prob(actions)


def _device_of(logits: Any) -> torch.device:
    while not isinstance(logits, Tensor):
        logits = logits[0]
    return logits.device


class PolicyAdapter:
    """What the adapters of Stable-Baselines3 and of its contributions share.

    Args:
        observation_space, action_space: of one row.
        lr_schedule: learning rate by the share of training that is left.
        policy: of which a copy is trained: `model.policy.policy`.
        options: others of `ActorCriticPolicy`, such as `optimizer_class` and `optimizer_kwargs`.

    Raises:
        APIUsageError: the policy has a memory, or none where one is expected.
    """

    has_memory = False
    action_dist: Any

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        lr_schedule: Callable[[float], float],
        policy: nn.Module,
        **options: Any,
    ) -> None:
        if is_recurrent(policy) != self.has_memory:
            raise APIUsageError(
                f"policy: expected one {'with' if self.has_memory else 'without'} memory for "
                f"{type(self).__name__}, got {type(policy).__name__}; recurrent ones are trained "
                "by RecurrentPPO with pufferlib.frameworks.sb3_contrib.RecurrentPolicy, others by "
                "PPO with pufferlib.frameworks.sb3.Policy"
            )
        options |= NO_FEATURES
        super().__init__(observation_space, action_space, lr_schedule, **options)  # type: ignore[call-arg]
        self._adopt(policy, lr_schedule)

    def _adopt(self: Any, policy: nn.Module, lr_schedule: Callable[[float], float]) -> None:
        self.policy = copy.deepcopy(policy)
        self.optimizer = self.optimizer_class(
            self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs
        )

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        """All layers are the policy's."""
        self.action_dist = LogitsDistribution()

    def _get_constructor_parameters(self: Any) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"policy": self.policy}  # type: ignore[misc]

    def _evaluate(self: Any, obs: Tensor) -> tuple[LogitsDistribution, Tensor]:
        """The distribution of the actions of rows `(B, …)`, and their values `(B, 1)`."""
        logits, values = self.policy(obs)
        return LogitsDistribution().proba_distribution(logits), values


class Policy(PolicyAdapter, ActorCriticPolicy):
    """For `PPO` and `A2C`: `policy_kwargs={"policy": policy}`.

    The policy is any module with `forward(observations) -> (logits, value)`.
    """

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions `(B, *action_shape)`, values `(B, 1)` and log-probabilities `(B,)`."""
        distribution, values = self._evaluate(obs)
        actions = distribution.get_actions(deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values `(B, 1)`, log-probabilities `(B,)` and entropies `(B,)`."""
        distribution, values = self._evaluate(obs)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Tensor) -> LogitsDistribution:
        """Of the actions."""
        return self._evaluate(obs)[0]

    def predict_values(self, obs: Tensor) -> Tensor:
        """Values `(B, 1)`."""
        return self._evaluate(obs)[1]
