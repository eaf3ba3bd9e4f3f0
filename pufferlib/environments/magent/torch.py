"""Policy of MAgent's games."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.models import ActionHead
from pufferlib.models.masked import MaskedPolicy
from pufferlib.pytorch import layer_init


class Policy(MaskedPolicy):
    """Two convolutions over the squares around an agent, shared by all agents.

    Args:
        env: its observations are `(height, width, planes)`, at least 5 squares high and wide.
        hidden_size: width of the layer after the convolutions.
        channels: planes of each convolution.
    """

    def __init__(self, env: Any, hidden_size: int = 128, channels: int = 32) -> None:
        super().__init__(env)
        self.hidden_size = hidden_size
        height, width, planes = env.single_observation_space.shape
        convolutions = nn.Sequential(
            layer_init(nn.Conv2d(planes, channels, 3)),
            nn.ReLU(),
            layer_init(nn.Conv2d(channels, channels, 3, stride=2)),
            nn.ReLU(),
            nn.Flatten(),
        )
        features = convolutions(torch.zeros(1, planes, height, width)).shape[1]
        self.encoder = nn.Sequential(
            *convolutions, layer_init(nn.Linear(features, hidden_size)), nn.ReLU()
        )
        self.action_head = ActionHead(env, hidden_size)
        self.value_head = layer_init(nn.Linear(hidden_size, 1), std=1.0)

    def encode_features(self, observations: Tensor) -> Tensor:
        """Squares `(B, height, width, planes)` to features `(B, hidden_size)`."""
        return self.encoder(observations.float().permute(0, 3, 1, 2))


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: who was in sight a moment ago."""
