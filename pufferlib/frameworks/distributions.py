"""What a policy returns as rows of numbers and as a `torch.distributions.Distribution`.

Learning libraries carry the parameters of a distribution in one tensor, keep them, and build the
distribution when they need it. A policy here returns logits of one of several forms; both ways
lead through the action space, which says which form it is.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Categorical,
    Distribution,
    Independent,
    Normal,
    kl_divergence,
    register_kl,
)

from pufferlib.models.heads import action_layout
from pufferlib.pytorch import Logits, MixedLogits, greedy_actions, sample_logits
from pufferlib.spaces import is_discrete

__all__ = ["ActionDistribution", "LogitRows"]


class LogitRows:
    """Logits of every form of `sample_logits` as rows, and back.

    A row holds the logits of all choices side by side, then the means of the continuous actions,
    then the logarithms of their standard deviations.

    Args:
        space: the action space of one row.

    Attributes:
        size: numbers in a row.

    Raises:
        APIUsageError: the action space is none of Discrete, MultiDiscrete, Box, Mixed.
    """

    def __init__(self, space: Any) -> None:
        self._nvec, self._shape = action_layout(space)
        self._is_single_choice = is_discrete(space)
        self._values = 0 if self._shape is None else math.prod(self._shape)
        self.size = sum(self._nvec) + 2 * self._values

    def pack(self, logits: Logits) -> Tensor:
        """Logits of `B` rows to `(B, size)`."""
        if isinstance(logits, Tensor):
            return logits
        if isinstance(logits, Normal):
            parts = [logits.loc, logits.scale.log()]
            return torch.cat([part.flatten(1) for part in parts], dim=-1)
        if isinstance(logits, MixedLogits):
            return torch.cat([*logits.discrete, self.pack(logits.continuous)], dim=-1)
        return torch.cat(list(logits), dim=-1)

    def unpack(self, rows: Tensor) -> Logits:
        """The inverse of `pack`."""
        choices, mean, log_std = rows.split(
            [self.size - 2 * self._values, self._values, self._values], dim=-1
        )
        if self._is_single_choice:
            return choices
        if self._shape is None:
            return list(choices.split(self._nvec, dim=-1))
        shape = (len(rows), *self._shape)
        normal = Normal(mean.view(shape), log_std.exp().view(shape), validate_args=False)
        if not self._nvec:
            return normal
        return MixedLogits(list(choices.split(self._nvec, dim=-1)), normal)


class ActionDistribution(Distribution):
    """The actions that a policy takes: independent choices and normal variables.

    Samples come from torch's global generator, as those of `sample_logits`.

    Args:
        logits: `(*batch, size)` of a `LogitRows` over the same action space.
        action_space: of one row.
    """

    arg_constraints = {}
    has_rsample = False

    def __init__(self, logits: Tensor, action_space: Any) -> None:
        self._rows = LogitRows(action_space)
        self._logits = self._rows.unpack(logits.reshape(-1, self._rows.size))
        super().__init__(logits.shape[:-1], torch.Size(action_space.shape), validate_args=False)

    @property
    def mode(self) -> Tensor:
        """The most likely action."""
        return self._in_batch(greedy_actions(self._logits), self.event_shape)

    @property
    def deterministic_sample(self) -> Tensor:
        """The most likely action, as TorchRL calls it."""
        return self.mode

    @property
    def variance(self) -> Tensor:
        """That of continuous actions; nan for choices, as torch's `Categorical` says."""
        parts = [part.variance.reshape(len(part.variance), -1) for part in self.parts()]
        return self._in_batch(torch.cat(parts, dim=-1), self.event_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Actions `(*sample_shape, *batch, *action_shape)`."""
        count = math.prod(sample_shape)
        drawn = torch.stack([sample_logits(self._logits)[0] for _ in range(count)])
        return drawn.reshape(*sample_shape, *self.batch_shape, *self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """`(*batch,)`, summed over the independent parts."""
        rows = value.reshape(-1, *self.event_shape)
        return self._in_batch(sample_logits(self._logits, rows)[1])

    def entropy(self) -> Tensor:
        """`(*batch,)`, summed over the independent parts."""
        action = greedy_actions(self._logits)
        return self._in_batch(sample_logits(self._logits, action)[2])

    def parts(self) -> list[Distribution]:
        """The independent variables over `B` rows, as torch has them."""
        logits = self._logits
        if isinstance(logits, Normal):
            return [Independent(logits, logits.loc.ndim - 1)]
        if isinstance(logits, Tensor):
            return [Categorical(logits=logits)]
        if isinstance(logits, MixedLogits):
            choices = [Categorical(logits=part) for part in logits.discrete]
            return [*choices, Independent(logits.continuous, 1)]
        return [Categorical(logits=part) for part in logits]

    def _in_batch(self, rows: Tensor, shape: Any = ()) -> Tensor:
        return rows.reshape(*self.batch_shape, *shape)


@register_kl(ActionDistribution, ActionDistribution)
def _kl_divergence(p: ActionDistribution, q: ActionDistribution) -> Tensor:
    """`(*batch,)`: that of independent variables is the sum of theirs."""
    each = [kl_divergence(a, b) for a, b in zip(p.parts(), q.parts(), strict=True)]
    return p._in_batch(torch.stack(each).sum(0))
