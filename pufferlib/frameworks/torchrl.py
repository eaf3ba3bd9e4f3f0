"""TorchRL: a vectorized environment as its `EnvBase`, and a policy as its actor and critic.

    vecenv = pufferlib.vector.make(pufferlib.vector.SameStep(env_creator), num_envs=16)
    env = pufferlib.frameworks.torchrl.TorchRLEnv(vecenv)
    actor, critic = actor_critic(policy, vecenv.single_action_space)

A policy with memory needs its state in the data: `TorchRLEnv(vecenv, policy=actor)` adds TorchRL's
transforms that keep it there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete, MultiDiscrete, Space
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, TensorSpec, Unbounded
from torchrl.envs import EnvBase, TensorDictPrimer
from torchrl.modules import ProbabilisticActor, recurrent_mode

from pufferlib.environment import Infos
from pufferlib.frameworks.distributions import ActionDistribution, LogitRows
from pufferlib.frameworks.transitions import Transitions
from pufferlib.models import is_recurrent
from pufferlib.spaces import dtype_bounds, row_layout
from pufferlib.vector import VecEnv

__all__ = ["TorchRLEnv", "actor_critic"]


class TorchRLEnv(EnvBase):
    """A vectorized environment of any backend; its agents are the batch.

    An entry `mask` says which agents are present. Of games whose agents come and go, only the
    rows with `data["mask"] & data["next", "mask"]` are samples.

    Args:
        vecenv: resets in the same step: its creator was wrapped in `pufferlib.vector.SameStep`.
        device: where its tensors are.

    Attributes:
        vecenv: which the environment's `close` closes.

    Raises:
        APIUsageError: `vecenv` resets in the next step, or its batches are smaller than the pool.
    """

    def __init__(self, vecenv: VecEnv, device: Any = "cpu") -> None:
        transitions = Transitions(vecenv)
        rows = vecenv.num_agents
        super().__init__(device=device, batch_size=[rows])
        self._transitions = transitions
        self.vecenv = vecenv
        self.observation_spec = Composite(
            observation=_spec(vecenv.single_observation_space, rows),
            mask=Categorical(2, shape=(rows,), dtype=torch.bool),
            shape=(rows,),
        )
        self.action_spec = _spec(vecenv.single_action_space, rows)
        self.reward_spec = Unbounded((rows, 1))
        flag = Categorical(2, shape=(rows, 1), dtype=torch.bool)
        self.full_done_spec = Composite(
            done=flag, terminated=flag.clone(), truncated=flag.clone(), shape=(rows,)
        )

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        asked = None if tensordict is None else tensordict.get("_reset", None)
        rows = None if asked is None else asked.cpu().numpy().ravel()
        transitions = self._transitions
        transitions.reset(rows)
        return self._tensors(observation=transitions.observations, mask=transitions.masks)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        step = self._transitions.step(tensordict["action"].detach().cpu().numpy())
        return self._tensors(
            observation=step.observations,
            mask=step.masks,
            reward=step.rewards[:, None],
            done=(step.terminals | step.truncations)[:, None],
            terminated=step.terminals[:, None],
            truncated=step.truncations[:, None],
        )

    def _tensors(self, **arrays: NDArray[Any]) -> TensorDict:
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return TensorDict(tensors, self.batch_size, device=self.device)

    @property
    def infos(self) -> Infos:
        """What the environments told in the last reset or step."""
        return self._transitions.infos

    def _set_seed(self, seed: int | None) -> None:
        """For the next reset of all environments."""
        self._transitions.seed = seed

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the vectorized environment as well."""
        super().close(raise_if_closed=raise_if_closed)
        self.vecenv.close()


def _spec(space: Space[Any], rows: int) -> TensorSpec:
    shape, numpy_dtype = row_layout(space)
    dtype = torch.from_numpy(np.empty(0, numpy_dtype)).dtype
    if isinstance(space, Discrete):
        return Categorical(space.n, shape=(rows,), dtype=dtype)
    if isinstance(space, MultiDiscrete) and len(shape) == 1:
        return MultiCategorical(space.nvec, shape=(rows, *shape), dtype=dtype)
    bounds = (torch.from_numpy(np.broadcast_to(b, shape).copy()) for b in dtype_bounds(space))
    return Bounded(*bounds, shape=shape, dtype=dtype).expand(rows, *shape)


