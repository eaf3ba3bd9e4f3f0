"""A policy with the methods that CleanRL's PPO scripts call.

    agent = pufferlib.frameworks.cleanrl.Policy(policy)
    action, logprob, entropy, value = agent.get_action_and_value(observations)

The policy itself stays as it is: any module whose `forward` returns `(logits, value)`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pufferlib.exceptions import APIUsageError
from pufferlib.pytorch import sample_logits

__all__ = ["Policy", "RecurrentPolicy"]


class Policy(nn.Module):
    """For CleanRL's `ppo.py` and its relatives without memory.

    Args:
        policy: `forward(observations) -> (logits, value)`; the forms of the logits are those of
            `pufferlib.pytorch.sample_logits`.
    """

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def get_value(self, observations: Tensor, state: Any = None) -> Tensor:
        """The value of each row, as the policy returns it: `(B, 1)`. `state` is ignored."""
        return self.policy(observations)[1]

    def get_action_and_value(
        self, observations: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sample actions, or evaluate the given ones.

        Returns:
            `(action, logprob (B,), entropy (B,), value (B, 1))`; a batch of one keeps its
            dimension.
        """
        logits, value = self.policy(observations)
        return *sample_logits(logits, action), value


class RecurrentPolicy(nn.Module):
    """For CleanRL's scripts with an LSTM.

    Args:
        policy: `forward(observations, state) -> (logits, value, state)`, such as
            `pufferlib.models.LSTMWrapper`.
    """

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    @property
    def lstm(self) -> nn.Module:
        """The recurrent layer: the scripts read its `hidden_size` and `num_layers`.

        Raises:
            APIUsageError: the policy has neither `recurrent` nor `lstm`.
        """
        for name in ("recurrent", "lstm"):
            if hasattr(self.policy, name):
                return getattr(self.policy, name)
        raise APIUsageError(
            f"{type(self.policy).__name__}: expected a recurrent layer called `recurrent` or "
            "`lstm`; wrap the policy in pufferlib.models.LSTMWrapper"
        )

    def get_value(self, observations: Tensor, state: Any = None) -> Tensor:
        """The value of each row, as the policy returns it: `(B, 1)`."""
        return self.policy(observations, state)[1]

    def get_action_and_value(
        self, observations: Tensor, state: Any = None, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Any]:
        """Sample actions, or evaluate the given ones.

        Returns:
            `(action, logprob (B,), entropy (B,), value (B, 1), state)`.
        """
        logits, value, state = self.policy(observations, state)
        return *sample_logits(logits, action), value, state
