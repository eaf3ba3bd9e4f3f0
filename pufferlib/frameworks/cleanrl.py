"""A policy with the methods that CleanRL's PPO scripts call.

    agent = pufferlib.frameworks.cleanrl.Policy(policy)
    action, logprob, entropy, value = agent.get_action_and_value(observations)

The policy itself stays as it is: any module whose `forward` returns `(logits, value)`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pufferlib.exceptions import APIUsageError
from pufferlib.models import is_recurrent
from pufferlib.pytorch import sample_logits

__all__ = ["Policy", "RecurrentPolicy"]


class Policy(nn.Module):
    """For CleanRL's `ppo.py` and its relatives without memory.

    Args:
        policy: `forward(observations) -> (logits, value)`; the forms of the logits are those of
            `pufferlib.pytorch.sample_logits`.

    Raises:
        APIUsageError: the policy has a memory, which would be empty at every step.
    """

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        if is_recurrent(policy):
            raise APIUsageError(
                f"policy: expected one without memory, got {type(policy).__name__}; wrap it in "
                "pufferlib.frameworks.cleanrl.RecurrentPolicy"
            )
        self.policy = policy

    def get_value(self, observations: Tensor, state: Any = None) -> Tensor:
        """The value of each row, as the policy returns it: `(B, 1)`. `state` is ignored."""
        return self.policy(observations)[1]

    def get_action_and_value(
        self, observations: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sample actions, or evaluate the given ones.

        Args:
            observations: `(B, *observation_shape)`, in the dtype of the environment.
            action: `(B, *action_shape)`; None samples.

        Returns:
            `(action, logprob (B,), entropy (B,), value (B, 1))`; a batch of one keeps its
            dimension.

        Raises:
            APIUsageError: logits of no known form, or actions that do not fit them.
        """
        logits, value = self.policy(observations)
        return *sample_logits(logits, action), value


class RecurrentPolicy(nn.Module):
    """For scripts in CleanRL's manner with a memory.

    Those of CleanRL pass `done` before the action and learn from sequences laid side by side; here
    the action comes first and `starts` by name, and sequences are `(B, T, *observation_shape)`.

    Args:
        policy: `forward(observations, state) -> (logits, value, state)`, such as
            `pufferlib.models.LSTMWrapper`; with a third argument `starts` where that is passed.
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

    def get_value(
        self, observations: Tensor, state: Any = None, starts: Tensor | None = None
    ) -> Tensor:
        """The value of each row, as the policy returns it: `(B, 1)`; see `get_action_and_value`."""
        return self._run(observations, state, starts)[1]

    def get_action_and_value(
        self,
        observations: Tensor,
        state: Any = None,
        action: Tensor | None = None,
        starts: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Any]:
        """Sample actions, or evaluate the given ones.

        Args:
            observations: `(B, *observation_shape)`, or sequences `(B, T, *observation_shape)`,
                whose rows come back side by side, `B * T` of them.
            state: as the last call returned it; None: empty.
            action: `(B, *action_shape)`, or `(B * T, *action_shape)`; None samples.
            starts: bool `(B,)` or `(B, T)`, an episode begins in the row: its state is emptied
                before. None: in none, so that what ended before is still remembered.

        Returns:
            `(action, logprob (B,), entropy (B,), value (B, 1), state)`.

        Raises:
            APIUsageError: logits of no known form, or actions that do not fit them.
        """
        logits, value, state = self._run(observations, state, starts)
        return *sample_logits(logits, action), value, state

    def _run(self, observations: Tensor, state: Any, starts: Tensor | None) -> Any:
        if starts is None:  # which a policy of one's own need not know
            return self.policy(observations, state)
        return self.policy(observations, state, starts)
