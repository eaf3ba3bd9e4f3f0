"""The contributions to Stable-Baselines3: PPO with a memory, and with masks of actions.

    RecurrentPPO(RecurrentPolicy, envs, policy_kwargs={"policy": policy})
    MaskablePPO(MaskablePolicy, envs, policy_kwargs={"policy": policy})

`envs` is a `pufferlib.frameworks.sb3.SB3VecEnv`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from torch import Tensor

from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks.sb3 import LogitsDistribution, PolicyAdapter
from pufferlib.models import is_recurrent

__all__ = ["MaskablePolicy", "RecurrentPolicy"]

State = tuple[Tensor, ...]


class RecurrentPolicy(PolicyAdapter, RecurrentActorCriticPolicy):
    """For `RecurrentPPO`; actor and critic share the memory.

    The policy is such as `pufferlib.models.LSTMWrapper` and `MinGRUWrapper`, whose memory is of
    one or two tensors: of one's own it has `parts`, `num_layers` and `hidden_size` as
    `pufferlib.models.RecurrentWrapper` has them.

    Raises:
        APIUsageError: the policy has no memory, or none of this form.
    """

    has_memory = True

    def __init__(self, *args: Any, policy: Any, **options: Any) -> None:
        _require_state_of_two(policy)
        options |= {"shared_lstm": True, "enable_critic_lstm": False}
        options["policy"] = policy
        options["lstm_hidden_size"] = getattr(policy, "hidden_size", 1)  # what has none is refused
        options["n_lstm_layers"] = getattr(policy, "num_layers", 1)
        super().__init__(*args, **options)

    def _adopt(self: Any, policy: Any, lr_schedule: Callable[[float], float]) -> None:
        del self.lstm_actor  # made by the constructor; RecurrentPPO reads its sizes
        self.lstm_actor = SimpleNamespace(
            num_layers=policy.num_layers, hidden_size=policy.hidden_size
        )
        super()._adopt(policy, lr_schedule)

    def forward(
        self,
        obs: Tensor,
        lstm_states: RNNStates,
        episode_starts: Tensor,
        deterministic: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, RNNStates]:
        """Actions `(B, *action_shape)`, values `(B, 1)`, log-probabilities `(B,)` and states."""
        distribution, values, state = self._run(obs, lstm_states.pi, episode_starts)
        actions = distribution.get_actions(deterministic)
        return actions, values, distribution.log_prob(actions), RNNStates(state, state)

    def evaluate_actions(
        self, obs: Tensor, actions: Tensor, lstm_states: RNNStates, episode_starts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Values `(B * T, 1)`, log-probabilities `(B * T,)` and entropies of `B` sequences.

        The rows of a sequence are side by side; the states are those before its first row.
        """
        distribution, values, _ = self._run(obs, lstm_states.pi, episode_starts)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(
        self, obs: Tensor, lstm_states: State, episode_starts: Tensor
    ) -> tuple[LogitsDistribution, State]:
        """Of the actions, and the state after them."""
        distribution, _, state = self._run(obs, lstm_states, episode_starts)
        return distribution, state

    def predict_values(self, obs: Tensor, lstm_states: State, episode_starts: Tensor) -> Tensor:
        """Values `(B, 1)`."""
        return self._run(obs, lstm_states, episode_starts)[1]

    def _run(
        self: Any, obs: Tensor, pair: State, starts: Tensor
    ) -> tuple[LogitsDistribution, Tensor, State]:
        """Act in sequences from a state of two tensors; a memory of one stands there twice."""
        batch = pair[0].shape[1]
        sequences = obs.reshape(batch, -1, *self.observation_space.shape)
        logits, values, state = self.policy(
            sequences, pair[: self.policy.parts], starts.bool().reshape(batch, -1)
        )
        distribution = LogitsDistribution().proba_distribution(logits)
        return distribution, values, (state[0], state[-1])


def _require_state_of_two(policy: Any) -> None:
    """RecurrentPPO keeps two tensors of one size for each step."""
    if not is_recurrent(policy):
        return  # is refused with what to do instead
    missing = [name for name in ("parts", "num_layers", "hidden_size") if not hasattr(policy, name)]
    if missing or policy.parts > 2:
        got = f"none of {missing}" if missing else f"a state of {policy.parts} tensors"
        raise APIUsageError(
            f"policy: expected the attributes `parts` (1 or 2), `num_layers` and `hidden_size` of "
            f"pufferlib.models.RecurrentWrapper, got {got} in {type(policy).__name__}"
        )


class MaskablePolicy(PolicyAdapter, MaskableActorCriticPolicy):
    """For `MaskablePPO`.

    The policy is any module with `forward(observations) -> (logits, value)`; it need not know of
    masks. One that does obeys them with `PPO` as well.
    """

    def forward(
        self, obs: Tensor, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Actions `(B, *action_shape)`, values `(B, 1)` and log-probabilities `(B,)`."""
        distribution, values = self._mask(obs, action_masks)
        actions = distribution.get_actions(deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: Tensor, actions: Tensor, action_masks: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Values `(B, 1)`, log-probabilities `(B,)` and entropies `(B,)`."""
        distribution, values = self._mask(obs, action_masks)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Tensor, action_masks: Any = None) -> LogitsDistribution:
        """Of the actions that are allowed."""
        return self._mask(obs, action_masks)[0]

    def predict_values(self, obs: Tensor) -> Tensor:
        """Values `(B, 1)`."""
        return self._mask(obs, None)[1]

    def _mask(self, obs: Tensor, action_masks: Any) -> tuple[LogitsDistribution, Tensor]:
        distribution, values = self._evaluate(obs)
        distribution.apply_masking(action_masks)
        return distribution, values
