"""Policy of the Box2D tasks."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import Convolutional, Default
from pufferlib.pytorch import Logits


class Policy(nn.Module):
    """Two hidden layers over the numbers of lander and walker, convolutions over the car's frames.

    Args:
        env: anything with `single_observation_space`, `single_action_space` and `emulated`.
        hidden_size: width of the hidden layers.
    """

    def __init__(self, env: Any, hidden_size: int = 128) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        has_frames = len(env.single_observation_space.shape) == 3
        self.network = (
            Convolutional(env, hidden_size) if has_frames else Default(env, hidden_size, 2)
        )

    def forward(self, observations: Tensor) -> tuple[Logits, Tensor]:
        """Observations `(B, 8)`, `(B, 24)` or `(B, frames, 96, 96)` to logits and value."""
        return self.network(observations)

    def encode_observations(self, observations: Tensor) -> Any:
        """Observations to features `(B, hidden_size)`."""
        return self.network.encode_observations(observations)

    def decode_actions(self, hidden: Tensor, lookup: Any = None) -> tuple[Logits, Tensor]:
        """Features `(B, hidden_size)` to logits and value `(B, 1)`."""
        return self.network.decode_actions(hidden, lookup)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width."""
