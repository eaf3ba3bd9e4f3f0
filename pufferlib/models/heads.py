"""The last layer of a policy: from hidden features to the logits of the actions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib.exceptions import APIUsageError
from pufferlib.pytorch import Logits, MixedLogits, layer_init, mask_logits
from pufferlib.spaces import Mixed, is_box, is_discrete, is_multidiscrete


class ActionHead(nn.Module):
    """The last layer of a policy: hidden features to the logits of the environment's actions.

    Continuous actions get a mean from the features and a standard deviation that is a parameter
    of its own, independent of the observation (Schulman et al. 2017, section 6.1).

    Args:
        env: anything with `single_action_space`.
        hidden_size: number of features.

    Raises:
        APIUsageError: the action space is none of Discrete, MultiDiscrete, Box, Mixed.
    """

    def __init__(self, env: Any, hidden_size: int) -> None:
        super().__init__()
        self.nvec, self.shape = action_layout(env.single_action_space)
        self.is_single_choice = is_discrete(env.single_action_space)
        if self.nvec:
            self.discrete = layer_init(nn.Linear(hidden_size, sum(self.nvec)), std=0.01)
        if self.shape is not None:
            self.mean = layer_init(nn.Linear(hidden_size, math.prod(self.shape)), std=0.01)
            self.log_std = nn.Parameter(torch.zeros(self.shape))

    def forward(self, hidden: Tensor, allowed: Tensor | None = None) -> Logits:
        """Hidden features `(B, hidden_size)` to logits for `sample_logits`.

        Args:
            hidden: the features.
            allowed: bool `(B, options)`, as for `pufferlib.pytorch.mask_logits`.
        """
        return mask_logits(self._logits(hidden), allowed)

    def _logits(self, hidden: Tensor) -> Logits:
        if self.is_single_choice:
            return self.discrete(hidden)
        if self.shape is None:
            return self._choices(hidden)
        if not self.nvec:
            return self._normal(hidden)
        return MixedLogits(self._choices(hidden), self._normal(hidden))

    def _choices(self, hidden: Tensor) -> list[Tensor]:
        return list(self.discrete(hidden).split(self.nvec, dim=-1))

    def _normal(self, hidden: Tensor) -> Normal:
        mean = self.mean(hidden).view(-1, *self.log_std.shape)
        return Normal(mean, self.log_std.exp().expand_as(mean), validate_args=False)


def action_layout(space: Any) -> tuple[list[int], tuple[int, ...] | None]:
    """The sizes of the discrete choices, and the shape of the continuous part (None: no such).

    Raises:
        APIUsageError: the action space is none of Discrete, MultiDiscrete, Box, Mixed.
    """
    if is_discrete(space):
        return [int(space.n)], None
    if is_multidiscrete(space):
        return [int(n) for n in space.nvec.ravel()], None
    if isinstance(space, Mixed):
        return list(space.nvec), (space.shape[0] - len(space.nvec),)
    if is_box(space):
        return [], space.shape
    raise APIUsageError(
        f"single_action_space: expected Discrete, MultiDiscrete, Box or Mixed, got {space}; wrap "
        "the environment in pufferlib.emulation"
    )