class Network(TensorDictModuleBase):
    """A policy that reads `observation` and writes the logits, or the value.

    Args:
        policy: `forward(observations) -> (logits, value)`.
        action_space: of one row.
        output: "logits" or "state_value".
    """

    def __init__(self, policy: nn.Module, action_space: Space[Any], output: str) -> None:
        super().__init__()
        self.policy: Any = policy
        self.in_keys = ["observation"]
        self.out_keys: list[Any] = [output]
        self._rows = LogitRows(action_space)
        self._output = output

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write what the policy returns."""
        return self._write(tensordict, *self.policy(_flat(tensordict, "observation")))

    def _write(self, tensordict: TensorDictBase, logits: Any, value: Tensor) -> TensorDictBase:
        rows = self._rows.pack(logits) if self._output == "logits" else value
        return tensordict.set(self._output, rows.reshape(*tensordict.shape, rows.shape[-1]))


class RecurrentNetwork(Network):
    """A policy with memory, which reads `state_0`, `state_1`, … and writes them beside the logits.

    Under TorchRL's `set_recurrent_mode(True)` it runs over data `(*batch, time)` from the state of
    the first step, and forgets where `is_init` says that an episode began. Otherwise every row has
    a state of its own.

    Args:
        policy: as `pufferlib.models.LSTMWrapper`.
        action_space, output: as for `Network`.
    """

    def __init__(self, policy: nn.Module, action_space: Space[Any], output: str) -> None:
        super().__init__(policy, action_space, output)
        self._states = [f"state_{part}" for part in range(self.policy.parts)]
        self.in_keys += [*self._states, "is_init"]
        self._acts = output == "logits"
        if self._acts:
            self.out_keys += [("next", state) for state in self._states]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write what the policy returns."""
        if recurrent_mode():
            state = self._read_state(tensordict[..., 0])
            starts = tensordict["is_init"].reshape(-1, tensordict.shape[-1])
            observations = _flat(tensordict, "observation").unflatten(0, starts.shape)
            logits, value, _ = self.policy(observations, state, starts)
            return self._write(tensordict, logits, value)
        # The state is zero where an episode begins: the primer's transform sees to it.
        state = self._read_state(tensordict)
        logits, value, state = self.policy(_flat(tensordict, "observation"), state)
        if self._acts:
            for name, part in zip(self._states, state, strict=True):
                rows = part.transpose(0, 1)  # the layers come first in a policy's state
                tensordict.set(("next", name), rows.reshape(*tensordict.shape, *rows.shape[1:]))
        return self._write(tensordict, logits, value)

    def _read_state(self, tensordict: TensorDictBase) -> tuple[Tensor, ...]:
        parts = (_flat(tensordict, name) for name in self._states)
        return tuple(part.transpose(0, 1).contiguous() for part in parts)

    def make_tensordict_primer(self) -> TensorDictPrimer:
        """The transform that puts zero states into the data where episodes begin."""
        shape = (self.policy.num_layers, self.policy.hidden_size)
        return TensorDictPrimer(
            {name: Unbounded(shape) for name in self._states}, expand_specs=True
        )


def _flat(tensordict: TensorDictBase, key: str) -> Tensor:
    """The entry with one batch dimension."""
    entry = tensordict[key]
    return entry.reshape(-1, *entry.shape[tensordict.ndim :])


def actor_critic(policy: nn.Module, action_space: Space[Any]) -> tuple[ProbabilisticActor, Network]:
    """An unchanged policy as TorchRL's losses want it; both share its parameters.

    Give `GAE` the option `deactivate_vmap=True`: rows of bytes cannot be reinterpreted in `vmap`.

    Args:
        policy: as for `Network`, or with memory.
        action_space: `vecenv.single_action_space`.

    Returns:
        the actor, which writes `action` and `action_log_prob`, and the critic, which writes
        `state_value`.
    """
    network = RecurrentNetwork if is_recurrent(policy) else Network
    actor = ProbabilisticActor(
        network(policy, action_space, "logits"),
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=ActionDistribution,
        distribution_kwargs={"action_space": action_space},
        return_log_prob=True,
    )
    return actor, network(policy, action_space, "state_value")
