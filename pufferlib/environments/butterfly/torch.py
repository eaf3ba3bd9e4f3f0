"""Policy of the Butterfly games."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Convolutional, Default
from pufferlib.models.masked import MaskedPolicy


class Policy(MaskedPolicy):
    """Convolutions over stacked frames, two layers over a table of positions.

    Args:
        env: anything with `single_observation_space` and `single_action_space`.
        hidden_size: width of the layers.
    """

    def __init__(self, env: Any, hidden_size: int = 256) -> None:
        super().__init__(env)
        self.hidden_size = hidden_size
        sees_pixels = len(env.single_observation_space.shape) == 3
        self.network = (
            Convolutional(env, hidden_size) if sees_pixels else Default(env, hidden_size, 2)
        )
        self.action_head = self.network.action_head
        self.value_head = self.network.value_head

    def encode_features(self, observations: Tensor) -> Tensor:
        """Frames `(B, depth, H, W)` or positions `(B, entities, 5)` to `(B, hidden_size)`."""
        return self.network.encode_features(observations)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: where the ball and the zombies were going."""
