"""What policies in two halves share: the mask of the actions goes past the network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from pufferlib.emulation.masks import ACTION_MASK
from pufferlib.models.heads import ActionHead
from pufferlib.pytorch import Logits, NativeDtype, mask_layout, nativize_dtype, unpack_mask


class MaskedPolicy(nn.Module, ABC):
    """A policy in two halves, whose encoder hands the mask of the actions to its decoder.

    A subclass has the modules `action_head` and `value_head`.

    Args:
        env: anything with `emulated`.
    """

    action_head: ActionHead
    value_head: nn.Module

    def __init__(self, env: Any) -> None:
        super().__init__()
        self.mask_layout = mask_layout(env.emulated)
        self.native_dtype = _without_mask(nativize_dtype(env.emulated), self.mask_layout)

    @abstractmethod
    def encode_features(self, observations: Tensor) -> Tensor:
        """Observations `(B, *observation_shape)` of any dtype to features `(B, hidden_size)`."""

    def encode_observations(self, observations: Tensor) -> Tensor | tuple[Tensor, Tensor | None]:
        """Features `(B, hidden_size)`, with the mask `(B, options)` if there is one."""
        hidden = self.encode_features(observations)
        if self.mask_layout is None:
            return hidden
        return hidden, unpack_mask(observations, self.mask_layout)

    def decode_actions(self, hidden: Tensor, lookup: Any = None) -> tuple[Logits, Tensor]:
        """Features `(B, hidden_size)` and the mask, if any, to logits and value `(B, 1)`."""
        return self.action_head(hidden, lookup), self.value_head(hidden)

    def forward(self, observations: Tensor) -> tuple[Logits, Tensor]:
        """Observations `(B, *observation_shape)` to logits and value `(B, 1)`."""
        return self.decode_actions(*with_lookup(self.encode_observations(observations)))


def with_lookup(encoded: Any) -> tuple[Tensor, Any]:
    """Features `(B, hidden_size)` and what goes past the network, None where there is nothing."""
    return encoded if isinstance(encoded, tuple) else (encoded, None)


def _without_mask(native_dtype: NativeDtype | None, mask: Any) -> NativeDtype | None:
    """The layout of what a network reads: everything but the mask."""
    if native_dtype is None or mask is None:
        return native_dtype
    return {name: leaf for name, leaf in native_dtype.items() if name != ACTION_MASK}
