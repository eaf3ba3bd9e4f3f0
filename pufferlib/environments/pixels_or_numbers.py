"""The policy of families of which some tasks are seen as pixels and others as numbers."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pufferlib.models import Convolutional, Default
from pufferlib.models.masked import MaskedPolicy


class PixelsOrNumbers(MaskedPolicy):
    """Convolutions over stacked frames, two hidden layers over anything else.

    Args:
        env: anything with `single_observation_space`, `single_action_space` and `emulated`.
        hidden_size: width of the hidden layers.
    """

    def __init__(self, env: Any, hidden_size: int) -> None:
        super().__init__(env)
        self.hidden_size = hidden_size
        sees_pixels = len(env.single_observation_space.shape) == 3
        self.network = (
            Convolutional(env, hidden_size) if sees_pixels else Default(env, hidden_size, 2)
        )
        self.action_head = self.network.action_head
        self.value_head = self.network.value_head

    def encode_features(self, observations: Tensor) -> Tensor:
        """Frames `(B, depth, H, W)` uint8 or numbers `(B, …)` float to `(B, hidden_size)`."""
        return self.network.encode_features(observations)
