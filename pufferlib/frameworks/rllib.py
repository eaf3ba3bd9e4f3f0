"""RLlib: our environments under its names, and a policy as its `RLModule`.

    pufferlib.frameworks.rllib.register("squared", env_creator)
    config = (
        PPOConfig()
        .environment("squared")
        .rl_module(rl_module_spec=module_spec(make_policy, env_creator))
    )

`make_policy(env)` returns any policy of this library, recurrent or not. With
`.env_runners(gym_env_vectorize_mode="vector_entry_point", num_envs_per_env_runner=16)` the
environments of a runner are stepped by `pufferlib.vector`. A parallel PettingZoo environment is
trained with `.multi_agent(policies={"shared"}, policy_mapping_fn=…)`.

Ray's releases want another Gymnasium than other environments here: see constraints/rllib.txt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchDeterministic,
    TorchDistribution,
)
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune import register_env
from torch import Tensor, nn

from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.frameworks.distributions import ActionDistribution, LogitRows
from pufferlib.frameworks.gymnasium import make_vec
from pufferlib.models import is_recurrent
from pufferlib.spaces import row_layout

__all__ = ["Distribution", "Module", "MultiAgent", "module_spec", "register"]


def register(name: str, env_creator: Callable[..., Any], **options: Any) -> None:
    """Give environments a name for `AlgorithmConfig.environment(name, env_config={…})`.

    Args:
        name: of RLlib's registry.
        env_creator: makes a `GymnasiumPufferEnv`, a `PettingZooPufferEnv`, or an environment of
            Gymnasium's API; called with `env_config` as keywords.
        options: of `pufferlib.vector.make`, such as `backend`, where RLlib asks for many at once.
    """
    register_env(name, functools.partial(_make, env_creator, options))


def _make(creator: Callable[..., Any], options: Mapping[str, Any], config: Any) -> Any:
    """One environment, or as many as RLlib's runner writes into the configuration."""
    kwargs = dict(config)
    num_envs = kwargs.pop("num_envs", None)
    if num_envs is not None:
        return make_vec(creator, num_envs, env_kwargs=kwargs, **options)
    env = creator(**kwargs)
    return MultiAgent(env) if isinstance(env, PettingZooPufferEnv) else env


class MultiAgent(MultiAgentEnv):
    """An emulated PettingZoo environment; RLlib sees the agents that are present.

    Args:
        env: the environment.
    """

    def __init__(self, env: PettingZooPufferEnv) -> None:
        super().__init__()
        self.env = env
        self.possible_agents = list(env.possible_agents)
        self.agents = self.possible_agents
        self.observation_spaces, self.action_spaces = (
            {agent: space_of(agent) for agent in self.possible_agents}
            for space_of in (env.observation_space, env.action_space)
        )
        self._places = {agent: row for row, agent in enumerate(self.possible_agents)}
        shape, dtype = row_layout(env.single_action_space)
        self._actions: NDArray[Any] = np.zeros((len(self._places), *shape), dtype)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """First observations and infos of the agents that are present."""
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._present(observations), self._present(infos)

    def step(self, action_dict: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Act for the agents that are present; `__all__` is set where the episode ends."""
        for agent, action in action_dict.items():
            self._actions[self._places[agent]] = action
        results = [self._present(part) for part in self.env.step(self._actions)]
        observations, rewards, terminals, truncations, infos = results
        truncated = self.env.done and any(truncations.values())
        truncations["__all__"] = truncated
        terminals["__all__"] = self.env.done and not truncated
        return observations, rewards, terminals, truncations, infos

    def _present(self, entries: Mapping[Any, Any]) -> dict[Any, Any]:
        masks = self.env.masks
        return {agent: entry for agent, entry in entries.items() if masks[agent]}

    def render(self) -> Any:
        """What the environment looks like now."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class Distribution(TorchDistribution):
    """`ActionDistribution` with RLlib's methods."""

    def _get_torch_distribution(self, logits: Tensor, action_space: Any) -> ActionDistribution:
        return ActionDistribution(logits, action_space)

    def to_deterministic(self) -> TorchDeterministic:
        """The most likely actions."""
        return TorchDeterministic(self._dist.mode)

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:  # noqa: ARG004 - as in its base
        """Numbers in a row of logits."""
        return LogitRows(space).size


class Module(TorchRLModule, ValueFunctionAPI):
    """An unchanged policy; `module_spec` says how to make one.

    The state of a recurrent policy is a dict `{"0": …, "1": …}` of parts
    `(B, num_layers, hidden_size)`.
    """

    def setup(self) -> None:
        """Make the policy that the model's configuration names."""
        env = SimpleNamespace(
            single_observation_space=self.observation_space,
            single_action_space=self.action_space,
            emulated=self.model_config["emulated"],
        )
        self.policy = self.model_config["policy_creator"](env)
        self.action_dist_cls = Distribution.get_partial_dist_cls(action_space=self.action_space)
        self._rows = LogitRows(self.action_space)

    def get_initial_state(self) -> dict[str, NDArray[np.float32]]:
        """Zeros, without a batch dimension; empty for a policy without memory."""
        if not is_recurrent(self.policy):
            return {}
        shape = (self.policy.num_layers, self.policy.hidden_size)
        return {str(part): np.zeros(shape, np.float32) for part in range(self.policy.parts)}

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        logits, _, state = self._run(batch)
        outputs: dict[str, Any] = {Columns.ACTION_DIST_INPUTS: logits}
        return outputs | ({Columns.STATE_OUT: state} if state else {})

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        logits, value, _ = self._run(batch)
        # RLlib hands this to `compute_values`, which need not run the policy again then.
        return {Columns.ACTION_DIST_INPUTS: logits, Columns.EMBEDDINGS: value}

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """The values `(B,)` or `(B, T)` of a batch."""
        return self._run(batch)[1] if embeddings is None else embeddings

    def _run(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Logits `(B, size)` or `(B, T, size)`, values, and the next state."""
        observations = batch[Columns.OBS]
        if not is_recurrent(self.policy):
            logits, value = self.policy(observations)
            return self._rows.pack(logits), value.squeeze(-1), {}
        parts = batch[Columns.STATE_IN].values()  # the layers come first in a policy's state
        state = tuple(part.transpose(0, 1).contiguous() for part in parts)
        logits, value, state = self.policy(observations, state)
        shape = observations.shape[:2]
        return (
            self._rows.pack(logits).reshape(*shape, -1),
            value.reshape(shape),
            {str(name): part.transpose(0, 1) for name, part in enumerate(state)},
        )


def module_spec(
    policy_creator: Callable[[Any], nn.Module],
    env_creator: Callable[..., Any],
    max_seq_len: int = 20,
) -> RLModuleSpec:
    """What `AlgorithmConfig.rl_module` takes; the environment is made once to be looked at.

    Args:
        policy_creator: makes the policy from an object with `single_observation_space`,
            `single_action_space` and `emulated`, such as `pufferlib.models.Default`.
        env_creator: as for `register`.
        max_seq_len: steps over which a recurrent policy is trained.
    """
    env = env_creator()
    emulated = getattr(env, "emulated", None)
    env.close()
    return RLModuleSpec(
        module_class=Module,
        model_config={
            "policy_creator": policy_creator,
            "emulated": emulated,
            "max_seq_len": max_seq_len,
        },
    )
